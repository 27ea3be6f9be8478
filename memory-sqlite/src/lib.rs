#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod documents;
mod error;
mod inspect;
mod migrate;
mod paths;
mod provider;
mod query;
mod slots;
mod statements;

pub use config::{Location, SqliteConfig};
pub use inspect::inspect;
pub use migrate::{migrate, plan, remove};
pub use provider::SqliteMemory;
