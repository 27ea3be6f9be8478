#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod documents;
mod error;
mod migrate;
mod provider;
mod query;
mod statements;

pub use config::{Host, Password, PostgresConfig, Server, Tls, TlsMode};
pub use migrate::{migrate, plan, remove};
pub use provider::PostgresMemory;
