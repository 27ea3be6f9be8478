//! The plugin: P1 to P8. It is the same on every engine, so these cases are few, and the tests of memory-core are many.

mod calls;
mod documents;
mod hostile;
mod query;

use std::sync::Arc;

use memory_core::plugin::{Arguments, Plugin, Scope};
use memory_core::{Collection, Document, Error, Memory, MemoryProvider, RestoreReport, Result, SpaceSelector, Spaces};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::Case;
use crate::fixture::{NOTES, collection, ledger, space, walk_documents};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [calls::cases(), hostile::cases(), query::cases(), documents::cases()].concat()
}

const QUERY: &str = "memory:query";
const ADD: &str = "memory:add_document";
const REMOVE: &str = "memory:remove_document";
const VERBS: [&str; 3] = [QUERY, ADD, REMOVE];

/// A collection that the scopes don't allow; they allow [`NOTES`].
const PRIVATE: &str = "private";
/// A word in every record that is out of scope. It must be in no answer.
const SECRET: &str = "xyzzy";

/// A scope that reads `mine` and below, writes to `mine-a`, and uses [`NOTES`].
fn scope() -> Scope {
    let readable = SpaceSelector::under("mine").expect("a valid path");
    Scope::new(readable).with_writable(space("mine-a")).with_collections([collection(NOTES)])
}

/// A scope that reads all spaces, writes to `mine`, and uses [`NOTES`].
fn wide_scope() -> Scope {
    Scope::new(Spaces::All).with_writable(space("mine")).with_collections([collection(NOTES)])
}

/// The answer of a verb, as JSON.
async fn call(plugin: &dyn Plugin, scope: &Scope, verb: &str, arguments: Value) -> Result<Value> {
    let answer = call_raw(plugin, scope, verb, &arguments.to_string()).await?;
    Ok(serde_json::from_str(&answer).expect("an answer is JSON"))
}

/// The answer of a verb, as text.
async fn call_raw(plugin: &dyn Plugin, scope: &Scope, verb: &str, arguments: &str) -> Result<String> {
    let executor = plugin.executor(verb).expect("a standard verb");
    let answer = executor.call(scope, &Arguments::parse(arguments)?).await?;
    Ok(answer.as_str().to_owned())
}

/// The ids in an answer of any verb.
fn ids(answer: &Value) -> Vec<&str> {
    let records = answer["records"].as_array().into_iter().flatten().map(|record| &record["id"]);
    let ids = answer["ids"].as_array().into_iter().flatten();
    records.chain(ids).map(|id| id.as_str().expect("an id is a string")).collect()
}

/// The message of the error of a failed call.
fn sentence<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error: Error = result.expect_err("a call that must fail");
    error.message().to_owned()
}

/// A provider with memories and documents of the tenant `mine`, and of others.
struct World {
    provider: Arc<dyn MemoryProvider>,
    plugin: Arc<dyn Plugin>,
    before: Contents,
}

/// Everything that a provider holds.
#[derive(Debug, Clone, PartialEq)]
struct Contents {
    memories: Vec<Memory>,
    collections: Vec<Collection>,
    documents: Vec<Document>,
}

impl World {
    /// Fills an empty provider.
    async fn new(provider: Arc<dyn MemoryProvider>) -> Result<Self> {
        let memories = read(json!([
            {"id": "00000000-0000-7000-8000-000000000001", "spaceId": "mine-a", "trigger": {"text": "my event"},
             "createdAt": 1_000, "status": "completed"},
            {"id": "00000000-0000-7000-8000-000000000002", "spaceId": "other-xyzzy", "trigger": {"text": "xyzzy event"},
             "createdAt": 2_000, "status": "pending", "idempotencyKey": "xyzzy"},
        ]));
        let document = |id: &str, set: &str, space: &str, content: &str, topic: &str| {
            json!({"id": id, "collection": set, "spaceId": space, "content": content, "metadata": {"topic": topic},
                   "createdAt": 1_000})
        };
        let documents = read(json!([
            document("mine-1", NOTES, "mine-a", "apple pie", "fruit"),
            document("mine-2", NOTES, "mine-b", "banana split", "fruit"),
            document("mine-3", NOTES, "mine-a2", "cherry cake", "fruit"),
            document("xyzzy-1", NOTES, "other-xyzzy", "apple xyzzy", "xyzzy"),
            document("xyzzy-2", NOTES, "mine2-xyzzy", "banana xyzzy", "xyzzy"),
            document("mine-1", PRIVATE, "mine-a", "apple xyzzy", "xyzzy"),
        ]));
        provider.restore(memories).await?;
        provider.documents().restore(documents).await?;
        let before = contents(&*provider).await?;
        Ok(Self { plugin: Arc::clone(&provider).plugin(), provider, before })
    }

    /// Checks that nothing has changed except that these notes are gone, and puts them back.
    async fn check_and_mend(&self, gone: &[&str]) -> Result<()> {
        let removed =
            |document: &Document| document.collection.as_str() == NOTES && gone.contains(&document.id.as_str());
        let (removed, kept) = self.before.documents.iter().cloned().partition::<Vec<_>, _>(removed);
        let expected = Contents { documents: kept, ..self.before.clone() };
        assert_eq!(contents(&*self.provider).await?, expected);
        let report = self.provider.documents().restore(removed).await?;
        assert_eq!(report, RestoreReport { written: gone.len(), ..RestoreReport::default() });
        Ok(())
    }
}

async fn contents(provider: &dyn MemoryProvider) -> Result<Contents> {
    let (store, memories) = (provider.documents(), ledger(provider).await?);
    let (collections, mut documents) = (store.collections().await?, Vec::new());
    for name in &collections {
        documents.extend(walk_documents(&*store, name.as_str(), |query| query.all()).await?);
    }
    documents.sort_by(|left, right| (&left.collection, &left.id).cmp(&(&right.collection, &right.id)));
    Ok(Contents { memories, collections, documents })
}

fn read<T: for<'de> Deserialize<'de>>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).expect("a table of this file is valid")
}
