//! The plugin of every provider answers from its scope, and changes nothing outside of it (P1 to P4, P6, P7), whatever the engine.

use std::sync::Arc;

use memory_core::plugin::{Arguments, Plugin, Scope};
use memory_core::{
    Collection, Document, ErrorKind, InMemory, Memory, MemoryProvider, MemoryQuery, Result, SpaceId, SpaceSelector,
    Spaces,
};
use serde::Deserialize;
use serde_json::{Value, json};

use ErrorKind::{Conflict, InvalidInput, LimitExceeded, Unauthorized};

const QUERY: &str = "memory:query";
const ADD: &str = "memory:add_document";
const REMOVE: &str = "memory:remove_document";
/// The collection that most scopes allow.
const NOTES: &str = "notes";
const PRIVATE: &str = "private";
/// The memory in scope.
const MINE: &str = "00000000-0000-7000-8000-000000000001";

/// A provider with records of two tenants, and its plugin.
struct World {
    provider: Arc<InMemory>,
    plugin: Arc<dyn Plugin>,
    memories: Vec<Memory>,
    documents: Vec<Document>,
}

impl World {
    async fn new() -> Result<Self> {
        let provider = Arc::new(InMemory::new());
        provider.init().await?;
        let memory = |number: u8, space: &str, text: &str, status: &str| {
            json!({"id": format!("00000000-0000-7000-8000-00000000000{number}"), "spaceId": space, "status": status,
                   "trigger": {"text": text}, "createdAt": 1_000 * u64::from(number)})
        };
        let document = |id: &str, set: &str, space: &str, content: &str, topic: &str| {
            json!({"id": id, "collection": set, "spaceId": space, "content": content, "metadata": {"topic": topic},
                   "createdAt": 1_000})
        };
        let memories = read([
            memory(1, "mine-a", "my event", "completed"),
            memory(2, "other-xyzzy", "their event", "pending"),
            memory(5, "mine-b", "hello", "pending"),
        ]);
        let documents = read([
            document("mine-1", NOTES, "mine-a", "apple pie", "fruit"),
            document("mine-2", NOTES, "mine-b", "banana split", "fruit"),
            document("mine-3", NOTES, "mine-a2", "cherry cake", "fruit"),
            document("xyzzy-1", NOTES, "other-xyzzy", "apple xyzzy", "xyzzy"),
            document("xyzzy-2", NOTES, "mine2-xyzzy", "banana xyzzy", "xyzzy"),
            document("mine-1", PRIVATE, "mine-a", "apple xyzzy", "xyzzy"),
        ]);
        provider.restore(memories).await?;
        provider.documents().restore(documents).await?;
        let (memories, documents) = contents(&provider).await?;
        Ok(Self { plugin: Arc::clone(&provider).plugin(), provider, memories, documents })
    }

    async fn call(&self, scope: &Scope, verb: &str, arguments: &Value) -> Result<Value> {
        let executor = self.plugin.executor(verb).expect("a standard verb");
        let answer = executor.call(scope, &Arguments::parse(&arguments.to_string())?).await?;
        Ok(answer.to_value().expect("an answer is JSON"))
    }

    /// The ids in the answer of a verb, in their order.
    async fn ids(&self, scope: &Scope, verb: &str, arguments: Value) -> Result<Vec<String>> {
        let answer = self.call(scope, verb, &arguments).await?;
        let records = answer["records"].as_array().into_iter().flatten().map(|record| &record["id"]);
        let ids = records.chain(answer["ids"].as_array().into_iter().flatten());
        Ok(ids.map(|id| id.as_str().expect("an id is a string").to_owned()).collect())
    }

    /// Checks that a call is refused so.
    async fn refuses(&self, scope: &Scope, verb: &str, arguments: Value, expected: ErrorKind) {
        let refused = self.call(scope, verb, &arguments).await.map_err(|error| error.kind());
        assert_eq!(refused, Err(expected), "{verb} {arguments}");
    }

    /// Checks that no call has changed anything.
    async fn is_unchanged(&self) -> Result<()> {
        assert_eq!(contents(&self.provider).await?, (self.memories.clone(), self.documents.clone()));
        Ok(())
    }
}

/// All memories and documents of a provider.
async fn contents(provider: &InMemory) -> Result<(Vec<Memory>, Vec<Document>)> {
    let (memories, mut documents) =
        (provider.query(&MemoryQuery::builder().all().build()?).await?.memories, Vec::new());
    for collection in provider.documents().collections().await? {
        let all = memory_core::DocumentQuery::builder(collection).all().limit(1_000).build()?;
        documents.extend(provider.documents().query(&all).await?.documents);
    }
    Ok((memories, documents))
}

fn read<T: for<'de> Deserialize<'de>, const COUNT: usize>(records: [Value; COUNT]) -> Vec<T> {
    serde_json::from_str(&json!(records.to_vec()).to_string()).expect("a table of this file is valid")
}

fn notes() -> [Collection; 1] {
    [Collection::parse(NOTES).expect("a valid name")]
}

/// Reads these spaces, writes to `mine-a`, and uses [`NOTES`].
fn reading(spaces: impl Into<Spaces>) -> Scope {
    let writable = SpaceId::parse("mine-a").expect("a valid id");
    Scope::new(spaces).with_writable(writable).with_collections(notes())
}

/// Reads `mine` and below.
fn scope() -> Scope {
    reading(SpaceSelector::under("mine").expect("a valid path"))
}

/// The plugin names its verbs, and describes them and their arguments well enough to be offered as tools.
#[tokio::test]
async fn every_verb_is_described() -> Result<()> {
    let plugin = World::new().await?.plugin;
    assert!(!plugin.id().is_empty() && !plugin.description().is_empty());
    let names: Vec<_> = plugin.executors().iter().map(|executor| executor.name()).collect();
    assert_eq!(names, [QUERY, ADD, REMOVE]);
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

/// Models write `null` for arguments that they leave out, and 10.0 for 10.
#[tokio::test]
async fn null_arguments_are_absent() -> Result<()> {
    let (world, scope) = (World::new().await?, scope());
    let nulls = json!({"source": null, "text": null, "where": null, "space": null, "collection": null, "order": null,
                       "limit": null, "cursor": null});
    assert_eq!(world.ids(&scope, QUERY, nulls).await?.len(), 3);
    assert_eq!(world.ids(&scope, QUERY, json!({ "limit": 2.0 })).await?.len(), 2);
    let nulls = json!({"ids": ["mine-1"], "where": null, "text": null, "space": null, "collection": null, "max": null,
                       "dryRun": null});
    assert_eq!(world.ids(&scope, REMOVE, nulls).await?, ["mine-1"]);
    let nulls = json!({"content": "x", "metadata": null, "id": null, "space": null, "collection": null});
    assert_eq!(world.call(&scope, ADD, &nulls).await?["spaceId"], "mine-a");
    Ok(())
}

/// Without a writable space nothing is written, without collections there are no documents, and without readable spaces
/// nothing is read.
#[tokio::test]
async fn a_scope_that_allows_nothing_is_unauthorized() -> Result<()> {
    let world = World::new().await?;
    let mine = SpaceSelector::under("mine")?;
    let reader = Scope::new(mine.clone()).with_collections(notes());
    let without_documents = Scope::new(mine).with_writable(SpaceId::parse("mine-a")?);
    let blind = reading(Vec::new());
    for (scope, verb, arguments) in [
        (&reader, ADD, json!({"content": "x"})),
        (&reader, REMOVE, json!({"ids": ["mine-1"]})),
        (&reader, REMOVE, json!({"ids": ["mine-1"], "dryRun": true})),
        (&without_documents, ADD, json!({"content": "x"})),
        (&without_documents, REMOVE, json!({"ids": ["mine-1"]})),
        (&without_documents, QUERY, json!({})),
        (&without_documents, QUERY, json!({"collection": NOTES})),
        (&blind, QUERY, json!({})),
        (&blind, QUERY, json!({"space": "mine"})),
        (&blind, QUERY, json!({"source": "ledger"})),
        (&blind, REMOVE, json!({"ids": ["mine-1"]})),
    ] {
        world.refuses(scope, verb, arguments, Unauthorized).await;
    }
    assert_eq!(world.ids(&reader, QUERY, json!({})).await?.len(), 3, "reading is allowed");
    let memories = world.ids(&without_documents, QUERY, json!({"source": "ledger"})).await?;
    assert_eq!(memories.len(), 2, "the ledger is readable without a collection");
    world.is_unchanged().await?;
    world.call(&blind, ADD, &json!({"content": "x"})).await?;
    Ok(())
}

/// Whatever the scope and the arguments are, everything that is found satisfies both.
#[tokio::test]
async fn arguments_narrow_every_scope_and_widen_none() -> Result<()> {
    let world = World::new().await?;
    let selectors: [Spaces; 8] = [
        Spaces::All,
        SpaceSelector::exact("mine-a")?.into(),
        SpaceSelector::under("mine")?.into(),
        SpaceSelector::under("mine-")?.into(),
        SpaceSelector::prefix("mine")?.into(),
        SpaceSelector::glob("*-[ab]")?.into(),
        SpaceSelector::regex("^(mine|other)-")?.into(),
        vec![SpaceSelector::exact("mine-b")?, SpaceSelector::under("other")?].into(),
    ];
    for readable in selectors {
        let scope = reading(readable.clone());
        for space in [None, Some("mine"), Some("mine-a"), Some("other"), Some("mine2-"), Some("nowhere")] {
            let under = space.map(SpaceSelector::under).transpose()?;
            let may_find =
                |id: &SpaceId| readable.matches(id.as_str()) && under.as_ref().is_none_or(|it| it.matches(id.as_str()));
            let notes = world.documents.iter().filter(|document| document.collection.as_str() == NOTES);
            let notes = notes.filter(|document| may_find(&document.space_id)).map(|document| document.id.to_string());
            let memories = world.memories.iter().filter(|memory| may_find(&memory.space_id));
            let memories = memories.map(|memory| memory.id.to_string());
            for (source, mut expected) in
                [("documents", notes.collect::<Vec<_>>()), ("ledger", memories.collect::<Vec<_>>())]
            {
                let mut found = world.ids(&scope, QUERY, json!({"source": source, "space": space})).await?;
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "{source} of {readable} under {space:?}");
            }
        }
        let removed = world.ids(&scope, REMOVE, json!({"where": "id IS NOT NULL", "dryRun": true})).await?;
        let expected: &[&str] = if readable.matches("mine-a") { &["mine-1"] } else { &[] };
        assert_eq!(removed, expected, "what may be removed is what may be read and written: {readable}");
    }
    let both = Scope::new(Spaces::All).with_collections([Collection::parse(PRIVATE)?, Collection::parse(NOTES)?]);
    for (name, count) in [(None, 1), (Some(PRIVATE), 1), (Some(NOTES), 5)] {
        let found = world.ids(&both, QUERY, json!({ "collection": name })).await?;
        assert_eq!(found.len(), count, "the first collection is meant when none is named");
    }
    world.is_unchanged().await
}

/// A cursor belongs to its scope as it belongs to its query, and shows nothing of another.
#[tokio::test]
async fn a_cursor_does_not_leave_its_scope() -> Result<()> {
    let world = World::new().await?;
    let wide = Scope::new(Spaces::All).with_collections([Collection::parse(NOTES)?, Collection::parse(PRIVATE)?]);
    let page = world.call(&wide, QUERY, &json!({"limit": 1})).await?;
    let cursor = page["cursor"].as_str().expect("there is more");
    assert_eq!(world.ids(&wide, QUERY, json!({"cursor": cursor})).await?.len(), 4, "its own query");
    for (scope, arguments) in [
        (&scope(), json!({"limit": 1, "cursor": cursor})),
        (&wide, json!({"collection": PRIVATE, "cursor": cursor})),
        (&wide, json!({"source": "ledger", "cursor": cursor})),
        (&wide, json!({"where": "id IS NOT NULL", "cursor": cursor})),
        (&wide, json!({"text": "apple banana cherry", "cursor": cursor})),
        (&wide, json!({"space": "mine", "cursor": cursor})),
        (&wide, json!({"order": "oldest", "cursor": cursor})),
    ] {
        world.refuses(scope, QUERY, arguments, InvalidInput).await;
    }
    Ok(())
}

/// Neither the id of a memory nor a document of the same id reaches the ledger.
#[tokio::test]
async fn an_id_of_the_ledger_removes_nothing() -> Result<()> {
    let (world, scope) = (World::new().await?, scope());
    let removed = world.call(&scope, REMOVE, &json!({ "ids": [MINE] })).await?;
    assert_eq!(removed, json!({"ids": [], "notFound": [MINE], "dryRun": false}));
    world.call(&scope, ADD, &json!({"id": MINE, "content": "not a memory"})).await?;
    assert_eq!(world.ids(&scope, REMOVE, json!({ "ids": [MINE] })).await?, [MINE]);
    world.is_unchanged().await
}

/// Text, condition and question find, each alone and together, documents or memories in the scope, newest first unless the call says
/// otherwise. A question finds the best first, and can't be combined with what orders or continues a search.
#[tokio::test]
async fn queries_find_in_the_scope() -> Result<()> {
    let (world, scope) = (World::new().await?, scope());
    let hello = "00000000-0000-7000-8000-000000000005";
    let ledger: [(Value, &[&str]); 8] = [
        (json!({"text": "event"}), &[MINE]),
        (json!({"text": "Hello, event!"}), &[hello, MINE]),
        (json!({"text": "hello event", "order": "oldest"}), &[MINE, hello]),
        (json!({"text": "hello event", "where": "status = 'completed'"}), &[MINE]),
        (json!({"text": "hello event", "space": "mine-b"}), &[hello]),
        (json!({"text": "their text even"}), &[]),
        (json!({"text": "?"}), &[]),
        (json!({"question": "Were there any events?", "limit": 1}), &[MINE]),
    ];
    let documents: [(Value, &[&str]); 15] = [
        (json!({}), &["mine-3", "mine-2", "mine-1"]),
        (json!({"order": "oldest"}), &["mine-1", "mine-2", "mine-3"]),
        (json!({"order": "newest", "limit": 1}), &["mine-3"]),
        (json!({"text": "Banana?"}), &["mine-2"]),
        (json!({"text": "cake pie", "where": "id <> 'mine-1'"}), &["mine-3"]),
        (json!({"text": "apple pie, banana"}), &["mine-2", "mine-1"]),
        (json!({"text": "apple banana", "order": "oldest", "limit": 2}), &["mine-1", "mine-2"]),
        (json!({"where": "metadata.topic = 'fruit' AND content LIKE '%p%'", "order": "oldest"}), &["mine-1", "mine-2"]),
        (json!({"source": "documents", "space": "mine-b"}), &["mine-2"]),
        (json!({"collection": NOTES, "space": "mine-a"}), &["mine-1"]),
        (json!({"text": "nothing like it"}), &[]),
        (json!({"question": "Which apples were there?", "limit": 1}), &["mine-1"]),
        (json!({"question": "bananas", "where": "metadata.topic = 'fruit'", "limit": 1}), &["mine-2"]),
        (json!({"question": "apples", "space": "mine-b"}), &[]),
        (json!({"question": "what was the"}), &[]),
    ];
    for (arguments, expected) in documents {
        assert_eq!(world.ids(&scope, QUERY, arguments.clone()).await?, expected, "{arguments}");
    }
    for (mut arguments, expected) in ledger {
        arguments["source"] = json!("ledger");
        assert_eq!(world.ids(&scope, QUERY, arguments.clone()).await?, expected, "{arguments}");
    }
    for other in [json!({"text": "pies"}), json!({"order": "oldest"}), json!({"cursor": "x"})] {
        let mut arguments = other;
        arguments["question"] = json!("pies");
        world.refuses(&scope, QUERY, arguments, InvalidInput).await;
    }
    let record = json!({"id": "mine-1", "collection": NOTES, "spaceId": "mine-a", "content": "apple pie",
                        "createdAt": 1_000, "revision": 1, "metadata": {"topic": "fruit"}});
    assert_eq!(world.call(&scope, QUERY, &json!({"text": "apple"})).await?, json!({ "records": [record] }));
    world.is_unchanged().await
}

/// A document without an id gets one; its content, including unusual keys, is found. An id that a document elsewhere has is refused, and
/// that document stays as it is.
#[tokio::test]
async fn additions_get_an_id_and_take_none() -> Result<()> {
    let (world, scope) = (World::new().await?, scope());
    for arguments in [
        json!({"id": "xyzzy-1", "content": "x"}),
        json!({"id": "xyzzy-1", "content": "apple xyzzy", "metadata": {"topic": "xyzzy"}}),
        json!({"id": "mine-3", "content": "cherry cake"}),
    ] {
        let refused = world.call(&scope, ADD, &arguments).await.expect_err("it is in use");
        assert_eq!(refused.kind(), Conflict, "{arguments}");
        assert!(refused.message().starts_with("id: "), "{refused}");
    }
    world.is_unchanged().await?;
    let odd = json!({"$set": 1, "a.b": {"": null}, "__proto__": [true], "'": "\"", "{tag}": "é"});
    let added = world.call(&scope, ADD, &json!({"content": "kiwi", "metadata": odd})).await?;
    let second = world.call(&scope, ADD, &json!({"content": "kiwi", "space": "mine-a/deep:er"})).await?;
    assert_ne!(added["id"], second["id"], "without an id each is a document of its own");
    assert_eq!((&added["spaceId"], &second["spaceId"]), (&json!("mine-a"), &json!("mine-a/deep:er")));
    let asked = json!({"text": "kiwi", "where": "metadata.\"a.b\" IS NOT NULL"});
    let found = world.call(&scope, QUERY, &asked).await?;
    assert_eq!(found["records"].as_array().map(Vec::len), Some(1));
    assert_eq!((&found["records"][0]["id"], &found["records"][0]["metadata"]), (&added["id"], &odd));
    Ok(())
}

/// Ids, condition, text and space of one call must all hold, and ids that do not exist are reported. More than `max`, which is ten unless
/// given, removes nothing and says how to continue; the maximum is a hundred.
#[tokio::test]
async fn removals_take_what_satisfies_everything() -> Result<()> {
    let (world, scope) = (World::new().await?, reading(Spaces::All));
    for (id, content, space) in [
        ("a", "red fox", "mine-a-x"),
        ("b", "red brick", "mine-a-x"),
        ("c", "blue sky", "mine-a-x"),
        ("d", "red", "mine-a-y"),
    ] {
        world.call(&scope, ADD, &json!({"id": id, "content": content, "space": space})).await?;
    }
    let all = json!({"ids": ["d", "b", "zz", "c", "zz"], "text": "Red!", "where": "id <> 'a'", "space": "mine-a-x"});
    let removed = world.call(&scope, REMOVE, &all).await?;
    assert_eq!(removed, json!({"ids": ["b"], "notFound": ["c", "d", "zz"], "dryRun": false}));
    let removed = world.call(&scope, REMOVE, &json!({"text": "red", "where": "spaceId = 'mine-a-x'"})).await?;
    assert_eq!(removed, json!({"ids": ["a"], "dryRun": false}));
    assert_eq!(world.ids(&scope, REMOVE, json!({"ids": ["c", "d"]})).await?, ["c", "d"]);

    for place in 0..101 {
        world.call(&scope, ADD, &json!({"id": format!("{place:03}"), "content": "plum"})).await?;
    }
    for (arguments, advice) in [
        (json!({"text": "plum"}), "raise max, up to 100"),
        (json!({"where": "id < '050'", "max": 49}), "raise max, up to 100"),
        (json!({"where": "content = 'plum'", "max": 100}), "or remove them in several calls"),
        (json!({"ids": ["000", "001"], "max": 1}), "raise max, up to 100"),
    ] {
        for dry_run in [true, false] {
            let mut arguments = arguments.clone();
            arguments["dryRun"] = json!(dry_run);
            let refused = world.call(&scope, REMOVE, &arguments).await.expect_err("over the max");
            assert_eq!(refused.kind(), LimitExceeded, "{arguments}");
            assert!(refused.message().ends_with(advice), "the sentence says how to go on: {refused}");
        }
    }
    let removed = world.ids(&scope, REMOVE, json!({"where": "id < '050'", "max": 50})).await?;
    assert_eq!(removed.len(), 50, "exactly max is fine");
    let removed = world.ids(&scope, REMOVE, json!({"text": "plum", "max": 100})).await?;
    assert_eq!(removed.len(), 51, "a refused removal takes nothing");
    world.is_unchanged().await
}
