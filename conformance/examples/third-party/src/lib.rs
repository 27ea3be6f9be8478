#![doc = include_str!("../README.md")]

mod engine;
mod error;
mod read;
mod tables;
mod write;

pub use engine::{Redb, RedbConfig};

/// A provider that keeps everything in one file of redb.
pub type RedbMemory = memory_core::engine::Provider<Redb>;
