//! What brings several parts along, and has a beginning and an end.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Error, Result};

use super::{Composer, ContextParts, Services, Values};

/// A source of providers, tools, evaluators and services, held as `Arc<dyn ContextPlugin>`.
#[async_trait]
pub trait ContextPlugin: fmt::Debug + Send + Sync + 'static {
    /// What it is called. Unique among the plugins of a composer; never empty. The same at every call.
    fn name(&self) -> &str;

    /// Makes it ready, and gives what it brings along. `config` is what the host says about it.
    async fn init(&self, config: &Values, services: &Services) -> Result<ContextParts>;

    /// Ends it, when nothing new gets its parts any more.
    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

/// A plugin that is installed.
#[derive(Debug)]
pub(super) struct Installed {
    plugin: Arc<dyn ContextPlugin>,
    parts: ContextParts,
}

impl Composer {
    /// Makes a plugin ready and registers what it brings along, as a whole or not at all.
    ///
    /// `InvalidInput` when its name is empty or taken, or one of its parts has a taken name, whereupon the plugin is shut down;
    /// otherwise what its `init` answers.
    pub async fn install(&self, plugin: Arc<dyn ContextPlugin>, config: &Values) -> Result<()> {
        let name = plugin.name();
        if name.is_empty() {
            return Err(Error::invalid("the name of a plugin must not be empty"));
        }
        let mut plugins = self.plugins().await;
        if plugins.iter().any(|installed| installed.plugin.name() == name) {
            return Err(Error::invalid(format!("two have the plugin name {name}")));
        }
        let parts = plugin.init(config, &self.services()).await?;
        if let Err(error) = self.add(parts.clone()) {
            if let Err(error) = plugin.shutdown().await {
                tracing::warn!(plugin = name, %error, "a plugin that was refused can't be shut down");
            }
            return Err(error);
        }
        plugins.push(Installed { plugin, parts });
        Ok(())
    }

    /// Takes away what a plugin brought along, and shuts it down; tells whether it was installed. What took the place of one of its
    /// parts stays.
    pub async fn uninstall(&self, name: &str) -> Result<bool> {
        let mut plugins = self.plugins().await;
        let Some(at) = plugins.iter().position(|installed| installed.plugin.name() == name) else { return Ok(false) };
        self.end(plugins.remove(at)).await?;
        Ok(true)
    }

    /// Uninstalls all plugins, the last one first. One that fails keeps no other from it; the first error is told.
    pub async fn shutdown(&self) -> Result<()> {
        let mut plugins = self.plugins().await;
        let mut result = Ok(());
        while let Some(installed) = plugins.pop() {
            result = result.and(self.end(installed).await);
        }
        result
    }

    async fn end(&self, installed: Installed) -> Result<()> {
        self.remove_all(&installed.parts);
        installed.plugin.shutdown().await
    }
}
