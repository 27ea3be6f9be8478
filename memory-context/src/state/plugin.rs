//! What brings several parts along, and has a beginning and an end.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use super::{Composer, ContextParts, Services, Values};

/// How long the `init` of a [`ContextPlugin`] may take, and how long its `shutdown`.
pub const PLUGIN_DEADLINE: Duration = Duration::from_secs(30);

/// A source of providers, tools, evaluators, services and triggers, held as `Arc<dyn ContextPlugin>`.
#[async_trait]
pub trait ContextPlugin: Send + Sync + 'static {
    /// What it is called. Unique among the plugins of a composer; never empty. The same at every call.
    fn name(&self) -> &str;

    /// Makes it ready, and gives what it brings along. `config` is what the host says about it. The future is dropped after
    /// [`PLUGIN_DEADLINE`].
    async fn init(&self, config: &Values, services: &Services) -> Result<ContextParts>;

    /// Ends it, when nothing new gets its parts any more. The future is dropped after [`PLUGIN_DEADLINE`].
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
    /// The names of those that are being made ready or shut down.
    busy: Vec<String>,
    is_closed: bool,
}

/// A plugin that is installed.
#[derive(Debug)]
struct Installed {
    plugin: Arc<dyn ContextPlugin>,
    parts: ContextParts,
}

/// A name that is taken by a plugin that is being made ready or shut down, until this is dropped. No lock is held meanwhile.
struct Busy<'a> {
    composer: &'a Composer,
    name: String,
}

impl Composer {
    /// Makes a plugin ready and registers what it brings along, as a whole or not at all. Others come and go meanwhile.
    ///
    /// `InvalidInput` when its name is empty or taken, or one of its parts has a taken name, whereupon the plugin is shut down;
    /// `Timeout` when its `init` is not over within [`PLUGIN_DEADLINE`], `Unexpected` when that panics, `Closed` after a
    /// [`shutdown`](Self::shutdown); otherwise what `init` answers.
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

    /// Takes away what a plugin brought along, and shuts it down; tells whether it was installed. What took the place of one of its
    /// parts stays.
    ///
    /// One whose `shutdown` fails is uninstalled all the same: the error is what that answers, `Timeout` when it is not over within
    /// [`PLUGIN_DEADLINE`], `Unexpected` when it panics.
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

    /// Uninstalls all plugins, the last one first, and takes no more. One that fails keeps no other from it; the first error is told.
    pub async fn shutdown(&self) -> Result<()> {
        self.plugins().is_closed = true;
        let mut result = Ok(());
        loop {
            let Some(installed) = self.plugins().installed.pop() else { return result };
            result = result.and(self.end(installed).await);
        }
    }

    /// Takes the triggers of a plugin away, before the rest of it.
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
            return Err(Error::invalid(format!("two have the plugin name {name}")));
        }
        plugins.busy.push(name.to_owned());
        Ok(Busy { composer: self, name: name.to_owned() })
    }

    /// Registers the parts of a plugin that is ready, unless the composer was shut down meanwhile.
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

/// What a plugin answers within its deadline.
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
