//! The tool type.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use memory_core::{Error, Result};
use memory_model::{Schema, ToolSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::reserved::{IGNORE, REPLY};
use super::{ToolContext, ToolOutput};
use crate::records::Message;
use crate::state::{ExampleMessage, Services};

/// The longest name of a tool, in bytes.
pub const MAX_NAME: usize = 64;
/// The most bytes of the arguments of one call, as JSON.
pub const MAX_ARGUMENTS: usize = 256 << 10;
/// The deadline of the check whether a tool is offered.
const CHECK: Duration = Duration::from_secs(5);

/// A function that a model may call. Cloning is cheap.
///
/// ```
/// use memory_context::tool::{Tool, ToolContext};
///
/// /// Tells the weather of a place.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Weather {
///     /// The name of a town.
///     place: String,
/// }
///
/// async fn weather(arguments: Weather, _: ToolContext) -> memory_context::Result<String> {
///     Ok(format!("It rains in {}.", arguments.place))
/// }
///
/// let tool = Tool::new("weather", weather);
/// assert_eq!(tool.description(), "Tells the weather of a place.");
/// let now = Tool::new("now", |(), context: ToolContext| async move { Ok(context.services().clock().now().to_string()) })
///     .with_description("Tells the time.");
/// ```
#[derive(Clone)]
pub struct Tool {
    name: String,
    description: String,
    /// The schema, or why it is invalid.
    parameters: std::result::Result<Arc<Schema>, String>,
    similes: Vec<String>,
    examples: Vec<Vec<ExampleMessage>>,
    is_repeatable: bool,
    check: Option<Arc<Check>>,
    handler: Arc<Handler>,
}

type Handler = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput>> + Send + Sync;
type Check = dyn Fn(Arc<Message>, Arc<Services>) -> BoxFuture<'static, Result<bool>> + Send + Sync;

impl Tool {
    /// Makes a tool with typed arguments. The doc comment of the type becomes the description of the tool, and those of its fields describe
    /// the arguments to the model. `()` takes no arguments.
    ///
    /// A name has 1 to [`MAX_NAME`] of the characters `a-z`, `A-Z`, `0-9`, `_` and `-`, and is not [`REPLY`] or [`IGNORE`], which have a
    /// meaning in answers. The registration refuses a tool with another name, or whose arguments are not an object.
    pub fn new<A, O, F, R>(name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Into<ToolOutput>,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
    {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
        let is_unit = schema["type"] == "null";
        if is_unit {
            schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        }
        let described = schema.as_object_mut().and_then(|schema| {
            schema.remove("title");
            schema.remove("description")
        });
        let description = described.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::made(name.into(), description, schema, move |arguments, context| {
            let read = serde_json::from_value(if is_unit { Value::Null } else { arguments });
            // The parser's own message may quote the arguments.
            let called = read.map(|arguments| function(arguments, context)).map_err(|error| {
                Error::invalid("the arguments do not have the shape that the tool expects").with_source(error)
            });
            Box::pin(async move { called?.await.map(Into::into) })
        })
    }

    /// Makes a tool whose arguments are an object that satisfies a JSON Schema (2020-12).
    pub fn with_schema<O, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        function: F,
    ) -> Self
    where
        O: Into<ToolOutput>,
        F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
    {
        Self::made(name.into(), description.into(), schema, move |arguments, context| {
            let called = function(arguments, context);
            Box::pin(async move { called.await.map(Into::into) })
        })
    }

    fn made(
        name: String,
        description: String,
        schema: Value,
        handler: impl Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput>> + Send + Sync + 'static,
    ) -> Self {
        let parameters = match schema["type"] == "object" {
            true => Schema::new(name.clone(), schema).map(Arc::new).map_err(|error| error.message().to_owned()),
            false => Err(format!("the arguments of the tool {name} must be an object")),
        };
        let (similes, examples) = (Vec::new(), Vec::new());
        Self {
            name,
            description,
            parameters,
            similes,
            examples,
            is_repeatable: false,
            check: None,
            handler: Arc::new(handler),
        }
    }

    /// Sets the description: what the tool does and when to call it, for a model that chooses tools.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds another name by which a model may call the tool.
    #[must_use]
    pub fn with_simile(mut self, name: impl Into<String>) -> Self {
        self.similes.push(name.into());
        self
    }

    /// Adds an example conversation in which the tool is called, for the model.
    #[must_use]
    pub fn with_example(mut self, messages: Vec<ExampleMessage>) -> Self {
        self.examples.push(messages);
        self
    }

    /// Declares the tool idempotent: calling it twice has the same effect as calling it once. After a crash, a call with unknown outcome is
    /// repeated only if the tool is declared so.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Offers the tool only if `check` returns true. It is called with the message before each round of the dialogue with the model; if it
    /// fails, the tool is not offered.
    #[must_use]
    pub fn when<F, R>(mut self, check: F) -> Self
    where
        F: Fn(Arc<Message>, Arc<Services>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<bool>> + Send + 'static,
    {
        self.check = Some(Arc::new(move |message, services| Box::pin(check(message, services))));
        self
    }

    /// The name by which models call the tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description: what the tool does and when to call it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON Schema of the arguments; null if it is invalid.
    pub fn parameters(&self) -> &Value {
        self.parameters.as_ref().map_or(&Value::Null, |schema| schema.as_value())
    }

    /// Other names by which models may call the tool.
    pub fn similes(&self) -> &[String] {
        &self.similes
    }

    /// Example conversations in which the tool is called.
    pub fn examples(&self) -> &[Vec<ExampleMessage>] {
        &self.examples
    }

    /// Whether the tool is idempotent; see [`repeatable`](Self::repeatable).
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Whether both are the same tool, compared by identity, not by name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handler, &other.handler)
    }

    /// Fails with `InvalidInput` if the name or the schema is not valid.
    pub(crate) fn validate(&self) -> Result<()> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=MAX_NAME).contains(&self.name.len()) || !self.name.bytes().all(is_allowed) {
            return Err(Error::invalid(format!("the name of a tool must be 1 to {MAX_NAME} letters, digits, _ or -")));
        }
        let names = || self.similes.iter().chain([&self.name]);
        if let Some(word) = [REPLY, IGNORE].into_iter().find(|word| names().any(|name| name.eq_ignore_ascii_case(word)))
        {
            let message = format!("no tool can be called {word}: in an answer, that says or ignores something");
            return Err(Error::invalid(message));
        }
        self.parameters.as_ref().map(drop).map_err(Error::invalid)
    }

    /// The tools that are offered for a message, in the order of their registration.
    pub(crate) async fn offered(services: &Arc<Services>, message: &Arc<Message>) -> Vec<Self> {
        let tools = services.tools();
        let offered = join_all(tools.iter().map(|tool| tool.is_offered(message, services))).await;
        tools.iter().zip(offered).filter(|(_, is_offered)| *is_offered).map(|(tool, _)| tool.clone()).collect()
    }

    /// Whether the tool is offered for a message. If its check fails, panics or takes longer than [`CHECK`], it is not.
    async fn is_offered(&self, message: &Arc<Message>, services: &Arc<Services>) -> bool {
        let Some(check) = &self.check else { return true };
        let checked = async { check(Arc::clone(message), Arc::clone(services)).await };
        let reason = match timeout(CHECK, AssertUnwindSafe(checked).catch_unwind()).await {
            Ok(Ok(Ok(is_offered))) => return is_offered,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "it panicked".to_owned(),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(tool = %self.name, reason, "a tool can't be checked, and is not offered");
        false
    }

    /// The description for a model; `None` if the schema is invalid.
    pub(crate) fn spec(&self) -> Option<ToolSpec> {
        let parameters = Arc::clone(self.parameters.as_ref().ok()?);
        Some(ToolSpec { name: self.name.clone(), description: self.description.clone(), parameters })
    }

    /// Validates arguments. Fails with `InvalidInput`, which lists the faults and quotes no values.
    pub(crate) fn check_arguments(&self, arguments: &Value) -> Result<()> {
        self.parameters.as_ref().map_err(Error::invalid)?.check(arguments)
    }

    /// Calls the tool with validated arguments.
    pub(crate) fn call(&self, arguments: Value, context: ToolContext) -> BoxFuture<'static, Result<ToolOutput>> {
        (self.handler)(arguments, context)
    }

    /// Finds a tool by its name or else by one of its similes, ignoring case and word separators. The whole name must match.
    pub(crate) fn find<'t>(tools: &'t [Self], name: &str) -> Option<&'t Self> {
        let wanted = plain(name);
        let exact = tools.iter().find(|tool| tool.name == name);
        let named = exact.or_else(|| tools.iter().find(|tool| plain(&tool.name) == wanted));
        named.or_else(|| tools.iter().find(|tool| tool.similes.iter().any(|simile| plain(simile) == wanted)))
    }
}

/// Normalises a name: ignores case and word separators.
pub(crate) fn plain(name: &str) -> String {
    name.replace(['_', '-', ':', '.', ' '], "").to_lowercase()
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("similes", &self.similes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a letter.
    #[derive(serde::Deserialize, JsonSchema)]
    struct Letter {
        /// Who gets it.
        to: String,
        copies: Option<u8>,
    }

    fn named(name: &str) -> Tool {
        Tool::new(name, |(), _| async { Ok(()) })
    }

    #[test]
    fn a_type_describes_its_tool() {
        let sent = |Letter { to, copies }, _| async move { Ok(format!("{} to {to}", copies.unwrap_or(1))) };
        let tool = Tool::new("send", sent);
        tool.validate().expect("registers");
        assert_eq!(tool.description(), "Sends a letter.");
        assert_eq!(tool.parameters()["properties"]["to"], json!({ "description": "Who gets it.", "type": "string" }));
        assert_eq!(tool.parameters()["required"], json!(["to"]));
        tool.check_arguments(&json!({ "to": "Bo" })).expect("whole");
        let error = tool.check_arguments(&json!({ "copies": "xyzzy" })).expect_err("two faults");
        assert!(error.message().contains("/copies") && error.message().contains("\"to\""), "{error}");
        assert!(!error.message().contains("xyzzy"), "{error}");
    }

    #[test]
    fn what_can_not_be_offered_is_refused() {
        named("now").validate().expect("no arguments are an object");
        for name in ["", "memory:query", "a b", "é", &"a".repeat(65)] {
            named(name).validate().expect_err(name);
        }
        Tool::new("list", |_: Vec<String>, _| async { Ok(()) }).validate().expect_err("no object");
        for named in [named("reply"), named("IGNORE"), named("say").with_simile("Reply")] {
            let message = named.validate().expect_err("a word of the answer").message().to_owned();
            assert!(message.starts_with("no tool can be called "), "{message}");
        }
        let broken = json!({ "type": "object", "properties": 7 });
        Tool::with_schema("broken", "", broken, |_, _| async { Ok(()) }).validate().expect_err("no schema");
    }

    #[test]
    fn tools_are_found_by_name_then_by_simile_and_not_by_a_part() {
        let tools = ["REPLY_ALL", "DO_FOLLOW", "FOLLOW", "memory_query"]
            .map(|name| named(name).with_simile(format!("DO_{name}")));
        for (name, found) in [
            ("REPLY_ALL", Some("REPLY_ALL")),
            ("replyall", Some("REPLY_ALL")),
            ("DO_REPLY_ALL", Some("REPLY_ALL")),
            ("DO_FOLLOW", Some("DO_FOLLOW")),
            ("memory:query", Some("memory_query")),
            ("REPLY", None),
            ("FOLLOW_ALL", None),
            ("", None),
        ] {
            assert_eq!(Tool::find(&tools, name).map(Tool::name), found, "{name}");
        }
    }
}
