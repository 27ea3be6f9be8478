#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod election;
mod engine;
mod erasure;
mod error;
mod expiry;
mod feed;
mod find;
mod history;
mod read;
mod row;
mod schema;
mod settings;
mod statements;
mod vectors;
mod write;

pub use config::{MongoConfig, Server};
pub use engine::{MongoEngine, MongoMemory, open};
pub use schema::{inspect, migrate, plan, remove};
