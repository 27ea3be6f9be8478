//! The options that name an embedding model.

use std::sync::Arc;

use clap::{Args, value_parser};
use memory_core::{Embedder, MAX_WIDTH};
use memory_model::openai::{OpenAiConfig, OpenAiEmbedder};

use super::heading::GLOBAL;
use crate::model_key;
use crate::usage::{self, Usage};

/// The options that name the embedding model, for commands that search by meaning.
#[derive(Debug, Args)]
pub(crate) struct EmbedderArgs {
    /// The embedding model, with which recall also searches by meaning: the folder of a model that runs in this program, or the base URL
    /// of an endpoint that speaks OpenAI's embeddings, such as http://localhost:8080/v1. If the endpoint needs a key, set
    /// AGENT_MEMORY_MODEL_KEY in the environment.
    #[arg(
        long,
        global = true,
        value_name = "URL|FOLDER",
        env = "AGENT_MEMORY_EMBEDDER",
        help_heading = GLOBAL,
        hide_env_values = true
    )]
    embedder: Option<String>,
    /// The name of the model behind the URL of --embedder.
    #[arg(long, global = true, value_name = "NAME", env = "AGENT_MEMORY_EMBEDDER_MODEL", help_heading = GLOBAL)]
    embedder_model: Option<String>,
    /// The number of dimensions of that model's vectors.
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "AGENT_MEMORY_EMBEDDER_WIDTH",
        help_heading = GLOBAL,
        value_parser = value_parser!(u64).range(1..=MAX_WIDTH as u64)
    )]
    embedder_width: Option<u64>,
}

impl EmbedderArgs {
    /// Opens the model, if one is named. The model of a folder is loaded; an endpoint is not contacted yet.
    pub(crate) async fn open(&self) -> anyhow::Result<Option<Arc<dyn Embedder>>> {
        let Some(named) = self.embedder.as_deref() else { return Ok(None) };
        match named.split_once("://") {
            Some(("http" | "https", _)) => Ok(Some(self.endpoint(named)?)),
            // The value is not quoted, since it may hold a password.
            Some(_) => Err(Usage("--embedder: a folder, or a URL with http:// or https://".to_owned()).into()),
            None => open_folder(named).await.map(Some),
        }
    }

    /// Opens the model. Fails if none is named.
    pub(crate) async fn required(&self) -> anyhow::Result<Arc<dyn Embedder>> {
        let missing =
            || Usage("--embedder: this command needs the model that makes the vectors; see --help".to_owned());
        Ok(self.open().await?.ok_or_else(missing)?)
    }

    fn endpoint(&self, url: &str) -> anyhow::Result<Arc<dyn Embedder>> {
        let (Some(model), Some(width)) = (&self.embedder_model, self.embedder_width) else {
            let message = "--embedder: the model behind a URL needs --embedder-model and --embedder-width as well";
            return Err(Usage(message.to_owned()).into());
        };
        let mut config = OpenAiConfig::new(url, model);
        config.key = model_key::read()?;
        let opened = OpenAiEmbedder::new(config, width as usize);
        Ok(Arc::new(opened.map_err(|error| usage::refused("--embedder", error))?))
    }
}

#[cfg(feature = "local")]
async fn open_folder(folder: &str) -> anyhow::Result<Arc<dyn Embedder>> {
    let opened = memory_model::local::LocalEmbedder::open(folder).await;
    Ok(Arc::new(opened.map_err(|error| usage::refused("--embedder", error))?))
}

#[cfg(not(feature = "local"))]
async fn open_folder(_: &str) -> anyhow::Result<Arc<dyn Embedder>> {
    let message =
        "--embedder: this program was built without local models: build it with --features local, or name a URL";
    Err(Usage(message.to_owned()).into())
}
