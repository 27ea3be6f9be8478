//! Composing the state: which providers run, and when.

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

/// Composes what an agent knows when it speaks, from the providers that are registered. Cheap to clone: the clones share their
/// registration and their cache.
#[derive(Debug, Clone)]
pub struct Composer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What is registered now. A composition goes on with what it began with.
    services: Mutex<Arc<Services>>,
    plugins: Mutex<Plugins>,
    cache: StateCache,
    cache_for: Duration,
    cached_messages: u64,
}

/// Makes a [`Composer`]; see [`Composer::builder`].
#[derive(Debug)]
pub struct ComposerBuilder {
    services: Services,
    cache_for: Duration,
    cached_messages: u64,
}

impl Composer {
    /// Starts the description of a composer without any provider.
    pub fn builder(services: Services) -> ComposerBuilder {
        ComposerBuilder { services, cache_for: Duration::from_secs(300), cached_messages: 1_000 }
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

    /// What evaluators are given in this turn: the services, and a state that was composed for it.
    pub fn cx<'a>(&self, turn: &'a Turn, state: &'a Snapshot) -> Cx<'a> {
        Cx::new(turn, self.services_of(turn), state)
    }

    /// What the composer and its providers use, as it is registered now.
    pub fn services(&self) -> Arc<Services> {
        Arc::clone(&self.present())
    }

    /// The same for a turn, with the models and events of its run.
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

    /// What earlier compositions got.
    pub fn cache(&self) -> &StateCache {
        &self.shared.cache
    }

    /// Registers parts behind those that are there, all or none. `InvalidInput` when a name is empty or taken.
    ///
    /// Here as with every other change of the registration, a composition that is under way keeps what it began with, and what was
    /// cached before does not count any more.
    pub fn add(&self, parts: ContextParts) -> Result<()> {
        self.change(|services| {
            services.parts.add(parts);
            services.parts.check()
        })
    }

    /// Registers parts in the places of those with their names, built-in ones too, and behind the rest where there is none.
    /// `InvalidInput` when a name is empty.
    pub fn replace(&self, parts: ContextParts) -> Result<()> {
        self.change(|services| {
            services.parts.replace(parts);
            services.parts.check()
        })
    }

    /// Takes away what has a name, built-in ones too; tells whether it was there.
    pub fn remove(&self, part: &ContextPart) -> bool {
        let Ok(was_there) = self.change(|services| Ok::<_, Infallible>(services.parts.remove(part)));
        was_there
    }

    /// Has models asked with other templates from the next step on.
    pub fn set_templates(&self, templates: Templates) {
        let Ok(()) = self.change(|services| {
            services.templates = Arc::new(templates);
            Ok::<_, Infallible>(())
        });
    }

    /// Has providers, tools and evaluators find what a service works with.
    pub(crate) fn set_flow(&self, flow: Flow) {
        let Ok(()) = self.change(|services| {
            services.flow = Some(flow);
            Ok::<_, Infallible>(())
        });
    }

    /// The same registration with a wrapper around each provider, such as one that traces its calls, in a composer of its own.
    /// `InvalidInput` when the wrapped ones share a name.
    pub fn wrapped(&self, wrap: impl Fn(&Arc<dyn ContextProvider>) -> Arc<dyn ContextProvider>) -> Result<Self> {
        let mut services = Services::clone(&self.services());
        services.parts.providers = services.parts.providers.iter().map(wrap).collect();
        let Shared { cache_for, cached_messages, .. } = *self.shared;
        ComposerBuilder { services, cache_for, cached_messages }.build()
    }

    /// Its plugins. Neither they nor anything of theirs is called while the lock is held, apart from their names.
    pub(super) fn plugins(&self) -> MutexGuard<'_, Plugins> {
        self.shared.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these very parts away.
    pub(super) fn remove_all(&self, parts: &ContextParts) {
        let Ok(()) = self.change(|services| {
            services.parts.remove_all(parts);
            Ok::<_, Infallible>(())
        });
    }

    fn present(&self) -> MutexGuard<'_, Arc<Services>> {
        // No code that holds the lock can panic half way through a change.
        self.shared.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts what a change makes of the registration in its place, unless that fails.
    fn change<T, E>(&self, change: impl FnOnce(&mut Services) -> Result<T, E>) -> Result<T, E> {
        let mut present = self.present();
        let mut services = Services::clone(&present);
        let changed = change(&mut services)?;
        services.generation += 1;
        let before = mem::replace(&mut *present, Arc::new(services));
        // What is dropped with it may do anything, such as to change the registration.
        drop(present);
        drop(before);
        Ok(changed)
    }
}

impl ComposerBuilder {
    /// Also this provider: [`parts`](Self::parts) with nothing else.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ContextProvider>) -> Self {
        self.services.parts.providers.push(provider);
        self
    }

    /// Also these parts.
    #[must_use]
    pub fn parts(mut self, parts: ContextParts) -> Self {
        self.services.parts.add(parts);
        self
    }

    /// For how long results count from the first composition of a message on; 5 minutes by default.
    #[must_use]
    pub fn cache_for(mut self, time: Duration) -> Self {
        self.cache_for = time;
        self
    }

    /// The results of how many messages are kept, those that were used last; 1,000 by default, and fewer where theirs have more than
    /// 64 MiB together.
    #[must_use]
    pub fn cached_messages(mut self, messages: u64) -> Self {
        self.cached_messages = messages;
        self
    }

    /// Makes the composer. `InvalidInput` when two providers, two tools, two evaluators or two services share a name, whoever
    /// brought them, when a name is empty, and when a tool can't be offered to a model.
    pub fn build(self) -> Result<Composer> {
        let Self { services, cache_for, cached_messages } = self;
        services.parts.check()?;
        let (services, plugins) = (Mutex::new(Arc::new(services)), Mutex::default());
        let cache = StateCache::new(cached_messages, cache_for);
        Ok(Composer { shared: Arc::new(Shared { services, plugins, cache, cache_for, cached_messages }) })
    }
}

/// The providers that run, by position, and the names that none has.
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
    // Stable, so that equal positions keep the order of their registration.
    selected.sort_by_key(|provider| provider.info().position);
    let is_unknown = |name: &&String| !selected.iter().any(|provider| provider.info().name == name.as_str());
    let unknown = names.into_iter().flatten().filter(is_unknown).cloned().collect();
    (selected, unknown)
}

/// One composition on its way.
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
