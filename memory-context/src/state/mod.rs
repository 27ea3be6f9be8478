//! State composition: collects what an agent knows when it answers a message.
//!
//! Begin with [`Composer`]. [`ContextProvider`]s contribute values, data and text for a message, and
//! [`compose_state`](Composer::compose_state) merges them into one [`State`].

mod action;
mod budget;
mod cache;
mod character;
mod composed;
mod composer;
mod cx;
mod evaluator;
mod merge;
mod options;
mod parts;
mod plugin;
mod provider;
mod render;
mod services;

pub(crate) use action::cut;
pub use action::{ActionPlan, ActionState, ExampleMessage, MAX_RESULT, Note, PlanStep, StepStatus, ToolResult};
pub use budget::Budget;
pub use cache::StateCache;
pub use character::{Character, Style};
pub use composed::{Collision, Cut, ProviderOutcome, ProviderStatus, State};
pub use composer::{Composer, ComposerBuilder};
pub use cx::{Cx, Snapshot, StateData, Turn};
pub use evaluator::{Evaluation, Evaluator, EvaluatorExample, EvaluatorInfo, Voice};
pub use options::ComposeOptions;
pub use parts::{ContextPart, ContextParts};
pub use plugin::{ContextPlugin, PLUGIN_DEADLINE};
pub use provider::{ContextProvider, Keep, PROVIDER_DEADLINE, ProviderInfo, ProviderResult, Stability, Values};
pub(crate) use services::Flow;
pub use services::{Service, Services};
