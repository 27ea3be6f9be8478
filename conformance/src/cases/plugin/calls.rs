//! How the plugin presents itself, and how it is called: P1 and P8.

use std::sync::Arc;

use memory_core::ErrorKind;
use serde_json::{Value, json};

use super::{ADD, QUERY, REMOVE, SECRET, VERBS, World, call, ids, scope, sentence, wide_scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::kind;

chapter!("plugin":
    every_argument_is_checked ["P1"],
    plugin_lives_with_its_provider ["P8", "L2"],
);

/// A value of another type than the schema has is refused in a sentence that starts with the name of the argument.
async fn every_argument_is_checked(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let values = [json!("xyzzy"), json!(7.5), json!(true), json!(["xyzzy", 1]), json!({ "xyzzy": "xyzzy" })];
    for executor in &world.plugin.executors()[..VERBS.len()] {
        for (name, schema) in executor.arguments()["properties"].as_object().expect("named arguments") {
            for value in values.iter().filter(|value| type_of(value) != schema["type"]) {
                let mut arguments = valid_arguments(executor.name());
                arguments[name] = value.clone();
                let refused = call(&*world.plugin, &scope(), executor.name(), arguments).await;
                let error = refused.expect_err("a value of another type");
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{} {name}: {value}", executor.name());
                assert!(error.message().starts_with(&format!("{name}: ")), "{name} {value}: {error}");
                assert!(!format!("{error:?}").contains(SECRET), "the sentence quotes a value: {error:?}");
            }
        }
        let refused = call(&*world.plugin, &scope(), executor.name(), json!({ "xyzzy": 1 })).await;
        let sentence = sentence(refused);
        for known in executor.arguments()["properties"].as_object().expect("named arguments").keys() {
            assert!(sentence.contains(known.as_str()), "{sentence} does not name {known}");
        }
        assert!(!sentence.contains(SECRET), "{sentence}");
    }
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// The verbs answer `Closed` once the provider does; shutting down the plugin leaves the provider open.
async fn plugin_lives_with_its_provider(stage: Stage) -> CaseResult {
    let provider = stage.open_uninitialised().await?;
    let plugin = Arc::clone(&provider).plugin();
    let scope = wide_scope();
    let add = || call(&*plugin, &scope, ADD, json!({"id": "a", "content": "apple"}));
    assert_eq!(kind(add().await), Some(ErrorKind::Closed), "before init");
    provider.init().await?;
    plugin.init().await?;
    add().await?;
    plugin.shutdown().await?;
    provider.check_health().await?;
    let again = Arc::clone(&provider).plugin();
    assert_eq!(ids(&call(&*again, &wide_scope(), QUERY, json!({})).await?), ["a"], "another plugin of the provider");
    provider.shutdown().await?;
    for (verb, arguments) in [(ADD, json!({"content": "x"})), (QUERY, json!({})), (REMOVE, json!({"ids": ["a"]}))] {
        assert_eq!(kind(call(&*again, &wide_scope(), verb, arguments).await), Some(ErrorKind::Closed), "{verb}");
    }
    Ok(())
}

/// The JSON Schema type of a value.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        // The items are not of one type.
        Value::Array(_) => "mixed",
        Value::Object(_) => "object",
    }
}

/// Arguments that the verb takes.
fn valid_arguments(verb: &str) -> Value {
    match verb {
        ADD => json!({"content": "x"}),
        REMOVE => json!({"ids": ["nothing"]}),
        _ => json!({}),
    }
}
