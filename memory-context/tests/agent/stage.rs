//! An agent with a model that the test plays.

use memory_context::agent::{Agent, AgentBuilder, Answer, Tool, ToolContext, ToolResult};
use memory_context::core::Erasure;
use memory_context::{Error, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::model::{Model, within};

/// Ada, her memory in a file, and the model that speaks for her.
pub(crate) struct Stage {
    pub(crate) model: Model,
    pub(crate) agent: Agent,
    folder: TempDir,
}

/// Tells the weather of a place.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Weather {
    /// The name of a town.
    place: String,
}

pub(crate) async fn weather(arguments: Weather, _: ToolContext) -> Result<String> {
    Ok(format!("It rains in {}.", arguments.place))
}

impl Stage {
    /// With the tool of the example.
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder.tool(Tool::new("weather", weather))).await
    }

    /// Without the built-in tools.
    pub(crate) async fn with(build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        Self::whole(|builder| build(builder.without_built_in_tools())).await
    }

    /// With all defaults of an agent.
    pub(crate) async fn whole(build: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = Model::start().await;
        let builder = Agent::builder("ada").memory(url(&folder)).model(&model.url, "small").system("You are terse.");
        let agent = build(builder).build().await.expect("an agent");
        Self { model, agent, folder }
    }

    /// The URL of the memory.
    pub(crate) fn url(&self) -> String {
        url(&self.folder)
    }

    /// Erases from the memory, as an operator beside the agent, and returns the number of records.
    pub(crate) async fn erases(&self, erasure: &Erasure) -> usize {
        let provider = memory_runtime::open(&self.url()).expect("a memory");
        provider.init().await.expect("opens");
        let erased = provider.erase(erasure).await.expect("erased").records.len();
        provider.shutdown().await.expect("closes");
        erased
    }

    pub(crate) fn asks(&self, user: &str, text: &str) -> JoinHandle<Result<Answer>> {
        let (agent, user, text) = (self.agent.clone(), user.to_owned(), text.to_owned());
        tokio::spawn(async move { agent.ask(user, text).await })
    }

    /// Ends it, and checks that the model got no request that the test has not seen.
    pub(crate) async fn ends(mut self) {
        assert!(self.model.is_idle(), "nothing more is asked");
        within(self.agent.shutdown()).await.expect("closes");
    }
}

fn url(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("agent.db").display())
}

/// The answer to a question.
pub(crate) async fn answer(asked: JoinHandle<Result<Answer>>) -> Answer {
    within(asked).await.expect("no panic").expect("an answer")
}

/// The error of a request without an answer.
pub(crate) async fn failure(asked: JoinHandle<Result<Answer>>) -> Error {
    within(asked).await.expect("no panic").expect_err("no answer")
}

/// The texts that were said.
pub(crate) fn said(answer: &Answer) -> Vec<&str> {
    answer.said.iter().map(|message| message.content.text.as_str()).collect()
}

/// The name, the success and the result of each call.
pub(crate) fn results(answer: &Answer) -> Vec<(&str, bool, &str)> {
    fn told(result: &ToolResult) -> &str {
        result.error.as_deref().or(result.text.as_deref()).unwrap_or_default()
    }
    answer.results.iter().map(|result| (result.tool.as_str(), result.success, told(result))).collect()
}

/// Arguments that name a place.
pub(crate) fn place(name: &str) -> Value {
    json!({ "place": name })
}
