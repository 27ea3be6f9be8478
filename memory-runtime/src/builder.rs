//! What a runtime is made of, and how it starts.

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

/// Makes a [`Runtime`]; see [`Runtime::builder`].
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

/// Makes a plugin of the memory that it may use.
type MakePlugin = dyn FnOnce(ScopedMemory) -> Arc<dyn Plugin> + Send;

/// A plugin, or what makes one.
enum PluginSource {
    Ready(Arc<dyn Plugin>),
    WithMemory(Scope, Box<MakePlugin>),
}

impl Runtime {
    /// Starts the description of a runtime.
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
    /// The memory: exactly one provider. The runtime initialises it and shuts it down.
    #[must_use]
    pub fn memory(mut self, provider: Arc<dyn MemoryProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Also this plugin, registered behind that of the provider and those before it.
    #[must_use]
    pub fn plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(PluginSource::Ready(plugin));
        self
    }

    /// Also a plugin that is made with memory of its own to use, within a scope.
    #[must_use]
    pub fn plugin_with_memory(
        mut self,
        scope: Scope,
        make: impl FnOnce(ScopedMemory) -> Arc<dyn Plugin> + Send + 'static,
    ) -> Self {
        self.plugins.push(PluginSource::WithMemory(scope, Box::new(make)));
        self
    }

    /// Also this source of tasks, listening from the end of the start on.
    #[must_use]
    pub fn trigger(mut self, trigger: Arc<dyn TriggerSource>) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// The language model. Without a planner, it plans as well, by a [`ModelPlanner`].
    #[must_use]
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// What decides on the steps of tasks.
    #[must_use]
    pub fn planner(mut self, planner: Arc<dyn Planner>) -> Self {
        self.planner = Some(planner);
        self
    }

    /// Has the questions of `memory:query` asked also by what they mean to this model, which is that of the namespace: whoever embeds its records,
    /// as a [`VectorKeeper`](memory_core::VectorKeeper) does, uses the same one. The plugin of the memory is the standard
    /// [`MemoryPlugin`](memory_core::plugin::MemoryPlugin) then, without verbs that a provider adds.
    #[must_use]
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// The name of this runtime in the tasks that it holds. A runtime that has the name again after a restart recovers
    /// the tasks of the one before at once, without waiting for their leases; so no two that run at the same time may
    /// share one. By default it is a new one.
    #[must_use]
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = Some(name.into());
        self
    }

    /// The clock of leases and of the items of chains; that of the machine by default. Runtimes on one engine need
    /// clocks that differ by much less than a lease.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How long a task stays with a runtime that gives no sign of life; 60 s by default. It is renewed every third of
    /// it.
    #[must_use]
    pub fn lease(mut self, length: Duration) -> Self {
        self.settings.lease = length;
        self
    }

    /// How many tasks run at the same time; 8 by default.
    #[must_use]
    pub fn concurrency(mut self, tasks: u32) -> Self {
        self.settings.concurrency = tasks;
        self
    }

    /// How many tasks are held, those that run and those that wait; 1,000 by default. Over it, `submit` waits.
    #[must_use]
    pub fn queue(mut self, tasks: u32) -> Self {
        self.settings.queue = tasks;
        self
    }

    /// How many related memories are recalled for a task; 10 by default.
    #[must_use]
    pub fn window(mut self, memories: usize) -> Self {
        self.settings.window = memories;
        self
    }

    /// How long a step may take, and a question to the planner; 120 s by default.
    #[must_use]
    pub fn step_deadline(mut self, deadline: Duration) -> Self {
        self.settings.step_deadline = deadline;
        self
    }

    /// How many steps a task may take; 50 by default. One that wants more has failed.
    #[must_use]
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.settings.max_steps = steps;
        self
    }

    /// How often a task may be begun; 3 by default. One that was begun as often and never came to its end has failed,
    /// so that a task which kills its process does not do it for ever.
    #[must_use]
    pub fn max_runs(mut self, runs: u32) -> Self {
        self.settings.max_runs = runs;
        self
    }

    /// The collections of documents that steps may use, the first of them unless they name one; none by default.
    #[must_use]
    pub fn collections(mut self, collections: impl IntoIterator<Item = Collection>) -> Self {
        self.settings.collections = collections.into_iter().collect();
        self
    }

    /// Starts the runtime: `init` and `check_health` of the provider, then its plugin and the others, each registered
    /// and initialised in turn, then the triggers.
    ///
    /// The first failure ends it, and the error names the step; what was initialised is shut down again. `InvalidInput`
    /// before anything is touched when there is not exactly one provider, neither planner nor model, a number of zero,
    /// or a name of an instance that is empty or has more than 128 bytes.
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
            return Err(Error::invalid(format!("a window holds {} memories at most", memory_core::MAX_LIMIT)));
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

/// After a start that failed. Its error is the one to tell; what goes wrong here only adds to it.
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
    Error::invalid("a runtime has exactly one memory provider")
}
