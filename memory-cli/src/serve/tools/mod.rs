//! The tools: executors with their MCP descriptions.

mod ledger;
mod recall;

use std::sync::Arc;

use memory_core::plugin::{AnswerJson, Executor, MemoryPlugin, Plugin};
use memory_core::{Embedder, MemoryProvider};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ToolAnnotations};
use serde_json::Value;
use serde_json::value::RawValue;

use self::ledger::WriteLedger;
use self::recall::RecallMemory;
use super::access::{Access, LedgerAccess};

/// An executor as a tool of MCP: a verb of the memory plugin, recall from the ledger, or a write to it.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The name of its executor, in the characters that clients allow.
    pub(crate) name: String,
    pub(crate) executor: Arc<dyn Executor>,
    annotations: ToolAnnotations,
    /// Whether only callers who may write the ledger see it.
    writes_ledger: bool,
}

/// Makes the tools of a provider: the verbs of its plugin, recall from the ledger, and writes to it.
///
/// With an embedder, questions are also searched by meaning.
pub(crate) fn tools(provider: &Arc<dyn MemoryProvider>, embedder: Option<&Arc<dyn Embedder>>) -> Vec<Tool> {
    let plugin: Arc<dyn Plugin> = match embedder {
        Some(embedder) => Arc::new(MemoryPlugin::new(Arc::clone(provider)).with_embedder(Arc::clone(embedder))),
        None => Arc::clone(provider).plugin(),
    };
    let hints = |title: &str| ToolAnnotations::with_title(title).open_world(false);
    let mut tools: Vec<_> = plugin
        .executors()
        .iter()
        .map(|executor| {
            let annotations = match executor.name() {
                "memory:query" => hints("Search memory").read_only(true).destructive(false).idempotent(true),
                "memory:add_document" => hints("Save to memory").read_only(false).destructive(false).idempotent(false),
                "memory:remove_document" => {
                    hints("Remove from memory").read_only(false).destructive(true).idempotent(true)
                }
                // Engine-specific verbs get the most cautious annotations, as MCP's defaults are.
                other => hints(other),
            };
            Tool::new(Arc::clone(executor), annotations, false)
        })
        .collect();
    if let Some(query) = plugin.executor("memory:query") {
        let annotations = hints("Recall what happened").read_only(true).destructive(false).idempotent(true);
        tools.push(Tool::new(Arc::new(RecallMemory::new(Arc::clone(query))), annotations, false));
    }
    let annotations = hints("Store what happened").read_only(false).destructive(false).idempotent(false);
    tools.push(Tool::new(Arc::new(WriteLedger::store(Arc::clone(provider))), annotations, true));
    let annotations = hints("Update what happened").read_only(false).destructive(true).idempotent(false);
    tools.push(Tool::new(Arc::new(WriteLedger::update(Arc::clone(provider))), annotations, true));
    tools
}

impl Tool {
    fn new(executor: Arc<dyn Executor>, annotations: ToolAnnotations, writes_ledger: bool) -> Self {
        Self { name: executor.name().replace(':', "_"), executor, annotations, writes_ledger }
    }

    /// Whether a caller may see the tool.
    pub(crate) fn is_for(&self, access: &Access) -> bool {
        !self.writes_ledger || access.ledger == LedgerAccess::Write
    }

    /// Returns the MCP description of the tool.
    pub(crate) fn describe(&self) -> rmcp::model::Tool {
        let description = self.executor.description().to_owned();
        rmcp::model::Tool::new(self.name.clone(), description, object(self.executor.arguments()))
            .with_raw_output_schema(Arc::new(object(self.executor.answer())))
            .with_annotations(self.annotations.clone())
    }
}

/// Returns an answer as text, byte for byte, and as structured content.
pub(crate) fn result(answer: &AnswerJson) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.as_str())]);
    result.structured_content = serde_json::from_str(answer.as_str()).ok().map(|raw: &RawValue| structured(raw));
    result
}

/// Converts JSON to structured content. Its numbers have 64 bits, so larger numbers become text.
fn structured(raw: &RawValue) -> Value {
    if let Ok(value) = serde_json::from_str(raw.get()) {
        return value;
    }
    let object: Result<std::collections::BTreeMap<String, &RawValue>, _> = serde_json::from_str(raw.get());
    if let Ok(members) = object {
        return Value::Object(members.into_iter().map(|(name, value)| (name, structured(value))).collect());
    }
    match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(items) => Value::Array(items.into_iter().map(structured).collect()),
        Err(_) => Value::String(raw.get().to_owned()),
    }
}

fn object(schema: &Value) -> JsonObject {
    schema.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_beyond_the_protocol_are_shown_as_text() {
        let raw: &RawValue = serde_json::from_str(r#"{"a":[1,1e999,{"b":-1e400}],"c":"é"}"#).expect("JSON");
        assert_eq!(structured(raw), json!({"a": [1, "1e999", {"b": "-1e400"}], "c": "é"}));
    }
}
