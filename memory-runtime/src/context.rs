//! The trigger of a task, and the items of its context chain: the recalled memories, the plans, and the outcome of each
//! step.

use memory_core::plugin::AnswerJson;
use memory_core::{Error, JsonText, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

/// The content of a [`ContextItem`]: JSON, kept byte for byte.
pub type ContextContent = AnswerJson;

/// The trigger of a task, or one item of its chain. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextItem {
    /// Unique among all items.
    pub id: String,
    /// The role of the item in the chain.
    pub kind: ContextKind,
    /// The id of the plugin that made it, or `runtime`.
    pub plugin_id: String,
    /// The action whose outcome it is; `None` if it is not the outcome of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The payload.
    pub content: ContextContent,
    /// When it was made.
    pub timestamp: Timestamp,
}

/// The role of a [`ContextItem`] in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextKind {
    /// The event that started the task. It is the `trigger` of the memory and not part of the chain.
    Trigger,
    /// The ids of the memories that were recalled for the task: `{"ids":[…]}`.
    Related,
    /// The planned steps from here on: `{"steps":[…]}`.
    Plan,
    /// The answer of a step that succeeded.
    Result,
    /// A failure: `{"kind":"…","message":"…"}`. With an action, a step failed; without one, the runtime or its planner did.
    Error,
}

/// The `plugin_id` of items that the runtime itself makes.
const RUNTIME: &str = "runtime";

impl ContextItem {
    /// Returns the trigger of a task, which a plugin or a host fires.
    pub fn trigger(plugin_id: impl Into<String>, content: ContextContent, timestamp: Timestamp) -> Self {
        Self::new(ContextKind::Trigger, plugin_id, content, timestamp)
    }

    /// Whether the item is the outcome of a step, successful or not.
    pub fn is_step(&self) -> bool {
        self.action.is_some()
    }

    pub(crate) fn new(
        kind: ContextKind,
        plugin_id: impl Into<String>,
        content: ContextContent,
        timestamp: Timestamp,
    ) -> Self {
        let id = Uuid::now_v7().to_string();
        Self { id, kind, plugin_id: plugin_id.into(), action: None, content, timestamp }
    }

    /// Returns an item that the runtime itself makes.
    pub(crate) fn of_runtime(kind: ContextKind, content: &impl Serialize, timestamp: Timestamp) -> Result<Self> {
        Ok(Self::new(kind, RUNTIME, JsonText::from_value(content)?, timestamp))
    }

    /// Returns a failure of the runtime or the planner.
    pub(crate) fn failure(error: &Error, timestamp: Timestamp) -> Result<Self> {
        Self::of_runtime(ContextKind::Error, &describe(error), timestamp)
    }

    /// Returns the outcome of a step.
    pub(crate) fn outcome(
        plugin_id: &str,
        action: &str,
        outcome: Result<ContextContent>,
        timestamp: Timestamp,
    ) -> Result<Self> {
        let (kind, content) = match outcome {
            Ok(content) => (ContextKind::Result, content),
            Err(error) => (ContextKind::Error, JsonText::from_value(&describe(&error))?),
        };
        Ok(Self { action: Some(action.to_owned()), ..Self::new(kind, plugin_id, content, timestamp) })
    }
}

/// The JSON of an error in the chain: its kind and its message, which quotes no payload.
fn describe(error: &Error) -> serde_json::Value {
    json!({ "kind": format!("{:?}", error.kind()), "message": error.message() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_kept_byte_for_byte() {
        let content = ContextContent::parse(r#"{"b":1.50,"a":"caf\u00e9"}"#).expect("JSON");
        let trigger = ContextItem::trigger("discord", content, Timestamp::from_millis(7).expect("valid"));
        let json = serde_json::to_string(&trigger).expect("JSON");
        assert!(
            json.contains(
                r#""kind":"trigger","pluginId":"discord","content":{"b":1.50,"a":"caf\u00e9"},"timestamp":7"#
            )
        );
        assert_eq!(serde_json::from_str::<ContextItem>(&json).expect("valid"), trigger);
        assert!(!format!("{trigger:?}").contains("caf"), "payloads stay out of logs");
    }
}
