//! `ACTIONS`: the tools that the agent can call.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::Result;
use serde_json::{Value, json};

use crate::providers::format::{conversations, indented, one_line, paragraphs, section};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};
use crate::tool::Tool;

/// Contributes the tools that can be called in this turn, as the actions of an answer. A tool whose check fails is left out.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Actions;

static INFO: ProviderInfo = ProviderInfo::new("ACTIONS", "The actions that the agent can do in answer to the message")
    .position(-1)
    .priority(80)
    .stability(Stability::Stable)
    // A call of a tool may change which tools can be called next.
    .uncached();

/// The most examples.
const EXAMPLES: usize = 10;

#[async_trait]
impl ContextProvider for Actions {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (services, message) = (Arc::new(cx.services().clone()), Arc::new(cx.message().clone()));
        let tools = Tool::offered(&services, &message).await;
        if tools.is_empty() {
            return Ok(ProviderResult::default());
        }
        let quoted: Vec<_> = tools.iter().map(|tool| format!("'{}'", tool.name())).collect();
        let names = format!("Possible response actions: {}", quoted.join(", "));
        let described: Vec<_> = tools.iter().map(described).collect();
        let described = section("Available Actions", &described.join("\n"));
        let told: Vec<_> = tools.iter().map(with_parameters).collect();
        let told = section("Available Actions", &told.join("\n"));
        let examples = conversations(tools.iter().flat_map(|tool| tool.examples()).take(EXAMPLES));
        let examples = section("Action Examples", &examples);
        let data: Vec<_> = tools.iter().map(data).collect();
        Ok(ProviderResult::text(paragraphs([told.as_str(), &names, &examples]))
            .with_value("actionNames", names)
            .with_value("actionsWithDescriptions", described)
            .with_value("actionsWithParams", told)
            .with_value("actionExamples", examples)
            .with_data("actionsData", data))
    }
}

fn described(tool: &Tool) -> String {
    format!("- **{}**: {}", tool.name(), indented(tool.description()))
}

/// Formats a tool with its parameters and their descriptions.
fn with_parameters(tool: &Tool) -> String {
    let schema = tool.parameters();
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let parameters = properties.map(|(name, property)| {
        let kind = property["type"].as_str().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        let meaning = property["description"].as_str().map(|meaning| format!(": {}", one_line(meaning)));
        format!("\n  - {name}{kind}{optional}{}", meaning.unwrap_or_default())
    });
    described(tool) + &parameters.collect::<String>()
}

fn data(tool: &Tool) -> Value {
    json!({
        "name": tool.name(),
        "description": tool.description(),
        "parameters": tool.parameters(),
        "similes": tool.similes(),
    })
}
