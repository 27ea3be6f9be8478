//! Composing the state: which providers run, and when.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::cache::{Cache, Kept, Seen, Slots, Stamp};
use super::merge::{Merge, Run};
use super::options::Selection;
use super::{ComposeOptions, ContextProvider, Cx, Evaluator, Service, Services, Snapshot, State, Status, Turn};
use crate::tool::Tool;

/// Composes what an agent knows when it speaks, from the providers that are registered. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Composer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    services: Services,
    /// In the order of their registration.
    providers: Vec<Arc<dyn ContextProvider>>,
    cache: Cache,
    cache_for: Duration,
    cached_messages: u64,
}

/// Makes a [`Composer`]; see [`Composer::builder`].
#[derive(Debug)]
pub struct ComposerBuilder {
    services: Services,
    providers: Vec<Arc<dyn ContextProvider>>,
    cache_for: Duration,
    cached_messages: u64,
}

/// What one source brings along: registered as a whole or not at all.
#[derive(Debug, Default)]
pub struct ContextPlugin {
    /// What contributes to the state.
    pub providers: Vec<Arc<dyn ContextProvider>>,
    /// What the agent can do.
    pub tools: Vec<Tool>,
    /// What looks at what it did.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
    /// What the others use.
    pub services: Vec<Arc<dyn Service>>,
}

impl Composer {
    /// Starts the description of a composer without any provider.
    pub fn builder(services: Services) -> ComposerBuilder {
        ComposerBuilder { services, providers: Vec::new(), cache_for: Duration::from_secs(300), cached_messages: 1_000 }
    }

    /// What the agent knows in this turn. It never fails: what is missing stands in the outcomes.
    ///
    /// # Behavior
    /// - Providers of lower positions run first, those of the same position concurrently; each sees what lower ones gave, and
    ///   nothing of its own position.
    /// - One that fails, panics or is not over before its deadline contributes nothing, and the others go on. Waiting for a
    ///   composition that runs the same provider for the same message counts.
    /// - Values, text and outcomes come in the order of positions, and within one in that of registration: the same results
    ///   make the same bytes.
    /// - Dropping the future ends all providers that are running.
    pub async fn compose_state(&self, turn: &Turn, options: &ComposeOptions) -> State {
        let (selected, unknown) = self.select(&options.selection);
        for name in &unknown {
            tracing::warn!(name, "no provider has this name");
        }
        let shared = &*self.shared;
        let ends = options.deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        let slots = shared.cache.slots(turn.message.id);
        let composition = Composition { shared, turn, options, slots, began: shared.cache.stamp(), ends };
        let span = tracing::info_span!("compose_state", message = %turn.message.id, providers = selected.len());
        composition.run(&selected, unknown).instrument(span).await
    }

    /// What actions and evaluators are given in this turn: the services, and a state that was composed for it.
    pub fn cx<'a>(&'a self, turn: &'a Turn, state: &'a Snapshot) -> Cx<'a> {
        Cx::new(turn, &self.shared.services, &self.shared.providers, state)
    }

    /// What the composer and its providers use.
    pub fn services(&self) -> &Services {
        &self.shared.services
    }

    /// The registered providers, in the order of their registration.
    pub fn providers(&self) -> &[Arc<dyn ContextProvider>] {
        &self.shared.providers
    }

    /// How many messages the cache knows.
    pub fn cached_messages(&self) -> u64 {
        self.shared.cache.len()
    }

    /// The same with a wrapper around each provider, such as one that traces its calls, and a cache of its own. `InvalidInput`
    /// when the wrapped ones share a name.
    pub fn wrapped(&self, wrap: impl Fn(&Arc<dyn ContextProvider>) -> Arc<dyn ContextProvider>) -> Result<Self> {
        let Shared { services, providers, cache_for, cached_messages, .. } = &*self.shared;
        let (services, providers) = (services.clone(), providers.iter().map(wrap).collect());
        ComposerBuilder { services, providers, cache_for: *cache_for, cached_messages: *cached_messages }.build()
    }

    /// The providers that run, by position, and the names that none has.
    fn select(&self, selection: &Selection) -> (Vec<&Arc<dyn ContextProvider>>, Vec<String>) {
        let (defaults, names) = match selection {
            Selection::Defaults => (true, None),
            Selection::DefaultsAnd(names) => (true, Some(names)),
            Selection::Only(names) => (false, Some(names)),
        };
        let is_named = |name: &str| names.is_some_and(|names| names.contains(name));
        let is_selected = |provider: &&Arc<dyn ContextProvider>| {
            let info = provider.info();
            defaults && info.is_default() || is_named(&info.name)
        };
        let mut selected: Vec<_> = self.shared.providers.iter().filter(is_selected).collect();
        // Stable, so that equal positions keep the order of their registration.
        selected.sort_by_key(|provider| provider.info().position);
        let is_unknown = |name: &&String| !selected.iter().any(|provider| provider.info().name == name.as_str());
        let unknown = names.into_iter().flatten().filter(is_unknown).cloned().collect();
        (selected, unknown)
    }
}

impl ComposerBuilder {
    /// Also this provider.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ContextProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Also what a plugin brings along.
    #[must_use]
    pub fn plugin(mut self, plugin: ContextPlugin) -> Self {
        let ContextPlugin { providers, tools, evaluators, services } = plugin;
        self.providers.extend(providers);
        self.services.tools.extend(tools);
        self.services.evaluators.extend(evaluators);
        self.services.services.extend(services);
        self
    }

    /// For how long results count from the first composition of a message on; 5 minutes by default.
    #[must_use]
    pub fn cache_for(mut self, time: Duration) -> Self {
        self.cache_for = time;
        self
    }

    /// The results of how many messages are kept, those that were used last; 1,000 by default.
    #[must_use]
    pub fn cached_messages(mut self, messages: u64) -> Self {
        self.cached_messages = messages;
        self
    }

    /// The composer. `InvalidInput` when two providers, two tools, two evaluators or two services share a name, whoever
    /// brought them, when a name is empty, and when a tool can't be offered to a model.
    pub fn build(self) -> Result<Composer> {
        let Self { services, providers, cache_for, cached_messages } = self;
        check_names("provider", providers.iter().map(|provider| &*provider.info().name))?;
        check_names("tool", services.tools.iter().map(Tool::name))?;
        services.tools.iter().try_for_each(Tool::validate)?;
        check_names("evaluator", services.evaluators.iter().map(|evaluator| &*evaluator.info().name))?;
        check_names("service", services.services.iter().map(|service| service.name()))?;
        let cache = Cache::new(cached_messages, cache_for);
        Ok(Composer { shared: Arc::new(Shared { services, providers, cache, cache_for, cached_messages }) })
    }
}

fn check_names<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut taken = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(Error::invalid(format!("the name of a {kind} must not be empty")));
        }
        if !taken.insert(name) {
            return Err(Error::invalid(format!("two have the {kind} name {name}")));
        }
    }
    Ok(())
}

/// One composition on its way.
struct Composition<'a> {
    shared: &'a Shared,
    turn: &'a Turn,
    options: &'a ComposeOptions,
    slots: Arc<Slots>,
    began: Stamp,
    ends: Option<Instant>,
}

impl Composition<'_> {
    async fn run(&self, selected: &[&Arc<dyn ContextProvider>], unknown: Vec<String>) -> State {
        let mut merge = Merge::default();
        for stage in selected.chunk_by(|one, other| one.info().position == other.info().position) {
            let runs = join_all(stage.iter().map(|provider| self.try_run(provider.as_ref(), &merge))).await;
            for (provider, run) in stage.iter().zip(runs) {
                merge.add(provider.info(), run);
            }
        }
        merge.into_state(self.options, unknown)
    }

    async fn try_run(&self, provider: &dyn ContextProvider, lower: &Merge<'_>) -> Run {
        let start = Instant::now();
        let left = self.ends.map_or(Duration::MAX, |ends| ends.saturating_duration_since(start));
        if left.is_zero() {
            return Run::without_result(Status::Skipped, None, Duration::ZERO);
        }
        let deadline = provider.info().deadline.min(left);
        let answer = timeout(deadline, self.get(provider, lower)).await;
        let duration = start.elapsed();
        match answer {
            Ok(Ok((kept, cached))) => Run::with_result(kept, cached, duration),
            Ok(Err(error)) => Run::without_result(Status::Failed, Some(error), duration),
            Err(_) => {
                let message = format!("no result within {} ms", deadline.as_millis());
                let error = Error::new(ErrorKind::Timeout, message).retryable();
                Run::without_result(Status::TimedOut, Some(error), duration)
            }
        }
    }

    /// The result of a provider, and whether it is another composition's.
    async fn get(&self, provider: &dyn ContextProvider, lower: &Merge<'_>) -> Result<(Kept, bool)> {
        let info = provider.info();
        if !info.cached {
            return Ok((self.produce(provider, lower).await?, false));
        }
        let slot = self.slots.slot(&info.name);
        let since = self.options.fresh.concerns(&info.name).then_some(self.began);
        if let Some(kept) = slot.get(since, lower.seen()) {
            return Ok((kept, true));
        }
        let _running = slot.running.lock().await;
        // Whoever ran before may have got it.
        if let Some(kept) = slot.get(since, lower.seen()) {
            return Ok((kept, true));
        }
        let kept = self.produce(provider, lower).await?;
        slot.keep(kept.clone());
        Ok((kept, false))
    }

    async fn produce(&self, provider: &dyn ContextProvider, lower: &Merge<'_>) -> Result<Kept> {
        let stamp = self.shared.cache.stamp();
        let cx = Cx::new(self.turn, &self.shared.services, &self.shared.providers, lower.snapshot());
        let answer = AssertUnwindSafe(provider.get(&cx)).catch_unwind().await;
        let result = answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unexpected, "the provider panicked")))?;
        let bytes = serde_json::to_vec(&result)
            .map_err(|error| Error::invalid("the result has no JSON form").with_source(error))?
            .len();
        let seen = cx.has_read_state().then(|| Arc::<Seen>::new(lower.seen().clone()));
        Ok(Kept { result: Arc::new(result), bytes, stamp, seen })
    }
}
