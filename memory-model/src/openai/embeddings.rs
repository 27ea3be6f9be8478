//! An embedder behind an endpoint that speaks OpenAI's embeddings.

use async_trait::async_trait;
use memory_core::Result;
use serde::Deserialize;
use serde_json::json;

use super::config::OpenAiConfig;
use super::endpoint::{Endpoint, unexpected};
use crate::embedder::Embedder;

/// An [`Embedder`] that asks the endpoint once for each call.
#[derive(Debug)]
pub struct OpenAiEmbedder {
    endpoint: Endpoint,
    model: String,
    width: usize,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl OpenAiEmbedder {
    /// Makes a client; asks nobody yet. The width is that of the model's vectors. `InvalidInput` for a URL that is none.
    pub fn new(config: OpenAiConfig, width: usize) -> Result<Self> {
        Ok(Self { endpoint: Endpoint::new(&config, "embeddings")?, model: config.model, width })
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn width(&self) -> usize {
        self.width
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let asked = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
        let body = self.endpoint.post(&asked).await?;
        let no_embeddings = || unexpected("the endpoint's answer holds no embeddings");
        let mut answer: Answer = serde_json::from_slice(&body).map_err(|_| no_embeddings())?;
        answer.data.sort_by_key(|embedding| embedding.index);
        // Each index once, so that no text gets the vector of another.
        if !answer.data.iter().map(|embedding| embedding.index).eq(0..texts.len()) {
            return Err(no_embeddings());
        }
        Ok(answer.data.into_iter().map(|embedding| embedding.embedding).collect())
    }
}
