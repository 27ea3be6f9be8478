#![doc = include_str!("../README.md")]

mod pending;
mod runner;
mod schemas;
mod step;
mod target;

pub use runner::{Report, migrate, plan};
pub use schemas::{
    ERASURE, EXPIRY, FEED, HISTORY, NO_WORDS, PATHS, READ_ONLY, VECTORS, WRITER, mongo, postgres, redis, sqlite,
};
pub use step::{Kind, Step};
pub use target::{Applied, Target};
