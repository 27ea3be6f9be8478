//! Pipelines: lists of steps, each with a plugin, an action and arguments.

use memory_core::plugin::Arguments;
use memory_core::{Error, JsonText, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ContextItem, ContextKind, Task};

/// One call of a plugin's executor. Its JSON has camelCase names.
///
/// An object in the arguments whose only member is `$task` is a reference: the JSON Pointer (RFC 6901) in it is resolved in
/// `{"id","space","trigger","results","metadata"}` of the task, and the value replaces the object. `trigger` is the content of the
/// trigger, `results` are the answers of the earlier steps in their order.
///
/// ```
/// let step: memory_runtime::Step = serde_json::from_str(
///     r#"{
///         "pluginId": "memory",
///         "action": "memory:add_document",
///         "arguments": { "content": { "$task": "/trigger/text" } }
///     }"#,
/// )?;
/// assert_eq!(step.action, "memory:add_document");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// The id of the plugin.
    pub plugin_id: String,
    /// The name of its executor.
    pub action: String,
    /// The arguments of the executor, an object; `{}` by default.
    #[serde(default = "no_arguments")]
    pub arguments: Arguments,
}

/// Steps that run one after the other: `{"steps":[…]}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// The steps in the order in which they run.
    pub steps: Vec<Step>,
}

/// The name of the member that makes an object a reference.
const REFERENCE: &str = "$task";

impl Step {
    /// Returns the arguments with their references resolved. Arguments without references stay the same byte for byte.
    pub(crate) fn resolve(&self, task: &Task) -> Result<Arguments> {
        if !self.arguments.as_str().contains(REFERENCE) {
            return Ok(self.arguments.clone());
        }
        let mut arguments: Value = self.arguments.to_value()?;
        replace_references(&mut arguments, &view(task)?)?;
        JsonText::from_value(&arguments)
    }
}

fn no_arguments() -> Arguments {
    // Can't fail: an empty object is JSON, and within every limit.
    Arguments::parse("{}").expect("an empty object is JSON")
}

/// The JSON of a task that references are resolved in.
fn view(task: &Task) -> Result<Value> {
    let results = task.chain.iter().filter(|item| item.kind == ContextKind::Result);
    Ok(json!({
        "id": task.id,
        "space": task.space,
        "trigger": task.trigger.content.to_value::<Value>()?,
        "results": results.map(|item| item.content.to_value()).collect::<Result<Vec<Value>>>()?,
        "metadata": serde_json::from_str::<Value>(task.metadata.as_str()).unwrap_or_default(),
    }))
}

fn replace_references(value: &mut Value, task: &Value) -> Result<()> {
    if let Some(pointer) = reference(value) {
        let found = task.pointer(pointer).cloned();
        let missing = || Error::invalid(format!("the arguments refer to {pointer}, which the task does not have"));
        *value = found.ok_or_else(missing)?;
        return Ok(());
    }
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| replace_references(item, task)),
        Value::Object(members) => members.values_mut().try_for_each(|member| replace_references(member, task)),
        _ => Ok(()),
    }
}

fn reference(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get(REFERENCE)?.as_str()
}

/// Returns the steps of the last plan in a chain that have no outcome yet; `None` if nothing was planned yet.
pub(crate) fn remaining(chain: &[ContextItem]) -> Result<Option<Vec<Step>>> {
    let Some(at) = chain.iter().rposition(|item| item.kind == ContextKind::Plan) else { return Ok(None) };
    let mut steps = chain[at].content.to_value::<Pipeline>()?.steps;
    let done = chain[at..].iter().filter(|item| item.is_step()).count();
    Ok(Some(steps.split_off(done.min(steps.len()))))
}

#[cfg(test)]
mod tests {
    use memory_core::{MemoryId, Metadata, SpaceId, Timestamp};

    use super::*;
    use crate::{ContextContent, Space};

    const NOW: Timestamp = Timestamp::MIN;

    fn step(arguments: &str) -> Step {
        let arguments = Arguments::parse(arguments).expect("JSON");
        Step { plugin_id: "memory".into(), action: "memory:query".into(), arguments }
    }

    fn result(content: &str) -> ContextItem {
        let content = ContextContent::parse(content).expect("JSON");
        ContextItem::outcome("memory", "memory:query", Ok(content), NOW).expect("an item")
    }

    fn task(chain: Vec<ContextItem>) -> Task {
        let content = ContextContent::parse(r#"{"text":"hello","n":1.50}"#).expect("JSON");
        Task {
            id: MemoryId::generate(),
            space: Space::new(SpaceId::parse("a-b").expect("valid")),
            trigger: ContextItem::trigger("test", content, NOW),
            chain,
            related: Vec::new(),
            metadata: Metadata::parse(r#"{"user":"ana"}"#).expect("valid"),
        }
    }

    #[test]
    fn references_stand_for_parts_of_the_task() {
        let task = task(vec![result(r#"{"ids":["x"]}"#)]);
        let resolved = |arguments: &str| step(arguments).resolve(&task).map(|json| json.as_str().to_owned());
        for (arguments, expected) in [
            (r#"{"a":1.50}"#, r#"{"a":1.50}"#),
            (r#"{"a":{"$task":"/trigger/text"}}"#, r#"{"a":"hello"}"#),
            (r#"{"a":[{"$task":"/results/0/ids"},{"$task":"/metadata/user"}]}"#, r#"{"a":[["x"],"ana"]}"#),
            (r#"{"a":{"$task":"/space/id"}}"#, r#"{"a":"a-b"}"#),
            (r#"{"a":{"$task":"/trigger","b":1}}"#, r#"{"a":{"$task":"/trigger","b":1}}"#),
            (r#"{"a":"$task"}"#, r#"{"a":"$task"}"#),
        ] {
            assert_eq!(resolved(arguments).expect(arguments), expected);
        }
        let error = resolved(r#"{"a":{"$task":"/results/1"}}"#).expect_err("no such result");
        assert_eq!(error.message(), "the arguments refer to /results/1, which the task does not have");
    }

    #[test]
    fn a_chain_tells_what_remains() {
        let plan = |steps: &[Step]| {
            ContextItem::of_runtime(ContextKind::Plan, &Pipeline { steps: steps.to_vec() }, NOW).expect("an item")
        };
        let [a, b, c] = ["1", "2", "3"].map(|n| step(&format!(r#"{{"n":{n}}}"#)));
        let steps = [a, b.clone(), c.clone()];
        assert_eq!(remaining(&[]).expect("readable"), None);
        assert_eq!(remaining(&[plan(&steps)]).expect("readable").as_deref(), Some(&steps[..]));
        let mut chain = vec![plan(&steps), result("1")];
        assert_eq!(remaining(&chain).expect("readable").as_deref(), Some(&[b, c.clone()][..]));
        chain.extend([plan(std::slice::from_ref(&c)), result("2")]);
        assert_eq!(remaining(&chain).expect("readable").as_deref(), Some(&[][..]), "a changed plan counts from itself");
    }

    #[test]
    fn json_may_leave_out_the_arguments() {
        let pipeline: Pipeline =
            serde_json::from_str(r#"{"steps":[{"pluginId":"memory","action":"memory:query"}]}"#).expect("valid");
        assert_eq!(pipeline.steps, [step("{}")]);
        assert!(serde_json::from_str::<Pipeline>(r#"{"steps":[{"plugin":"memory","action":"x"}]}"#).is_err());
    }
}
