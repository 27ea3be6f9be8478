#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod actions;
mod builder;
mod claim;
mod context;
mod engine;
#[cfg(feature = "http")]
mod http_trigger;
mod intake;
mod lease;
mod leases;
mod memory_manager;
mod model_planner;
mod pipeline;
mod place;
mod planner;
mod runtime;
mod sandbox;
mod scheduler;
mod scoped_memory;
mod settings;
mod space;
mod task;
mod trigger;
mod worker;

pub use actions::Actions;
pub use builder::RuntimeBuilder;
pub use claim::{Claim, TASK};
pub use context::{ContextContent, ContextItem, ContextKind};
pub use engine::{EngineUrl, inspect, migrate, open, plan};
#[cfg(feature = "http")]
pub use http_trigger::{HttpReply, HttpTrigger};
pub use lease::Lease;
pub use leases::Leases;
pub use memory_model as model;
#[cfg(feature = "openai")]
pub use memory_model::openai;
pub use memory_model::{Model, Schema};
pub use model_planner::{ModelPlanner, Replanning};
pub use pipeline::{Pipeline, Step};
pub use planner::{FixedPlanner, Planner};
pub use runtime::Runtime;
pub use sandbox::Sandbox;
pub use scoped_memory::ScopedMemory;
pub use space::Space;
pub use task::{Finished, NewTask, Task, TaskHandle};
pub use trigger::{TaskIntake, TaskSender, TriggerSource};
