//! Context providers: what contributes to the state of an agent before it speaks.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Cx;

/// Values by name, as JSON has them.
pub type Values = Map<String, Value>;

/// Something that an agent should know when it speaks, held as `Arc<dyn ContextProvider>`.
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
    /// What it is called and when it runs. The same at every call.
    fn info(&self) -> &ProviderInfo;

    /// What it contributes to this turn.
    ///
    /// # Behavior
    /// - The future is dropped when the deadline passes, and when the composition is no longer waited for.
    /// - An error, a panic or a deadline that passed leaves it out of the state; the others go on, and nothing is cached.
    /// - What it reads by [`Cx::state`] decides with the message whether a cached result still holds. What it reads elsewhere
    ///   does not: a result that changes between two compositions of one turn is [`uncached`](ProviderInfo::uncached).
    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult>;
}

impl fmt::Debug for dyn ContextProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextProvider({})", self.info().name)
    }
}

/// What a [`ContextProvider`] is called, when it runs, and how it stands in the text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderInfo {
    /// Unique among all providers of a composer; never empty.
    pub name: Cow<'static, str>,
    /// What it is good for, for a model that has to choose.
    pub description: Cow<'static, str>,
    /// Whether it only runs when it is asked for by name.
    pub dynamic: bool,
    /// Whether it is internal: like a dynamic one, and not shown to the model.
    pub private: bool,
    /// Lower ones run first, equal ones concurrently; 0 by default.
    pub position: i32,
    /// How long a composition waits for it; [`PROVIDER_DEADLINE`](super::PROVIDER_DEADLINE) by default.
    #[serde(skip)]
    pub deadline: Duration,
    /// Whether a second composition of the same message may take what the first one got; true by default.
    #[serde(skip)]
    pub cached: bool,
    /// Over the budget, sections of a lower priority are cut first; 50 by default.
    #[serde(skip)]
    pub priority: u8,
    /// Which lines of its text stay when it is cut; the first ones by default.
    #[serde(skip)]
    pub keep: Keep,
    /// How often its text changes; with every message by default.
    #[serde(skip)]
    pub stability: Stability,
}

/// Which lines of a text stay when it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// The first.
    #[default]
    First,
    /// The last, below the line that the text begins with, its heading.
    Last,
}

/// How often a text changes, from seldom to often: the order of the sections where that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stability {
    /// Seldom: the same for many messages of a room.
    Stable,
    /// It grows with the conversation.
    Conversation,
    /// With every message, or with the clock.
    #[default]
    Turn,
}

/// How long a composition waits for a provider unless that says otherwise.
pub const PROVIDER_DEADLINE: Duration = Duration::from_secs(5);

impl ProviderInfo {
    /// One that every composition runs, at position 0.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self::of(Cow::Borrowed(name), Cow::Borrowed(description))
    }

    /// The same under a name that is only known while the program runs.
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

    /// Runs only when it is asked for by name.
    #[must_use]
    pub const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    /// Is internal.
    #[must_use]
    pub const fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Runs at this position.
    #[must_use]
    pub const fn position(mut self, position: i32) -> Self {
        self.position = position;
        self
    }

    /// Is given up after this long.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs anew in every composition.
    #[must_use]
    pub const fn uncached(mut self) -> Self {
        self.cached = false;
        self
    }

    /// Has this priority within a budget.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Keeps these lines when it is cut.
    #[must_use]
    pub const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Changes this often.
    #[must_use]
    pub const fn stability(mut self, stability: Stability) -> Self {
        self.stability = stability;
        self
    }

    /// Whether every composition runs it that does not say otherwise.
    pub fn is_default(&self) -> bool {
        !self.dynamic && !self.private
    }
}

/// What a provider contributes. Each part may be empty.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProviderResult {
    /// For templates.
    pub values: Values,
    /// For programs: actions and providers of higher positions.
    pub data: Values,
    /// For the prompt.
    pub text: String,
}

impl ProviderResult {
    /// A text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// With a value.
    #[must_use]
    pub fn with_value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// With structured data.
    #[must_use]
    pub fn with_data(mut self, name: &str, data: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), data.into());
        self
    }

    /// Whether it contributes nothing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.data.is_empty() && self.text.trim().is_empty()
    }
}

impl fmt::Debug for ProviderResult {
    /// Payloads stay out of logs: only the sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (values, data, text) = (self.values.len(), self.data.len(), self.text.len());
        write!(f, "ProviderResult({values} values, {data} data, {text} bytes of text)")
    }
}
