//! A case of the suite, and what it works with.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{MemoryProvider, Result};

#[cfg(feature = "faults")]
use crate::fault::Faults;
use crate::harness::Harness;
use crate::namespace::Namespace;

/// What a case returns. It may also panic, by an assertion.
pub type CaseResult = std::result::Result<(), Box<dyn Error + Send + Sync>>;

type Run = fn(Stage) -> Pin<Box<dyn Future<Output = CaseResult> + Send>>;

/// One thing that the contract promises, tried on an engine.
#[derive(Clone, Copy)]
pub struct Case {
    /// Chapter and situation: `write.batch_is_all_or_nothing`.
    pub id: &'static str,
    /// The numbers of the rules in `CONTRACT.md` that it checks; at least one.
    pub rules: &'static [&'static str],
    /// What an engine must be able to do for it.
    pub needs: Needs,
    pub(crate) run: Run,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({} {:?})", self.id, self.rules)
    }
}

/// What a case needs beyond the contract itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A harness that can damage a row.
    Damage,
    /// A harness that can leave a schema of a later program.
    NewerSchema,
    /// An engine that can be made read-only.
    ReadOnly,
    /// An engine with a feed of changes.
    Feed,
    /// The same, and a harness that can damage a row.
    DamageAndFeed,
    /// An engine that keeps a history.
    History,
    /// An engine that can erase.
    Erasure,
    /// An engine that keeps vectors beside records.
    Vectors,
    /// The same, and one that can erase.
    VectorsAndErasure,
    /// An engine that keeps vectors beside records, and has a feed of changes.
    VectorsAndFeed,
    /// An engine with a feed of changes, and a harness that can lose some.
    LostChanges,
    /// A server that a proxy can be put before.
    #[cfg(feature = "faults")]
    Server,
    /// A server of its own, to kill.
    #[cfg(feature = "faults")]
    OwnServer,
}

const NO_VECTORS: &str = "the engine keeps no vectors";

impl Needs {
    /// Why a harness can't be put to a case with these needs, if it can't.
    pub(crate) fn lacking_in(self, harness: &dyn Harness) -> Option<&'static str> {
        let (is_there, reason) = match self {
            Self::Nothing => return None,
            Self::Damage => (harness.can_damage(), "the harness can't damage rows"),
            Self::NewerSchema => (harness.can_make_newer(), "the harness can't leave a schema of a later program"),
            Self::ReadOnly => (harness.can_be_read_only(), "the engine can't be made read-only"),
            Self::Feed => (harness.can_watch(), "the engine has no feed"),
            Self::History => (harness.keeps_history(), "the engine keeps no history"),
            Self::Erasure => (harness.can_erase(), "the engine can't erase"),
            Self::Vectors => (harness.keeps_vectors(), NO_VECTORS),
            Self::VectorsAndErasure if !harness.keeps_vectors() => (false, NO_VECTORS),
            Self::VectorsAndErasure => (harness.can_erase(), "the engine can't erase"),
            Self::VectorsAndFeed if !harness.keeps_vectors() => (false, NO_VECTORS),
            Self::VectorsAndFeed => (harness.can_watch(), "the engine has no feed"),
            Self::DamageAndFeed => (harness.can_watch() && harness.can_damage(), "the harness can't damage rows"),
            Self::LostChanges => (harness.can_watch() && harness.can_lose_changes(), "the harness can't lose changes"),
            #[cfg(feature = "faults")]
            Self::Server => (harness.faults().is_some(), "the harness has no server to cut off"),
            #[cfg(feature = "faults")]
            Self::OwnServer => {
                (harness.faults().is_some_and(Faults::can_start), "the harness has no server of its own to kill")
            }
        };
        (!is_there).then_some(reason)
    }
}

/// What a run of the suite can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What every case with random parts starts from; two runs of the same seed choose the same.
    pub seed: u64,
    /// How many random sequences the model-based part plays.
    pub sequences: u32,
    /// The most calls of a sequence, which may have any number up to it. `None` plays mostly short ones, and few of up to 500 calls.
    pub calls: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 20_260_101, sequences: 60, calls: None }
    }
}

impl Settings {
    /// The defaults, or what `MEMORY_TEST_SEED`, `MEMORY_TEST_SEQUENCES` and `MEMORY_TEST_CALLS` say; `Err` names the one that is no
    /// number.
    pub fn from_env() -> std::result::Result<Self, String> {
        let Self { seed, sequences, calls } = Self::default();
        Ok(Self {
            seed: variable("MEMORY_TEST_SEED", seed)?,
            sequences: variable("MEMORY_TEST_SEQUENCES", sequences)?,
            calls: match variable("MEMORY_TEST_CALLS", 0)? {
                0 => calls,
                most => Some(most),
            },
        })
    }
}

/// What a variable of the environment says; `Err` when it is no number.
pub(crate) fn variable<T: FromStr>(name: &str, default: T) -> std::result::Result<T, String> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} must be a number")),
        Err(_) => Ok(default),
    }
}

/// Where a case plays: one engine, and namespaces that are removed when the case is over.
#[derive(Debug, Clone)]
pub struct Stage {
    harness: Arc<dyn Harness>,
    settings: Settings,
    namespace: Namespace,
    /// Every namespace of the case, for the runner to remove.
    used: Arc<Mutex<Vec<Namespace>>>,
}

impl Stage {
    pub(crate) fn new(harness: Arc<dyn Harness>, settings: Settings) -> Self {
        Self::of(harness, settings, Namespace::unique())
    }

    /// The stage of a namespace that may be there already.
    pub(crate) fn of(harness: Arc<dyn Harness>, settings: Settings, namespace: Namespace) -> Self {
        let used = Arc::new(Mutex::new(vec![namespace.clone()]));
        Self { harness, settings, namespace, used }
    }

    /// A provider over the namespace of the case, initialised. Again: another handle on the same data.
    pub async fn open(&self) -> Result<Arc<dyn MemoryProvider>> {
        let provider = self.open_uninitialised().await?;
        provider.init().await?;
        Ok(provider)
    }

    /// The same before `init`.
    pub async fn open_uninitialised(&self) -> Result<Arc<dyn MemoryProvider>> {
        self.harness.open(&self.namespace).await
    }

    /// The engine.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// What this run of the suite varies.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The place and the settings that [`Stage::open`] uses.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The same namespace with another deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: std::time::Duration) -> Self {
        self.namespace.deadline = deadline;
        self
    }

    /// The same namespace where something else is asked of the history.
    #[must_use]
    pub fn with_history(mut self, history: memory_core::HistorySettings) -> Self {
        self.namespace.history = history;
        self
    }

    /// A stage with another namespace on the same engine.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        let namespace = Namespace::unique();
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(namespace.clone());
        Self { harness: Arc::clone(&self.harness), settings: self.settings, namespace, used: Arc::clone(&self.used) }
    }

    /// Removes all namespaces of the case.
    pub(crate) async fn remove(&self) -> Result<()> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for namespace in used {
            result = result.and(self.harness.remove(&namespace).await);
        }
        result
    }
}

/// Lists the cases of a chapter: each is an `async fn(Stage) -> CaseResult`, named for its situation and outcome.
macro_rules! chapter {
    ($chapter:literal: $($name:ident [$($rule:literal),+] $(needs $needs:ident)?,)+) => {
        /// The cases of this chapter.
        pub(crate) fn cases() -> Vec<$crate::case::Case> {
            vec![$($crate::case::Case {
                id: concat!($chapter, ".", stringify!($name)),
                rules: &[$($rule),+],
                needs: chapter!(@needs $($needs)?),
                run: |stage| Box::pin($name(stage)),
            }),+]
        }
    };
    (@needs) => { $crate::case::Needs::Nothing };
    (@needs $needs:ident) => { $crate::case::Needs::$needs };
}
pub(crate) use chapter;
