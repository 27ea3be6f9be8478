#![doc = include_str!("../README.md")]

mod engine;
mod sandbox;

pub use engine::{migrate, open, plan};
pub use sandbox::Sandbox;
