//! The plugin of every provider refuses outsized arguments (P1) and cuts long values (P5), whatever the engine.

use std::sync::Arc;

use memory_core::plugin::{Arguments, Plugin, Scope};
use memory_core::{
    Collection, Content, DocumentWrite, ErrorKind, InMemory, MemoryProvider, MemoryQuery, NewMemory, Result, SpaceId,
    SpaceSelector, Timestamp, Trigger,
};
use serde_json::{Value, json};

use ErrorKind::{InvalidInput, TooLarge};

const QUERY: &str = "memory:query";
const ADD: &str = "memory:add_document";
const REMOVE: &str = "memory:remove_document";

async fn opened() -> Result<(Arc<InMemory>, Arc<dyn Plugin>)> {
    let provider = Arc::new(InMemory::new());
    provider.init().await?;
    Ok((Arc::clone(&provider), provider.plugin()))
}

/// Reads under `mine`, writes to `mine-a`, and uses `notes`.
fn scope() -> Result<Scope> {
    let readable = Scope::new(SpaceSelector::under("mine")?).with_writable(SpaceId::parse("mine-a")?);
    Ok(readable.with_collections([Collection::parse("notes")?]))
}

async fn call(plugin: &dyn Plugin, verb: &str, arguments: Value) -> Result<Value> {
    let executor = plugin.executor(verb).expect("a standard verb");
    let answer = executor.call(&scope()?, &Arguments::parse(&arguments.to_string())?).await?;
    Ok(answer.to_value().expect("an answer is JSON"))
}

fn note(id: &str, content: &str) -> Result<DocumentWrite> {
    let (notes, space, created_at) = (Collection::parse("notes")?, SpaceId::parse("mine-a")?, Timestamp::MIN);
    let id = memory_core::DocumentId::parse(id)?;
    Ok(DocumentWrite::new(notes, space, Content::parse(content)?, created_at).with_id(id))
}

/// Arguments that are deeper, longer or more than the contract allows are refused with a short sentence.
#[tokio::test]
async fn outsized_arguments_are_refused() -> Result<()> {
    let (provider, plugin) = opened().await?;
    let list = |count: usize| (0..count).map(|place| format!("'{place}'")).collect::<Vec<_>>().join(", ");
    let chain = |count: usize| vec!["id = 'a'"; count].join(" OR ");
    let strings = |count: usize| (0..count).map(|place| place.to_string()).collect::<Vec<_>>();
    let (open, close) = ("(".repeat(5_000), ")".repeat(5_000));
    let nested = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
    for (what, verb, arguments, expected) in [
        ("parentheses", QUERY, json!({"where": format!("{open}id = 'a'{close}")}), TooLarge),
        ("negations", QUERY, json!({"where": format!("{}id = 'a'", "NOT ".repeat(4_000))}), TooLarge),
        ("conditions", QUERY, json!({"where": chain(300)}), TooLarge),
        ("values", QUERY, json!({"where": format!("id IN ({})", list(1_001))}), TooLarge),
        ("predicate", QUERY, json!({"where": format!("id = '{}'", "x".repeat(1 << 20))}), TooLarge),
        ("pattern", QUERY, json!({"where": format!("text LIKE '{}'", "%a".repeat(600))}), InvalidInput),
        ("words", QUERY, json!({"text": strings(300).join(" ")}), TooLarge),
        ("text", QUERY, json!({"text": "x".repeat(17 << 10)}), TooLarge),
        ("space", QUERY, json!({"space": "x".repeat(2 << 10)}), InvalidInput),
        ("cursor", QUERY, json!({"cursor": "A".repeat(1 << 20)}), InvalidInput),
        ("ids", REMOVE, json!({"ids": strings(1_001)}), TooLarge),
        ("an id", REMOVE, json!({"ids": ["x".repeat(257)]}), TooLarge),
        ("content", ADD, json!({"content": "x".repeat((1 << 20) + 1)}), TooLarge),
        ("metadata", ADD, json!({"content": "x", "metadata": {"a": "x".repeat(65 << 10)}}), TooLarge),
        ("metadata levels", ADD, json!({"content": "x", "metadata": nested}), TooLarge),
        ("id", ADD, json!({"content": "x", "id": "x".repeat(257)}), TooLarge),
        ("space of a document", ADD, json!({"content": "x", "space": format!("mine-a{}", "-b".repeat(40))}), TooLarge),
    ] {
        let refused = call(&*plugin, verb, arguments).await.expect_err(what);
        assert_eq!(refused.kind(), expected, "{what}: {refused}");
        assert!(refused.message().len() < 400, "{what}: a sentence of {} bytes", refused.message().len());
    }
    let deep = format!(r#"{{"where":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(Arguments::parse(&deep).map_err(|error| error.kind()), Err(TooLarge));
    // Patterns that take other matchers exponential time.
    provider.documents().put(note("long", &"ab".repeat(2_000))?).await?;
    for (pattern, found) in
        [(format!("{}b", "%a".repeat(400)), 1), ("%_".repeat(400) + "b", 1), (format!("{}%", "%x%y".repeat(200)), 0)]
    {
        let answer = call(&*plugin, QUERY, json!({"where": format!("content LIKE '{pattern}'")})).await?;
        assert_eq!(answer["records"].as_array().map(Vec::len), Some(found), "{pattern:.10}");
    }
    assert_eq!(provider.documents().collections().await?.len(), 1, "what is refused is not added");
    assert!(provider.query(&MemoryQuery::builder().all().build()?).await?.memories.is_empty());
    Ok(())
}

/// A value that is too long or too deep is cut or shown as text, a sentence names it, and no other record is lost.
#[tokio::test]
async fn long_values_are_cut_and_named() -> Result<()> {
    let (provider, plugin) = opened().await?;
    let long = "long ".repeat((1 << 20) / 5);
    provider.documents().put(note("long", &long)?).await?;
    provider.documents().put(note("short", "short")?).await?;
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(4 << 20).split_off(100));
    for (place, value) in (0..).zip([&nested, &large, &r#"{"text":"small"}"#.to_owned()]) {
        let at = Timestamp::from_millis(place)?;
        provider.store(NewMemory::new(SpaceId::parse("mine-a")?, Trigger::parse(value)?, at)).await?;
    }
    let answer = call(&*plugin, QUERY, json!({})).await?;
    let shown = answer["records"][1]["content"].as_str().expect("a text");
    assert_eq!((&answer["records"][0]["id"], &answer["records"][1]["id"]), (&json!("short"), &json!("long")));
    assert!(shown.len() > 10_000 && long.starts_with(shown));
    let said = format!("long: content is cut to its first {} of {} bytes", shown.len(), long.len());
    assert_eq!(answer["cut"], json!([said]));
    let answer = call(&*plugin, QUERY, json!({"source": "ledger", "order": "oldest"})).await?;
    let trigger = |place: usize| &answer["records"][place]["trigger"];
    assert_eq!(*trigger(0), json!(nested), "as text");
    assert!(trigger(1).as_str().is_some_and(|text| large.starts_with(text)));
    assert_eq!(*trigger(2), json!({"text": "small"}));
    let cut: Vec<_> = answer["cut"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(cut.len() == 2 && cut[0].contains("nests too deep") && cut[1].contains("is shown as text, cut"), "{cut:?}");
    Ok(())
}
