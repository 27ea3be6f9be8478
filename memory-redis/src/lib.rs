#![doc = include_str!("../README.md")]

mod cluster;
mod config;
mod connection;
mod engine;
mod erasure;
mod error;
mod expiry;
mod feed;
mod history;
mod link;
mod read;
mod rows;
mod schema;
mod statements;
mod tombstone;
mod vectors;
mod write;

pub use config::{Login, RedisConfig, Tls, Topology, Wait};
pub use engine::{RedisEngine, RedisMemory, open};
pub use memory_core::{Host, Password};
pub use schema::{inspect, migrate, plan, remove};
