#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod documents;
mod error;
mod inspect;
mod migrate;
mod pool;
mod provider;
mod query;
mod slices;
mod statements;
mod writing;

pub use config::{PostgresConfig, Server, Tls, TlsMode};
pub use inspect::inspect;
pub use memory_core::{Host, Password};
pub use migrate::{migrate, plan, remove};
pub use provider::PostgresMemory;
