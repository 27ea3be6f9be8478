//! Context plugins, which bring several parts and have a life cycle.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use super::{Composer, ContextParts, Services, Values};

/// The deadline of a [`ContextPlugin`]'s `init`, and of its `shutdown`.
pub const PLUGIN_DEADLINE: Duration = Duration::from_secs(30);

/// A source of providers, tools, evaluators, services and triggers, held as `Arc<dyn ContextPlugin>`.
#[async_trait]
pub trait ContextPlugin: Send + Sync + 'static {
    /// The name. It is not empty, unique among the plugins of a composer, and the same in every call.
    fn name(&self) -> &str;

    /// Initialises the plugin and returns its parts. `config` is the host's configuration of the plugin. The future is dropped after
    /// [`PLUGIN_DEADLINE`].
    async fn init(&self, config: &Values, services: &Services) -> Result<ContextParts>;

    /// Shuts the plugin down, after its parts were removed. The future is dropped after [`PLUGIN_DEADLINE`].
    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for dyn ContextPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextPlugin({})", self.name())
    }
}

/// The plugins of a composer.
#[derive(Debug, Default)]
pub(super) struct Plugins {
    installed: Vec<Installed>,
    /// The names of the plugins that are being initialised or shut down.
    busy: Vec<String>,
    is_closed: bool,
}

/// An installed plugin with its parts.
#[derive(Debug)]
struct Installed {
    plugin: Arc<dyn ContextPlugin>,
    parts: ContextParts,
}

/// Reserves the name of a plugin while it is initialised or shut down, until dropped. It holds no lock meanwhile.
struct Busy<'a> {
    composer: &'a Composer,
    name: String,
}

impl Composer {
    /// Initialises a plugin and registers its parts, as a whole or not at all. Other plugins can be installed concurrently.
    ///
    /// # Errors
    /// `InvalidInput` if the plugin's name is empty or taken, or if a part is not valid or its name is taken (then the plugin is shut
    /// down); `Timeout` if `init` misses [`PLUGIN_DEADLINE`]; `Unexpected` if `init` panics; `Closed` after a [`shutdown`](Self::shutdown);
    /// otherwise the error of `init`. A plugin whose `init` fails is not shut down.
    pub async fn install(&self, plugin: Arc<dyn ContextPlugin>, config: &Values) -> Result<()> {
        let busy = self.begin_install(plugin.name())?;
        let services = self.services();
        let parts = in_time(&busy.name, "init", async { plugin.init(config, &services).await }).await?;
        let registered = self.register(Installed { plugin: Arc::clone(&plugin), parts });
        if registered.is_err()
            && let Err(error) = shut_down(plugin.as_ref()).await
        {
            tracing::warn!(plugin = busy.name, %error, "a plugin that was refused can't be shut down");
        }
        registered
    }

    /// Removes the parts of a plugin and shuts it down. Returns whether it was installed. A part that has replaced one of its parts stays.
    ///
    /// If the plugin's `shutdown` fails, the plugin is uninstalled anyway, and its error is returned: `Timeout` if it misses
    /// [`PLUGIN_DEADLINE`], `Unexpected` if it panics.
    pub async fn uninstall(&self, name: &str) -> Result<bool> {
        let (installed, _busy) = {
            let mut plugins = self.plugins();
            let Some(at) = plugins.installed.iter().position(|one| one.plugin.name() == name) else {
                return Ok(false);
            };
            plugins.busy.push(name.to_owned());
            (plugins.installed.remove(at), Busy { composer: self, name: name.to_owned() })
        };
        self.end(installed).await?;
        Ok(true)
    }

    /// Uninstalls all plugins, the last one first, and refuses new ones. After an error the other plugins are still uninstalled, and the
    /// first error is returned.
    pub async fn shutdown(&self) -> Result<()> {
        self.plugins().is_closed = true;
        let mut result = Ok(());
        loop {
            let Some(installed) = self.plugins().installed.pop() else { return result };
            result = result.and(self.end(installed).await);
        }
    }

    /// Removes the triggers of a plugin, so that the caller can wait for their end before it removes the other parts.
    pub(crate) fn remove_triggers_of(&self, name: &str) {
        let plugins = self.plugins();
        let installed = plugins.installed.iter().find(|installed| installed.plugin.name() == name);
        let triggers = installed.map(|installed| installed.parts.triggers.clone()).unwrap_or_default();
        drop(plugins);
        self.remove_all(&ContextParts { triggers, ..ContextParts::default() });
    }

    fn begin_install(&self, name: &str) -> Result<Busy<'_>> {
        if name.is_empty() {
            return Err(Error::invalid("the name of a plugin must not be empty"));
        }
        let mut plugins = self.plugins();
        if plugins.is_closed {
            return Err(closed());
        }
        let is_taken = plugins.installed.iter().any(|installed| installed.plugin.name() == name);
        if is_taken || plugins.busy.iter().any(|busy| busy == name) {
            return Err(Error::invalid(format!("the plugin name {name} is used twice")));
        }
        plugins.busy.push(name.to_owned());
        Ok(Busy { composer: self, name: name.to_owned() })
    }

    /// Registers the parts of an initialised plugin, unless the composer was shut down meanwhile.
    fn register(&self, installed: Installed) -> Result<()> {
        let parts = installed.parts.clone();
        self.add(parts.clone())?;
        let mut plugins = self.plugins();
        if plugins.is_closed {
            drop(plugins);
            self.remove_all(&parts);
            return Err(closed());
        }
        plugins.installed.push(installed);
        Ok(())
    }

    async fn end(&self, installed: Installed) -> Result<()> {
        self.remove_all(&installed.parts);
        shut_down(installed.plugin.as_ref()).await
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.composer.plugins().busy.retain(|name| *name != self.name);
    }
}

async fn shut_down(plugin: &dyn ContextPlugin) -> Result<()> {
    in_time(plugin.name(), "shutdown", async { plugin.shutdown().await }).await
}

/// Runs a call of a plugin with a deadline, and turns a panic into an error.
async fn in_time<T>(plugin: &str, call: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(PLUGIN_DEADLINE, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::new(ErrorKind::Unexpected, format!("the {call} of the plugin {plugin} panicked"))),
        Err(_) => {
            let limit = PLUGIN_DEADLINE.as_millis();
            let message = format!("the {call} of the plugin {plugin} was not over within {limit} ms");
            Err(Error::new(ErrorKind::Timeout, message))
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the composer is shut down")
}
