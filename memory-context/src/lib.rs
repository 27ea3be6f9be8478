#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

pub mod agent;
mod deadline;
mod documents;
pub mod embedding;
pub mod flow;
mod hash;
pub mod prompt;
pub mod providers;
pub mod records;
pub mod state;
pub mod template;
pub mod tool;

pub use memory_core as core;
pub use memory_core::{Error, ErrorKind, Result};
pub use memory_model as model;

/// The Rust of the guide is tested with that of this crate, whose tests have every engine.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/runtimes.md")]
mod guide {}
