//! An embedder behind an endpoint that speaks OpenAI's embeddings.

use async_trait::async_trait;
use memory_core::Result;
use serde::Deserialize;
use serde_json::json;

use super::config::OpenAiConfig;
use super::endpoint::{Endpoint, unexpected};
use crate::retry::Retrying;
use memory_core::Embedder;

/// An [`Embedder`] behind an endpoint; it retries calls as the [`Retries`](crate::Retries) of its configuration say.
#[derive(Debug)]
pub struct OpenAiEmbedder(Retrying<Embeddings>);

/// The embedder without retries.
#[derive(Debug)]
struct Embeddings {
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
    /// Makes a client without connecting. `width` is the number of dimensions of the model's vectors. Fails with `InvalidInput` if the
    /// URL is not an HTTP URL.
    pub fn new(config: OpenAiConfig, width: usize) -> Result<Self> {
        let endpoint = Endpoint::new(&config, "embeddings")?;
        let embeddings = Embeddings { endpoint, model: config.model, width };
        Ok(Self(Retrying::new(embeddings, config.retries)))
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }

    fn max_text(&self) -> usize {
        self.0.max_text()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.0.embed(texts).await
    }
}

#[async_trait]
impl Embedder for Embeddings {
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
        // Each index must occur once, else a text would get the vector of another.
        if !answer.data.iter().map(|embedding| embedding.index).eq(0..texts.len()) {
            return Err(no_embeddings());
        }
        Ok(answer.data.into_iter().map(|embedding| embedding.embedding).collect())
    }
}
