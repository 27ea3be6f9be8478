#![doc = include_str!("../README.md")]

mod engine;

pub use engine::{migrate, open, plan};
