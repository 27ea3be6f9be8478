//! A case of the suite, its requirements, and the stage on which it runs.

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

/// The result of a case. A case reports a wrong answer by a panicking assertion, and a call that must not fail by an `Err`.
pub type CaseResult = std::result::Result<(), Box<dyn Error + Send + Sync>>;

type Run = fn(Stage) -> Pin<Box<dyn Future<Output = CaseResult> + Send>>;

/// One situation of the contract, tried on an engine.
#[derive(Clone, Copy)]
pub struct Case {
    /// Chapter and situation, such as `store.racing_stores_of_one_key_are_one`.
    pub id: &'static str,
    /// The numbers of the rules in `CONTRACT.md` that the case checks; at least one.
    pub rules: &'static [&'static str],
    /// What engine and harness must be able to do; the case is unsupported otherwise.
    pub needs: Needs,
    pub(crate) run: Run,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({} {:?})", self.id, self.rules)
    }
}

/// What a case requires of the engine and its harness beyond the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No requirement: every engine runs the case.
    Nothing,
    /// A harness that can damage a row ([`Harness::can_damage`]).
    Damage,
    /// A harness that can leave the schema of a later program ([`Harness::can_make_newer`]).
    NewerSchema,
    /// An engine that can be made read-only ([`Harness::can_be_read_only`]).
    ReadOnly,
    /// An engine with a feed of changes ([`Harness::can_watch`]).
    Feed,
    /// An engine with a feed of changes, and a harness that can damage a row.
    DamageAndFeed,
    /// An engine that keeps a history ([`Harness::keeps_history`]).
    History,
    /// An engine that can erase ([`Harness::can_erase`]).
    Erasure,
    /// An engine that keeps vectors beside records ([`Harness::keeps_vectors`]).
    Vectors,
    /// An engine that keeps vectors beside records and can erase.
    VectorsAndErasure,
    /// An engine that keeps vectors beside records and has a feed of changes.
    VectorsAndFeed,
    /// An engine with a feed of changes, and a harness that can make it lose some ([`Harness::can_lose_changes`]).
    LostChanges,
    /// A server that a proxy can stand in front of ([`Harness::faults`]).
    #[cfg(feature = "faults")]
    Server,
    /// A server that the case starts for itself and may kill ([`Faults::can_start`]).
    #[cfg(feature = "faults")]
    OwnServer,
}

const NO_VECTORS: &str = "the engine keeps no vectors";

impl Needs {
    /// The reason why this harness can't run a case with these needs; `None` if it can.
    pub(crate) fn lacking_in(self, harness: &dyn Harness) -> Option<&'static str> {
        let (is_there, reason) = match self {
            Self::Nothing => return None,
            Self::Damage => (harness.can_damage(), "the harness can't damage rows"),
            Self::NewerSchema => (harness.can_make_newer(), "the harness can't make the schema of a later program"),
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

/// The settings of a run of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The seed of everything random in the cases; two runs with the same seed make the same choices.
    pub seed: u64,
    /// How many random sequences of calls the chapter `model` plays.
    pub sequences: u32,
    /// Maximum number of calls of a sequence, which has any number up to it. With `None` most sequences are short, and a few have up to 500 calls.
    pub calls: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 20_260_101, sequences: 60, calls: None }
    }
}

impl Settings {
    /// The values of `MEMORY_TEST_SEED`, `MEMORY_TEST_SEQUENCES` and `MEMORY_TEST_CALLS`, or the defaults where they are unset. `Err` names the
    /// variable that is not a number.
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

/// Parses an environment variable, or returns the default where it is unset. `Err` names the variable when it is not a number.
pub(crate) fn variable<T: FromStr>(name: &str, default: T) -> std::result::Result<T, String> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} must be a number")),
        Err(_) => Ok(default),
    }
}

/// What a case runs on: one engine, and namespaces that the runner removes when the case has ended.
#[derive(Debug, Clone)]
pub struct Stage {
    harness: Arc<dyn Harness>,
    settings: Settings,
    namespace: Namespace,
    /// Every namespace that the case has used, for the runner to remove.
    used: Arc<Mutex<Vec<Namespace>>>,
}

impl Stage {
    pub(crate) fn new(harness: Arc<dyn Harness>, settings: Settings) -> Self {
        Self::of(harness, settings, Namespace::unique())
    }

    /// A stage on a namespace that may hold data already.
    pub(crate) fn of(harness: Arc<dyn Harness>, settings: Settings, namespace: Namespace) -> Self {
        let used = Arc::new(Mutex::new(vec![namespace.clone()]));
        Self { harness, settings, namespace, used }
    }

    /// Opens and initialises a provider on the namespace of the case. A second call opens another handle on the same data.
    pub async fn open(&self) -> Result<Arc<dyn MemoryProvider>> {
        let provider = self.open_uninitialised().await?;
        provider.init().await?;
        Ok(provider)
    }

    /// Opens a provider on the namespace of the case, without calling `init`.
    pub async fn open_uninitialised(&self) -> Result<Arc<dyn MemoryProvider>> {
        self.harness.open(&self.namespace).await
    }

    /// The harness of the engine under test.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The settings of this run of the suite.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The namespace that [`Stage::open`] opens, with its clock, deadline and history settings.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Sets the deadline of the calls of every provider that the stage opens from now on.
    #[must_use]
    pub fn with_deadline(mut self, deadline: std::time::Duration) -> Self {
        self.namespace.deadline = deadline;
        self
    }

    /// Sets the history settings of every provider that the stage opens from now on.
    #[must_use]
    pub fn with_history(mut self, history: memory_core::HistorySettings) -> Self {
        self.namespace.history = history;
        self
    }

    /// A stage with a new namespace on the same engine, which the runner removes too.
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
