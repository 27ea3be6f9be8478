//! What an engine gives to be tried on images.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::image::Image;
use crate::harness::Harness;

/// How an engine comes up behind a loss of power.
#[async_trait]
pub trait Machine: fmt::Debug + Send + Sync {
    /// Lets it come up on a copy of these files. An error is a failure of the engine, which could not.
    async fn boot(&self, image: &Image) -> Result<Booted, Box<dyn std::error::Error + Send + Sync>>;
}

/// An engine that has come up.
#[derive(Debug)]
pub struct Booted {
    /// Of the data: equal numbers mean equal data, so that it is compared once.
    pub digest: u64,
    /// Opens it, under the namespace that was recorded. It removes nothing.
    pub harness: Arc<dyn Harness>,
}
