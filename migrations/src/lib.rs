#![doc = include_str!("../README.md")]

mod migration;
mod pending;
mod runner;
mod schemas;
mod target;

pub use migration::Migration;
pub use runner::{Report, migrate, plan};
pub use schemas::{mongo, postgres, redis, sqlite};
pub use target::{Applied, Target};
