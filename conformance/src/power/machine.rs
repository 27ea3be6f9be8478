//! What an engine implements to be tested for loss of power.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::image::Image;
use crate::harness::Harness;

/// Starts an engine on the files that a loss of power has left.
#[async_trait]
pub trait Machine: fmt::Debug + Send + Sync {
    /// Starts the engine on a copy of these files. An error means that the engine could not start, which is a failure of the engine.
    async fn boot(&self, image: &Image) -> Result<Booted, Box<dyn std::error::Error + Send + Sync>>;
}

/// An engine that has started on an image.
#[derive(Debug)]
pub struct Booted {
    /// A digest of the data. Images with equal digests hold equal data, which is compared only once.
    pub digest: u64,
    /// The harness to open the engine, under the namespace that was recorded. Its `remove` removes nothing.
    pub harness: Arc<dyn Harness>,
}
