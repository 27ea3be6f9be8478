//! The tools, the provider, the evaluator and the service of the host.

use std::future::pending;

use async_trait::async_trait;
use memory_context::agent::{AgentBuilder, Tool, ToolContext, ToolOutput};
use memory_context::state::{
    ContextProvider, Cx, Evaluation, Evaluator, EvaluatorInfo, ProviderInfo, ProviderResult, Service,
};
use memory_context::{Error, ErrorKind, Result};

/// Tells the weather of a place.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The name of a town.
    place: String,
}

/// Gives an agent all of them.
pub(crate) fn of_the_host(builder: AgentBuilder) -> AgentBuilder {
    builder
        .tool(Tool::new("weather", |weather: Weather, _| async move {
            Ok(ToolOutput::new(format!("It rains in {}.", weather.place)).with_value("weather", "rain"))
        }))
        .tool(Tool::new("announce", |(), _| async { Ok(ToolOutput::said("Dinner is ready.")) }))
        .tool(Tool::new("count", |(), context: ToolContext| async move {
            context.say("One.").await?;
            context.say("Two.").await?;
            Ok("Counted.")
        }))
        .tool(Tool::new("fail", |(), _| async { Err::<(), _>(Error::new(ErrorKind::Unavailable, "the line is down")) }))
        .tool(Tool::new("panic", |(), _| async { if true { panic!("as a test") } else { Ok(()) } }))
        .tool(Tool::new("hang", |(), _| async { pending::<Result<()>>().await }))
        .tool(Tool::new("secret", |(), _| async { Ok("never") }).when(|_, _| async { Ok(false) }))
        .provider(Tides)
        .provider(Broken)
        .evaluator(Closing)
        .evaluator(Stumbling::fails())
        .evaluator(Stumbling::panics())
        .service(Phone)
}

/// A provider that the model has to request by name.
#[derive(Debug)]
struct Tides;

static TIDES: ProviderInfo = ProviderInfo::new("TIDES", "When the water is high").dynamic();

#[async_trait]
impl ContextProvider for Tides {
    fn info(&self) -> &ProviderInfo {
        &TIDES
    }

    async fn get(&self, _: &Cx<'_>) -> Result<ProviderResult> {
        Ok(ProviderResult::text("# Tides\nHigh water is at noon."))
    }
}

/// One that always fails.
#[derive(Debug)]
struct Broken;

static BROKEN: ProviderInfo = ProviderInfo::new("BROKEN", "Nothing");

#[async_trait]
impl ContextProvider for Broken {
    fn info(&self) -> &ProviderInfo {
        &BROKEN
    }

    async fn get(&self, _: &Cx<'_>) -> Result<ProviderResult> {
        Err(Error::new(ErrorKind::Unavailable, "as a test"))
    }
}

/// Says a word when somebody says goodbye.
#[derive(Debug)]
struct Closing;

static CLOSING: std::sync::LazyLock<EvaluatorInfo> =
    std::sync::LazyLock::new(|| EvaluatorInfo::new("CLOSING", "Says a last word"));

#[async_trait]
impl Evaluator for Closing {
    fn info(&self) -> &EvaluatorInfo {
        &CLOSING
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        Ok(cx.message().content.text.starts_with("Goodbye"))
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        evaluation.say("Take care.").await.map(drop)
    }
}

/// One that never ends.
#[derive(Debug)]
struct Stumbling {
    info: EvaluatorInfo,
    panics: bool,
}

impl Stumbling {
    fn fails() -> Self {
        Self { info: EvaluatorInfo::new("FAILING", "Fails when it is to look back"), panics: false }
    }

    fn panics() -> Self {
        Self { info: EvaluatorInfo::new("PANICKING", "Panics when it is to look back"), panics: true }
    }
}

#[async_trait]
impl Evaluator for Stumbling {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        Ok(cx.message().content.text == "Look back")
    }

    async fn evaluate(&self, _: &Evaluation<'_>) -> Result<()> {
        assert!(!self.panics, "as a test");
        Err(Error::new(ErrorKind::Unavailable, "as a test"))
    }
}

#[derive(Debug)]
struct Phone;

impl Service for Phone {
    fn name(&self) -> &str {
        "phone"
    }

    fn description(&self) -> &str {
        "Calls people"
    }
}
