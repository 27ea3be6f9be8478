//! The composer, which runs the providers and makes the state.

use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::cache::{Kept, Seen, Slots, Stamp, StateCache};
use super::merge::{Merge, Run};
use super::options::Selection;
use super::plugin::Plugins;
use super::services::Flow;
use super::{
    ComposeOptions, ContextPart, ContextParts, ContextProvider, Cx, ProviderStatus, Services, Snapshot, State, Turn,
};
use crate::template::Templates;

/// Composes the state of an agent from the registered providers. Cloning is cheap; clones share their registration and cache.
#[derive(Debug, Clone)]
pub struct Composer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The present registration. A composition in progress keeps the one that it started with.
    services: Mutex<Arc<Services>>,
    plugins: Mutex<Plugins>,
    cache: StateCache,
    cache_for: Duration,
    cached_messages: u64,
}

/// Configures a [`Composer`]; see [`Composer::builder`].
#[derive(Debug)]
pub struct ComposerBuilder {
    services: Services,
    cache_for: Duration,
    cached_messages: u64,
}

impl Composer {
    /// Returns a builder for a composer without any provider.
    pub fn builder(services: Services) -> ComposerBuilder {
        ComposerBuilder { services, cache_for: Duration::from_secs(300), cached_messages: 1_000 }
    }

    /// Composes the state of a turn. It never fails; the outcomes say what is missing.
    ///
    /// # Behavior
    /// - Providers of lower positions run first; those of the same position run concurrently. Each sees the results of lower positions, and
    ///   none of its own position.
    /// - A provider that fails, panics or misses its deadline contributes nothing; the other providers still run. Waiting for a concurrent
    ///   composition that runs the same provider for the same message counts towards the deadline.
    /// - Values, text and outcomes are in the order of positions, and within a position in that of registration. So the same results make
    ///   the same bytes.
    /// - Dropping the future drops all running providers.
    pub async fn compose_state(&self, turn: &Turn, options: &ComposeOptions) -> State {
        let services = self.services_of(turn);
        let (selected, unknown) = select(services.providers(), &options.selection);
        for name in &unknown {
            tracing::warn!(name, "no provider has this name");
        }
        let shared = &*self.shared;
        let ends = options.deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        let slots = shared.cache.slots(turn.message.id, services.generation);
        let (services, began) = (Arc::clone(&services), shared.cache.stamp());
        let composition = Composition { shared, services, turn, options, slots, began, ends };
        let span = tracing::info_span!("compose_state", message = %turn.message.id, providers = selected.len());
        composition.run(&selected, unknown).instrument(span).await
    }

    /// Returns the context for evaluators in this turn: the turn, the services, and a state that was composed for the turn.
    pub fn cx<'a>(&self, turn: &'a Turn, state: &'a Snapshot) -> Cx<'a> {
        Cx::new(turn, self.services_of(turn), state)
    }

    /// The services and parts, as registered now.
    pub fn services(&self) -> Arc<Services> {
        Arc::clone(&self.present())
    }

    /// Like [`services`](Self::services), but with the models and events of the turn's run.
    pub(crate) fn services_of(&self, turn: &Turn) -> Arc<Services> {
        let services = self.services();
        match turn.flow() {
            Some(flow) => {
                let mut services = Services::clone(&services);
                services.flow = Some(flow.clone());
                Arc::new(services)
            }
            None => services,
        }
    }

    /// The cached results of earlier compositions.
    pub fn cache(&self) -> &StateCache {
        &self.shared.cache
    }

    /// Registers parts after the existing ones, all or none. Fails with `InvalidInput` as [`ComposerBuilder::build`]
    /// does, for example if a name is empty or taken.
    ///
    /// After any change of the registration, compositions in progress keep the registration that they started with, and results that were
    /// cached before are no longer used.
    pub fn add(&self, parts: ContextParts) -> Result<()> {
        self.change(|services| {
            services.parts.add(parts);
            services.parts.check()
        })
    }

    /// Replaces the parts with the same names, even built-in ones, and appends those with new names. Fails with
    /// `InvalidInput` as [`ComposerBuilder::build`] does, for example if a name is empty.
    pub fn replace(&self, parts: ContextParts) -> Result<()> {
        self.change(|services| {
            services.parts.replace(parts);
            services.parts.check()
        })
    }

    /// Removes the part with a name, even a built-in one. Returns whether it existed.
    pub fn remove(&self, part: &ContextPart) -> bool {
        self.set(|services| services.parts.remove(part))
    }

    /// Replaces the prompt templates, from the next step of each run on.
    pub fn set_templates(&self, templates: Templates) {
        self.set(|services| services.templates = Arc::new(templates));
    }

    /// Sets the models and events that providers, tools and evaluators find in the services.
    pub(crate) fn set_flow(&self, flow: Flow) {
        self.set(|services| services.flow = Some(flow));
    }

    /// Makes a separate composer with the same registration, in which each provider is wrapped, for example to trace its calls. Fails with
    /// `InvalidInput` if two wrapped providers have the same name.
    pub fn wrapped(&self, wrap: impl Fn(&Arc<dyn ContextProvider>) -> Arc<dyn ContextProvider>) -> Result<Self> {
        let mut services = Services::clone(&self.services());
        services.parts.providers = services.parts.providers.iter().map(wrap).collect();
        let Shared { cache_for, cached_messages, .. } = *self.shared;
        ComposerBuilder { services, cache_for, cached_messages }.build()
    }

    /// The installed plugins. While the lock is held, nothing of a plugin is called but its name.
    pub(super) fn plugins(&self) -> MutexGuard<'_, Plugins> {
        self.shared.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes exactly these parts, compared by identity.
    pub(super) fn remove_all(&self, parts: &ContextParts) {
        self.set(|services| services.parts.remove_all(parts));
    }

    fn present(&self) -> MutexGuard<'_, Arc<Services>> {
        // No code under the lock can panic in the middle of a change, so a poisoned value is consistent.
        self.shared.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`change`](Self::change), for what can't fail.
    fn set<T>(&self, change: impl FnOnce(&mut Services) -> T) -> T {
        let Ok(changed) = self.change(|services| Ok::<_, Infallible>(change(services)));
        changed
    }

    /// Changes a copy of the registration, and replaces the present one with it unless the change fails.
    fn change<T, E>(&self, change: impl FnOnce(&mut Services) -> Result<T, E>) -> Result<T, E> {
        let mut present = self.present();
        let mut services = Services::clone(&present);
        let changed = change(&mut services)?;
        services.generation += 1;
        let before = mem::replace(&mut *present, Arc::new(services));
        // The earlier registration is dropped without the lock, since a part may run any code when it is dropped, and even change the
        // registration.
        drop(present);
        drop(before);
        Ok(changed)
    }
}

impl ComposerBuilder {
    /// Adds a provider; short for [`parts`](Self::parts) with only this provider.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ContextProvider>) -> Self {
        self.services.parts.providers.push(provider);
        self
    }

    /// Adds parts.
    #[must_use]
    pub fn parts(mut self, parts: ContextParts) -> Self {
        self.services.parts.add(parts);
        self
    }

    /// Sets how long results stay cached, counted from the first composition of a message; 5 minutes by default.
    #[must_use]
    pub fn cache_for(mut self, time: Duration) -> Self {
        self.cache_for = time;
        self
    }

    /// Sets for how many messages results stay cached, the most recently used ones; 1,000 by default, and fewer if the results have more
    /// than 64 MiB together.
    #[must_use]
    pub fn cached_messages(mut self, messages: u64) -> Self {
        self.cached_messages = messages;
        self
    }

    /// Makes the composer. Fails with `InvalidInput` if two parts of a kind have the same name, whatever their source,
    /// if a name is empty, if a tool can't be offered to a model, or if an alias is taken or names no tool.
    pub fn build(self) -> Result<Composer> {
        let Self { services, cache_for, cached_messages } = self;
        services.parts.check()?;
        let (services, plugins) = (Mutex::new(Arc::new(services)), Mutex::default());
        let cache = StateCache::new(cached_messages, cache_for);
        Ok(Composer { shared: Arc::new(Shared { services, plugins, cache, cache_for, cached_messages }) })
    }
}

/// Returns the selected providers by position, and the requested names that no provider has.
fn select<'a>(
    providers: &'a [Arc<dyn ContextProvider>],
    selection: &Selection,
) -> (Vec<&'a Arc<dyn ContextProvider>>, Vec<String>) {
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
    let mut selected: Vec<_> = providers.iter().filter(is_selected).collect();
    // A stable sort, so that equal positions keep the order of their registration.
    selected.sort_by_key(|provider| provider.info().position);
    let is_unknown = |name: &&String| !selected.iter().any(|provider| provider.info().name == name.as_str());
    let unknown = names.into_iter().flatten().filter(is_unknown).cloned().collect();
    (selected, unknown)
}

/// A composition in progress.
struct Composition<'a> {
    shared: &'a Shared,
    services: Arc<Services>,
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
            return Run::without_result(ProviderStatus::Skipped, None, Duration::ZERO);
        }
        let deadline = provider.info().deadline.min(left);
        let answer = timeout(deadline, self.get(provider, lower)).await;
        let duration = start.elapsed();
        match answer {
            Ok(Ok((kept, cached))) => Run::with_result(kept, cached, duration),
            Ok(Err(error)) => Run::without_result(ProviderStatus::Failed, Some(error), duration),
            Err(_) => {
                let message = format!("no result within {} ms", deadline.as_millis());
                let error = Error::new(ErrorKind::Timeout, message).retryable();
                Run::without_result(ProviderStatus::TimedOut, Some(error), duration)
            }
        }
    }

    /// Returns the result of a provider, and whether it comes from another composition.
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
        // A concurrent composition may have stored the result while this one waited.
        if let Some(kept) = slot.get(since, lower.seen()) {
            return Ok((kept, true));
        }
        let kept = self.produce(provider, lower).await?;
        self.shared.cache.keep(self.turn.message.id, &self.slots, &slot, kept.clone());
        Ok((kept, false))
    }

    async fn produce(&self, provider: &dyn ContextProvider, lower: &Merge<'_>) -> Result<Kept> {
        let stamp = self.shared.cache.stamp();
        let cx = Cx::new(self.turn, Arc::clone(&self.services), lower.snapshot());
        let answer = AssertUnwindSafe(provider.get(&cx)).catch_unwind().await;
        let result = answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unexpected, "the provider panicked")))?;
        let bytes = serde_json::to_vec(&result)
            .map_err(|error| Error::invalid("the result has no JSON form").with_source(error))?
            .len();
        let seen = cx.has_read_state().then(|| Arc::<Seen>::new(lower.seen().clone()));
        Ok(Kept { result: Arc::new(result), bytes, stamp, seen })
    }
}
