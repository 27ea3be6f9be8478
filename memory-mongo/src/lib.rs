#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod documents;
mod error;
mod inspect;
mod migrate;
mod provider;
mod query;
mod statements;
mod text;
mod writing;

pub use config::{MongoConfig, Server};
pub use inspect::inspect;
pub use migrate::{migrate, plan, remove};
pub use provider::MongoMemory;
