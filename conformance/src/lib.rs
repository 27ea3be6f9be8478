#![doc = include_str!("../README.md")]
// Cases and their fixtures panic on purpose: that is how they fail.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod case;
mod cases;
mod fixture;
pub mod golden;
mod harness;
mod model;
mod rules;
mod runner;
pub mod server;
pub mod workload;

pub use case::{Case, CaseResult, Needs, Stage};
pub use cases::all as all_cases;
pub use harness::{Harness, Namespace};
pub use model::play_random_sequences;
pub use rules::{CONTRACT, rules};
pub use runner::{run, run_case};
