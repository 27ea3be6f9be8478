#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod engine;
mod erasure;
mod error;
mod expiry;
mod feed;
mod history;
mod pool;
mod read;
mod row;
mod schema;
mod slices;
mod statements;
mod vectors;
mod write;

pub use config::{PostgresConfig, Server, Tls, TlsMode};
pub use engine::{PostgresEngine, PostgresMemory, open};
pub use memory_core::{Host, Password};
pub use schema::{inspect, migrate, plan, remove};
