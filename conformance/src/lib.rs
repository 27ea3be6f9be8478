#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
// Cases and their fixtures panic on purpose: that is how they fail.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[cfg(feature = "workload")]
pub mod allocations;
#[cfg(feature = "bench")]
pub mod bench;
mod case;
mod cases;
mod embedder;
#[cfg(feature = "faults")]
pub mod fault;
mod fixture;
pub mod golden;
mod harness;
pub mod ledgers;
mod model;
mod namespace;
#[cfg(all(feature = "power", target_os = "linux"))]
pub mod power;
mod random;
mod reference;
mod report;
mod rules;
mod runner;
pub mod server;
mod trials;
#[cfg(feature = "workload")]
pub mod workload;

pub use case::{Case, CaseResult, Needs, Settings, Stage};
pub use cases::all as all_cases;
pub use harness::Harness;
pub use model::{Soak, SoakState, play_random_sequences, soak};
pub use namespace::Namespace;
pub use reference::Reference;
pub use report::{CaseOutcome, CaseReport, Counts, Engine, Plan, Report, SlowCase, Verdict};
pub use rules::{CONTRACT, rules};
pub use runner::{Outcome, run_case};
pub use trials::run;
