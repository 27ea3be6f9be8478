//! The items of a context chain: what triggered a task, and what came of it step by step.

use memory_core::plugin::AnswerJson;
use memory_core::{Error, JsonText, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

/// The content of a [`ContextItem`]: JSON, kept byte for byte.
pub type ContextContent = AnswerJson;

/// What started a task, or one item of the chain that came of it. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextItem {
    /// Unique among all items.
    pub id: String,
    /// What kind of item it is.
    pub kind: ContextKind,
    /// Who made it: a plugin, or `runtime`.
    pub plugin_id: String,
    /// The action of the step that it came of, if it came of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What it says.
    pub content: ContextContent,
    /// When it was made.
    pub timestamp: Timestamp,
}

/// What a [`ContextItem`] is in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextKind {
    /// What started the task; stands alone and not in the chain.
    Trigger,
    /// The ids of the memories that were recalled for the task: `{"ids":[…]}`.
    Related,
    /// The steps that were planned from here on: `{"steps":[…]}`.
    Plan,
    /// The answer of a step.
    Result,
    /// What failed, and why: `{"kind":"…","message":"…"}`. With an action it is a step, else the runtime or its
    /// planner.
    Error,
}

/// Who makes the items that are no plugin's.
const RUNTIME: &str = "runtime";

impl ContextItem {
    /// The trigger of a task, which a plugin or a host fires.
    pub fn trigger(plugin_id: impl Into<String>, content: ContextContent, timestamp: Timestamp) -> Self {
        Self::new(ContextKind::Trigger, plugin_id, content, timestamp)
    }

    /// Whether it is the outcome of a step.
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

    /// An item that the runtime itself makes.
    pub(crate) fn of_runtime(kind: ContextKind, content: &impl Serialize, timestamp: Timestamp) -> Result<Self> {
        Ok(Self::new(kind, RUNTIME, JsonText::from_value(content)?, timestamp))
    }

    /// A failure that is not that of a step.
    pub(crate) fn failure(error: &Error, timestamp: Timestamp) -> Result<Self> {
        Self::of_runtime(ContextKind::Error, &describe(error), timestamp)
    }

    /// The outcome of a step.
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

/// What a reader of the chain learns of an error: its kind and its sentence, which quotes no payload.
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
