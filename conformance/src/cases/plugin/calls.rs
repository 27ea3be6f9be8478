//! How the plugin presents itself, and how it is called: P1 and P8.

use std::sync::Arc;

use memory_core::plugin::Scope;
use memory_core::{ErrorKind, SpaceSelector};
use serde_json::{Value, json};

use super::{ADD, NOTES, QUERY, REMOVE, SECRET, VERBS, World, call, ids, scope, sentence, wide_scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{collection, kind, ledger, space};

chapter!("plugin":
    every_provider_has_the_verbs ["P1"],
    every_argument_is_checked ["P1"],
    null_arguments_are_absent ["P1"],
    a_scope_that_allows_nothing_is_unauthorized ["P2", "P3"],
    plugin_lives_with_its_provider ["P8", "L2"],
);

/// The plugin names its verbs, and describes them and their arguments well enough to be offered as tools.
async fn every_provider_has_the_verbs(stage: Stage) -> CaseResult {
    let plugin = stage.open().await?.plugin();
    assert!(!plugin.id().is_empty() && !plugin.description().is_empty());
    let names: Vec<_> = plugin.executors().iter().map(|executor| executor.name()).collect();
    assert!(names.starts_with(&VERBS), "{names:?}");
    for executor in plugin.executors() {
        let name = executor.name();
        assert_eq!(plugin.executor(name).map(|found| found.name()), Some(name));
        assert!(!executor.description().is_empty(), "{name}");
        for schema in [executor.arguments(), executor.answer()] {
            assert_eq!(schema["type"], "object", "{name}");
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(schema["properties"].get(required.as_str().expect("a name")).is_some(), "{name}: {required}");
            }
        }
        for (argument, schema) in executor.arguments()["properties"].as_object().expect("named arguments") {
            assert!(schema["description"].is_string() && schema["type"].is_string(), "{name}: {argument}");
        }
    }
    assert!(plugin.executor("memory:drop").is_none());
    Ok(())
}

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
            assert!(sentence.contains(known.as_str()), "{sentence} does not tell of {known}");
        }
        assert!(!sentence.contains(SECRET), "{sentence}");
    }
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// Models write `null` for arguments that they leave out, and 10.0 for 10.
async fn null_arguments_are_absent(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let nulls = json!({"source": null, "text": null, "where": null, "space": null, "collection": null, "order": null,
                       "limit": null, "cursor": null});
    assert_eq!(ids(&call(&*world.plugin, &scope(), QUERY, nulls).await?).len(), 3);
    assert_eq!(ids(&call(&*world.plugin, &scope(), QUERY, json!({ "limit": 2.0 })).await?).len(), 2);
    let nulls = json!({"ids": ["mine-1"], "where": null, "text": null, "space": null, "collection": null, "max": null,
                       "dryRun": null});
    assert_eq!(ids(&call(&*world.plugin, &scope(), REMOVE, nulls).await?), ["mine-1"]);
    let nulls = json!({"content": "x", "metadata": null, "id": null, "space": null, "collection": null});
    assert_eq!(call(&*world.plugin, &scope(), ADD, nulls).await?["spaceId"], "mine-a");
    Ok(())
}

/// Without a writable space nothing is written, without collections there are no documents, and without readable spaces
/// nothing is read.
async fn a_scope_that_allows_nothing_is_unauthorized(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let mine = SpaceSelector::under("mine")?;
    let notes = || [collection(NOTES)];
    let reader = Scope::new(mine.clone()).with_collections(notes());
    let without_documents = Scope::new(mine).with_writable(space("mine-a"));
    let blind = Scope::new(Vec::new()).with_writable(space("mine-a")).with_collections(notes());
    let ledger_query = json!({ "source": "ledger" });
    for (what, scope, verb, arguments) in [
        ("add, read only", &reader, ADD, json!({"content": "x"})),
        ("remove, read only", &reader, REMOVE, json!({"ids": ["mine-1"]})),
        ("preview, read only", &reader, REMOVE, json!({"ids": ["mine-1"], "dryRun": true})),
        ("add, no collection", &without_documents, ADD, json!({"content": "x"})),
        ("remove, no collection", &without_documents, REMOVE, json!({"ids": ["mine-1"]})),
        ("query, no collection", &without_documents, QUERY, json!({})),
        ("named, no collection", &without_documents, QUERY, json!({"collection": NOTES})),
        ("query, nothing readable", &blind, QUERY, json!({})),
        ("space, nothing readable", &blind, QUERY, json!({"space": "mine"})),
        ("ledger, nothing readable", &blind, QUERY, ledger_query.clone()),
        ("remove, nothing readable", &blind, REMOVE, json!({"ids": ["mine-1"]})),
    ] {
        assert_eq!(kind(call(&*world.plugin, scope, verb, arguments).await), Some(ErrorKind::Unauthorized), "{what}");
    }
    assert_eq!(ids(&call(&*world.plugin, &reader, QUERY, json!({})).await?).len(), 3, "reading is allowed");
    let memories = call(&*world.plugin, &without_documents, QUERY, ledger_query).await?;
    assert_eq!(ids(&memories).len(), 1, "the ledger is readable without a collection");
    world.check_and_mend(&[]).await?;
    call(&*world.plugin, &blind, ADD, json!({"content": "x"})).await?;
    assert_eq!(ledger(&*world.provider).await?, world.before.memories);
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
