#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod documents;
mod error;
mod inspect;
mod ledger;
mod link;
mod migrate;
mod provider;
mod query;
mod rows;
mod statements;
mod walk;

pub use config::{Login, RedisConfig, Tls, Topology, Wait};
pub use inspect::inspect;
pub use memory_core::{Host, Password};
pub use migrate::{migrate, plan, remove};
pub use provider::RedisMemory;
