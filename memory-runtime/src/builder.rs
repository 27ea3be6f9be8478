//! The builder of a runtime, and its start.

use std::sync::Arc;
use std::time::Duration;

use memory_core::plugin::{Plugin, Scope};
use memory_core::{Clock, Collection, Embedder, Error, MemoryProvider, Result, SystemClock};

use crate::intake::Intake;
use crate::leases::Leases;
use crate::memory_manager::MemoryManager;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::trigger::TriggerSource;
use crate::worker::Equipment;
use crate::{Actions, Model, ModelPlanner, Planner, ScopedMemory};

/// Configures and starts a [`Runtime`]; see [`Runtime::builder`].
pub struct RuntimeBuilder {
    providers: Vec<Arc<dyn MemoryProvider>>,
    plugins: Vec<PluginSource>,
    triggers: Vec<Arc<dyn TriggerSource>>,
    model: Option<Arc<dyn Model>>,
    planner: Option<Arc<dyn Planner>>,
    embedder: Option<Arc<dyn Embedder>>,
    instance: Option<String>,
    clock: Arc<dyn Clock>,
    settings: Settings,
}

/// A function that makes a plugin, given the memory that the plugin may use.
type MakePlugin = dyn FnOnce(ScopedMemory) -> Arc<dyn Plugin> + Send;

/// A plugin, or a function that makes one.
enum PluginSource {
    Ready(Arc<dyn Plugin>),
    WithMemory(Scope, Box<MakePlugin>),
}

impl Runtime {
    /// Returns a builder with the default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            providers: Vec::new(),
            plugins: Vec::new(),
            triggers: Vec::new(),
            model: None,
            planner: None,
            embedder: None,
            instance: None,
            clock: Arc::new(SystemClock),
            settings: Settings::default(),
        }
    }
}

impl RuntimeBuilder {
    /// Sets the memory provider; exactly one is required. The runtime initialises it and shuts it down.
    #[must_use]
    pub fn memory(mut self, provider: Arc<dyn MemoryProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Adds a plugin. Plugins are registered after the plugin of the provider, in the order of these calls.
    #[must_use]
    pub fn plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(PluginSource::Ready(plugin));
        self
    }

    /// Adds a plugin that gets access to the memory within `scope`; `make` is called at the start.
    #[must_use]
    pub fn plugin_with_memory(
        mut self,
        scope: Scope,
        make: impl FnOnce(ScopedMemory) -> Arc<dyn Plugin> + Send + 'static,
    ) -> Self {
        self.plugins.push(PluginSource::WithMemory(scope, Box::new(make)));
        self
    }

    /// Adds a trigger. It begins to listen at the end of the start.
    #[must_use]
    pub fn trigger(mut self, trigger: Arc<dyn TriggerSource>) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// Sets the language model. If no planner is set, a [`ModelPlanner`] with this model plans the tasks.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the planner, which decides on the steps of tasks.
    #[must_use]
    pub fn planner(mut self, planner: Arc<dyn Planner>) -> Self {
        self.planner = Some(planner);
        self
    }

    /// Sets the embedding model with which `memory:query` ranks questions by meaning, too (M4). It must be the model of the namespace, the
    /// one with which a [`VectorKeeper`](memory_core::VectorKeeper) embeds the records. The plugin of the memory is then the standard
    /// [`MemoryPlugin`](memory_core::plugin::MemoryPlugin), without verbs that the provider adds.
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Sets the name of this runtime in the leases of its tasks; a new unique name by default. After a restart under the same name,
    /// [`Runtime::recover`] takes the tasks of the previous run at once, without waiting for their leases to expire (R15). So two runtimes
    /// that run at the same time must not share a name.
    #[must_use]
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// Sets the clock of leases and of chain items; the system clock by default. The clocks of runtimes on one engine must differ by much
    /// less than the length of a lease.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the length of a lease, after which other runtimes may take the tasks of a runtime that has died; 60 s by default. A lease is
    /// renewed after each third of its length (R14).
    #[must_use]
    pub fn lease(mut self, length: Duration) -> Self {
        self.settings.lease = length;
        self
    }

    /// Sets how many tasks run at the same time; 8 by default.
    #[must_use]
    pub fn concurrency(mut self, tasks: u32) -> Self {
        self.settings.concurrency = tasks;
        self
    }

    /// Sets the capacity of the queue, which counts running and waiting tasks; 1,000 by default. While the queue is full, `submit` waits.
    #[must_use]
    pub fn queue(mut self, tasks: u32) -> Self {
        self.settings.queue = tasks;
        self
    }

    /// Sets how many related memories are recalled for a task; 10 by default.
    #[must_use]
    pub fn window(mut self, memories: usize) -> Self {
        self.settings.window = memories;
        self
    }

    /// Sets the deadline of a step and of a call of the planner; 120 s by default.
    #[must_use]
    pub fn step_deadline(mut self, deadline: Duration) -> Self {
        self.settings.step_deadline = deadline;
        self
    }

    /// Sets the most steps of a task; 50 by default. A task that wants more fails.
    #[must_use]
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.settings.max_steps = steps;
        self
    }

    /// Sets how often a task may be started; 3 by default (R18). A task that was started that often and never ended fails, so that a task
    /// that crashes its process does not do so forever.
    #[must_use]
    pub fn max_runs(mut self, runs: u32) -> Self {
        self.settings.max_runs = runs;
        self
    }

    /// Sets the collections of documents that steps may use; none by default. A step that names no collection uses the first.
    #[must_use]
    pub fn collections(mut self, collections: impl IntoIterator<Item = Collection>) -> Self {
        self.settings.collections = collections.into_iter().collect();
        self
    }

    /// Starts the runtime (R1): calls `init` and `check_health` of the provider, registers and initialises the plugins one by one,
    /// that of the provider first, and starts the triggers.
    ///
    /// # Errors
    /// The first failure ends the start. The error names the step that failed, and what was initialised is shut down
    /// again. The call fails with `InvalidInput` before it touches anything if there is not exactly one provider, if
    /// neither a planner nor a model is set, if the lease, the step deadline, the concurrency, the queue or the number
    /// of runs is 0, if the window has more than 1,000 memories, if the name of a trigger is empty or taken, or if that
    /// of the instance does not have 1 to 128 bytes without control characters.
    pub async fn build(mut self) -> Result<Runtime> {
        self.check()?;
        let Some(provider) = self.providers.pop() else { return Err(no_single_provider()) };
        let planner: Arc<dyn Planner> = match (self.planner.take(), &self.model) {
            (Some(planner), _) => planner,
            (None, Some(model)) => Arc::new(ModelPlanner::new(Arc::clone(model))?),
            (None, None) => return Err(Error::invalid("a runtime needs a planner, or a model to plan with")),
        };
        let manager = Arc::new(MemoryManager::new(provider, self.clock));
        let mut actions = Actions::default();
        if let Err(error) = start(&manager, &mut actions, self.embedder, self.plugins).await {
            shut_down(&actions, &manager).await;
            return Err(error);
        }
        let equipment = Equipment { manager, actions, planner, settings: self.settings };
        Ok(Runtime::start(Intake::new(equipment, self.instance.as_deref()), self.model, self.triggers))
    }

    fn check(&self) -> Result<()> {
        if self.providers.len() != 1 {
            return Err(no_single_provider());
        }
        let Settings { lease, concurrency, queue, step_deadline, max_runs, .. } = &self.settings;
        if lease.is_zero() || step_deadline.is_zero() || *concurrency == 0 || *queue == 0 || *max_runs == 0 {
            return Err(Error::invalid("lease, step_deadline, concurrency, queue and max_runs must not be 0"));
        }
        if let Some(instance) = &self.instance {
            Leases::check_instance(instance)?;
        }
        if self.settings.window > memory_core::MAX_LIMIT {
            return Err(Error::invalid(format!("a window must hold at most {} memories", memory_core::MAX_LIMIT)));
        }
        let mut names: Vec<_> = self.triggers.iter().map(|trigger| trigger.name()).collect();
        names.sort_unstable();
        if names.iter().any(|name| name.is_empty()) || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("the name of a trigger is empty or taken"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").field("providers", &self.providers).finish_non_exhaustive()
    }
}

async fn start(
    manager: &Arc<MemoryManager>,
    actions: &mut Actions,
    embedder: Option<Arc<dyn Embedder>>,
    plugins: Vec<PluginSource>,
) -> Result<()> {
    manager.init().await.map_err(|error| failed("init", &error))?;
    manager.check_health().await.map_err(|error| failed("check_health", &error))?;
    let of_provider = PluginSource::Ready(manager.plugin(embedder));
    for plugin in std::iter::once(of_provider).chain(plugins) {
        let plugin = match plugin {
            PluginSource::Ready(plugin) => plugin,
            PluginSource::WithMemory(scope, make) => make(ScopedMemory::new(Arc::clone(manager), scope)),
        };
        let step = format!("registration of the plugin {:?}", plugin.id());
        actions.check_plugin(plugin.as_ref()).map_err(|error| failed(&step, &error))?;
        plugin.init().await.map_err(|error| failed(&step, &error))?;
        actions.register(plugin).map_err(|error| failed(&step, &error))?;
    }
    Ok(())
}

/// Shuts down what a failed start has initialised. Errors are only logged, since the error of the start is the one to return.
async fn shut_down(actions: &Actions, manager: &MemoryManager) {
    for plugin in actions.plugins().iter().rev() {
        if let Err(error) = plugin.shutdown().await {
            tracing::warn!(plugin = plugin.id(), %error, "a plugin was not shut down");
        }
    }
    if let Err(error) = manager.shutdown().await {
        tracing::warn!(%error, "the memory was not shut down");
    }
}

fn failed(step: &str, error: &Error) -> Error {
    let failed = Error::new(error.kind(), format!("the runtime did not start: {step}: {error}"));
    failed.retryable_if(error.is_retryable())
}

fn no_single_provider() -> Error {
    Error::invalid("a runtime needs exactly one memory provider")
}
