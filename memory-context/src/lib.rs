#![doc = include_str!("../README.md")]

mod deadline;
mod documents;
pub mod embedding;
mod hash;
pub mod prompt;
pub mod providers;
pub mod records;
pub mod state;
pub mod template;
