//! Context providers, which contribute to the state of an agent.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Cx;

/// JSON values by name.
pub type Values = Map<String, Value>;

/// Contributes values, data and text to the state of each turn. Held as `Arc<dyn ContextProvider>`.
///
/// ```
/// use async_trait::async_trait;
/// use memory_context::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};
///
/// struct Weather;
///
/// static WEATHER: ProviderInfo = ProviderInfo::new("WEATHER", "Provides current weather information").dynamic();
///
/// #[async_trait]
/// impl ContextProvider for Weather {
///     fn info(&self) -> &ProviderInfo {
///         &WEATHER
///     }
///
///     async fn get(&self, cx: &Cx<'_>) -> memory_core::Result<ProviderResult> {
///         let place = cx.state().values.get("userLocation").and_then(|place| place.as_str()).unwrap_or("New York");
///         Ok(ProviderResult::text(format!("Current weather in {place}: 21 °C")).with_value("temperature", 21))
///     }
/// }
/// ```
#[async_trait]
pub trait ContextProvider: Send + Sync + 'static {
    /// The name and properties; the same in every call.
    fn info(&self) -> &ProviderInfo;

    /// Returns the contribution to a turn.
    ///
    /// # Behavior
    /// - The future is dropped at the deadline, and when the composition is dropped.
    /// - After an error, a panic or a missed deadline the provider contributes nothing and nothing is cached; the other providers still
    ///   run.
    /// - A cached result is used again for the same message, as long as [`Cx::state`] would be the same, if the provider read it. Other
    ///   inputs are not tracked: a provider whose result changes between two compositions of a turn must be
    ///   [`uncached`](ProviderInfo::uncached).
    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult>;
}

impl fmt::Debug for dyn ContextProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextProvider({})", self.info().name)
    }
}

/// The name of a [`ContextProvider`], when it runs, and how its text is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderInfo {
    /// The name, not empty and unique among the providers of a composer.
    pub name: Cow<'static, str>,
    /// What it provides, for a model that chooses providers.
    pub description: Cow<'static, str>,
    /// Whether it runs only if it is requested by name.
    pub dynamic: bool,
    /// Whether it is internal: it runs only if it is requested by name, and models are not told of it.
    pub private: bool,
    /// The position: lower ones run first, equal ones concurrently; 0 by default.
    pub position: i32,
    /// The deadline of a call; [`PROVIDER_DEADLINE`] by default.
    #[serde(skip)]
    pub deadline: Duration,
    /// Whether later compositions of the same message may reuse its result; `true` by default.
    #[serde(skip)]
    pub cached: bool,
    /// The priority within a budget: sections of lower priority are cut first; 50 by default.
    #[serde(skip)]
    pub priority: u8,
    /// Which lines of its text are kept when it is cut; the first ones by default.
    #[serde(skip)]
    pub keep: Keep,
    /// How often its text changes; with every message by default.
    #[serde(skip)]
    pub stability: Stability,
}

/// Which lines of a text are kept when it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// The first lines.
    #[default]
    First,
    /// The heading, which is the first line, and the last lines.
    Last,
}

/// How often a text changes, ordered from rarely to often. [`ComposeOptions::stable_first`](super::ComposeOptions::stable_first) orders
/// sections by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stability {
    /// Changes rarely: it is the same for many messages of a room.
    Stable,
    /// Grows with the conversation.
    Conversation,
    /// Changes with every message, or with the time.
    #[default]
    Turn,
}

/// The default deadline of a provider call.
pub const PROVIDER_DEADLINE: Duration = Duration::from_secs(5);

impl ProviderInfo {
    /// Makes the properties of a provider that runs by default, at position 0.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self::of(Cow::Borrowed(name), Cow::Borrowed(description))
    }

    /// Like [`new`](Self::new), for names that are not known at compile time.
    pub fn named(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::of(Cow::Owned(name.into()), Cow::Owned(description.into()))
    }

    const fn of(name: Cow<'static, str>, description: Cow<'static, str>) -> Self {
        Self {
            name,
            description,
            dynamic: false,
            private: false,
            position: 0,
            deadline: PROVIDER_DEADLINE,
            cached: true,
            priority: 50,
            keep: Keep::First,
            stability: Stability::Turn,
        }
    }

    /// Makes it run only if it is requested by name.
    #[must_use]
    pub const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    /// Makes it internal: it runs only if it is requested by name, and models are not told of it.
    #[must_use]
    pub const fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Sets the position.
    #[must_use]
    pub const fn position(mut self, position: i32) -> Self {
        self.position = position;
        self
    }

    /// Sets the deadline of a call.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Makes it run again in every composition, without the cache.
    #[must_use]
    pub const fn uncached(mut self) -> Self {
        self.cached = false;
        self
    }

    /// Sets the priority within a budget.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets which lines are kept when its text is cut.
    #[must_use]
    pub const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets how often its text changes.
    #[must_use]
    pub const fn stability(mut self, stability: Stability) -> Self {
        self.stability = stability;
        self
    }

    /// Whether it runs by default, that is, it is neither dynamic nor private.
    pub fn is_default(&self) -> bool {
        !self.dynamic && !self.private
    }
}

/// The contribution of a provider. Each part may be empty.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProviderResult {
    /// Values for templates.
    pub values: Values,
    /// Data for programs: actions and providers of higher positions.
    pub data: Values,
    /// Text for the prompt.
    pub text: String,
}

impl ProviderResult {
    /// Makes a result that has only a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Adds a value for templates.
    #[must_use]
    pub fn with_value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// Adds data for programs.
    #[must_use]
    pub fn with_data(mut self, name: &str, data: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), data.into());
        self
    }

    /// Whether all parts are empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.data.is_empty() && self.text.trim().is_empty()
    }
}

impl fmt::Debug for ProviderResult {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (values, data, text) = (self.values.len(), self.data.len(), self.text.len());
        write!(f, "ProviderResult({values} values, {data} data, {text} bytes of text)")
    }
}
