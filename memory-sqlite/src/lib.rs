#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod engine;
mod erasure;
mod error;
mod expiry;
mod feed;
mod history;
mod marks;
mod paths;
mod read;
mod schema;
mod slots;
mod statements;
mod tombstones;
mod vectors;
mod write;

pub use config::{Location, SqliteConfig};
pub use engine::{SqliteEngine, SqliteMemory, open};
pub use schema::{inspect, migrate, plan, remove};
