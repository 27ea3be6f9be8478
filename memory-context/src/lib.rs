#![doc = include_str!("../README.md")]

pub mod actions;
mod deadline;
mod documents;
pub mod embedding;
pub mod flow;
mod hash;
pub mod prompt;
pub mod providers;
mod question;
pub mod records;
pub mod state;
pub mod template;
