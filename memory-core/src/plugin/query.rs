//! `memory:query`: searches documents, or the ledger.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::arguments::NamedArguments;
use super::ledger::ReadOnlyLedger;
use super::record::Show;
use super::{AnswerJson, Arguments, Executor, Scope};
use crate::query::{Documents, Kind, Ledger};
use crate::{
    Cursor, Document, DocumentQuery, DocumentRecall, DocumentStore, Embedder, Error, Filter, Memory, MemoryQuery,
    MemoryRecall, Order, Query, QueryBuilder, Recall, Recalled, Result,
};

/// An answer ends at this many bytes of records and of sentences about cut values; one record always fits (P5).
pub const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Maximum number of records in an answer (P5).
const MAX_RECORDS: usize = 100;
/// Number of records unless the caller sets a limit.
const DEFAULT_RECORDS: usize = 20;

/// The executor of the verb.
#[derive(Debug)]
pub(super) struct QueryMemory {
    documents: Arc<dyn DocumentStore>,
    ledger: ReadOnlyLedger,
    /// Embeds questions, if set.
    embedder: Option<Arc<dyn Embedder>>,
    arguments: Value,
    answer: Value,
}

/// The JSON of the answer.
#[derive(Debug, Default, Serialize)]
struct Found {
    records: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut: Vec<String>,
}

impl Found {
    /// Adds records until the answer is full.
    fn show<'r, K: Show>(&mut self, records: impl IntoIterator<Item = &'r K::Record>) -> Result<()>
    where
        K::Record: 'r,
    {
        let mut bytes = 0;
        for record in records {
            let shown = K::show(record)?;
            bytes += shown.size();
            if bytes > MAX_ANSWER_BYTES && !self.records.is_empty() {
                break;
            }
            self.records.push(shown.json);
            self.cut.extend(shown.cut);
        }
        Ok(())
    }
}

impl QueryMemory {
    pub(super) fn new(
        documents: Arc<dyn DocumentStore>,
        ledger: ReadOnlyLedger,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Self {
        let arguments = json!({
            "type": "object",
            "properties": {
                "source": {
                    "type": "string",
                    "enum": ["documents", "ledger"],
                    "description": "documents (the default): what was saved. ledger: what happened, task by task; it can only be read."
                },
                "question": {
                    "type": "string",
                    "description": "What you want to know, in your own words. The best answers come first, judged \
                                    also by what was said around them. Can't be combined with text, order and \
                                    cursor."
                },
                "text": {
                    "type": "string",
                    "description": "Words of which a record has to hold at least one, in any language and with any punctuation."
                },
                "where": {
                    "type": "string",
                    "description": "A condition, as in metadata.topic = 'rust' AND createdAt > 1700000000000 AND text ILIKE '%birthday%'. \
                        Fields: id, spaceId, createdAt, updatedAt (milliseconds since 1970 UTC), text, metadata.NAME, and \
                        of the ledger status (pending, running, completed, failed, observed). Operators: = <> < <= > >= IN, \
                        BETWEEN, LIKE, ILIKE, IS NULL, 'x' = ANY(metadata.tags), AND, OR, NOT. Strings take single quotes."
                },
                "space": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Only what lies in this space or below it. Leave it out to look everywhere that you may."
                },
                "collection": {
                    "type": "string",
                    "description": "The set of documents to look in. Leave it out unless you were told its name."
                },
                "order": {
                    "type": "string",
                    "enum": ["newest", "oldest"],
                    "description": "What comes first; newest by default."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_RECORDS,
                    "description": format!("How many records at most; {DEFAULT_RECORDS} by default.")
                },
                "cursor": {
                    "type": "string",
                    "description": "The cursor of an earlier answer, to continue after it; repeat the other arguments."
                }
            },
            "additionalProperties": false
        });
        let answer = json!({
            "type": "object",
            "properties": {
                "records": {
                    "type": "array",
                    "description": "What was found: documents with content, or memories with trigger, context and status.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": { "type": "string" },
                            "spaceId": { "type": "string" },
                            "createdAt": { "type": "integer" },
                            "updatedAt": { "type": "integer" },
                            "metadata": {},
                            "collection": { "type": "string" },
                            "revision": { "type": "integer" },
                            "content": { "type": "string" },
                            "status": { "type": "string" },
                            "trigger": {},
                            "context": {}
                        },
                        "required": ["id", "spaceId", "createdAt", "metadata"]
                    }
                },
                "cursor": { "type": "string", "description": "There may be more: pass this as cursor to continue after these records." },
                "cut": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "What is left out, one sentence each."
                }
            },
            "required": ["records"]
        });
        Self { documents, ledger, embedder, arguments, answer }
    }
}

#[async_trait]
impl Executor for QueryMemory {
    fn name(&self) -> &str {
        "memory:query"
    }

    fn description(&self) -> &str {
        "Searches long-term memory: by a question, by words (text), by a condition (where). Looks in the documents that were saved \
         with memory:add_document, or in the ledger of what happened. Without any of them it gives the newest."
    }

    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn answer(&self) -> &Value {
        &self.answer
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        let mut arguments = NamedArguments::read(arguments, &self.arguments)?;
        let (source, collection) = (arguments.text("source")?, arguments.text("collection")?);
        match source.as_deref() {
            None | Some("documents") => {
                let builder = DocumentQuery::builder(scope.collection(collection.as_deref())?.clone());
                let asked = arguments.text("question")?;
                let query = build(builder, scope, &mut arguments)?;
                self.answer(query, asked).await
            }
            Some("ledger") => {
                if collection.is_some() {
                    return Err(Error::invalid("collection: can't be combined with source ledger; leave it out"));
                }
                let asked = arguments.text("question")?;
                let query = build(MemoryQuery::builder(), scope, &mut arguments)?;
                self.answer(query, asked).await
            }
            Some(_) => Err(Error::invalid("source: must be documents or ledger")),
        }
    }
}

/// Builds the query of the arguments, confined to the scope.
fn build<K: Kind>(mut query: QueryBuilder<K>, scope: &Scope, arguments: &mut NamedArguments) -> Result<Query<K>> {
    query = scope.confine(query, arguments.text("space")?.as_deref())?;
    if let Some(predicate) = arguments.text("where")? {
        query = query.filter(Filter::parse(&predicate).map_err(|error| NamedArguments::about("where", &error))?);
    }
    if let Some(text) = arguments.text("text")? {
        query = query.text(text);
    }
    query = match arguments.text("order")?.as_deref() {
        None => query,
        Some("newest") => query.order(Order::NewestFirst),
        Some("oldest") => query.order(Order::OldestFirst),
        Some(_) => return Err(Error::invalid("order: must be newest or oldest")),
    };
    if let Some(cursor) = arguments.text("cursor")? {
        query = query.cursor(cursor);
    }
    query.limit(arguments.count("limit", MAX_RECORDS)?.unwrap_or(DEFAULT_RECORDS)).build()
}

/// A page of records of one kind.
struct Page<R> {
    records: Vec<R>,
    next: Option<Cursor>,
    /// Whether some records can't be read.
    has_unreadable: bool,
}

/// A kind of record that the verb can search.
#[async_trait]
trait Ask: Show + Sized {
    /// Returns a page of records.
    async fn ask(verb: &QueryMemory, query: &Query<Self>) -> Result<Page<Self::Record>>;

    /// Ranks records for a question.
    async fn recall(verb: &QueryMemory, recall: &Recall<Self>) -> Result<Recalled<Self::Record>>;
}

#[async_trait]
impl Ask for Documents {
    async fn ask(verb: &QueryMemory, query: &DocumentQuery) -> Result<Page<Document>> {
        let page = verb.documents.query(query).await?;
        Ok(Page { records: page.documents, next: page.next, has_unreadable: !page.unreadable.is_empty() })
    }

    async fn recall(verb: &QueryMemory, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        verb.documents.recall(recall).await
    }
}

#[async_trait]
impl Ask for Ledger {
    async fn ask(verb: &QueryMemory, query: &MemoryQuery) -> Result<Page<Memory>> {
        let page = verb.ledger.query(query).await?;
        Ok(Page { records: page.memories, next: page.next, has_unreadable: !page.unreadable.is_empty() })
    }

    async fn recall(verb: &QueryMemory, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        verb.ledger.recall(recall).await
    }
}

impl QueryMemory {
    /// Answers a question by recall, anything else by a page.
    async fn answer<K: Ask>(&self, query: Query<K>, question: Option<String>) -> Result<AnswerJson> {
        match question {
            Some(question) => {
                let recall = Recall::new(&question, query);
                let recall = recall.map_err(|error| NamedArguments::about("question", &error))?;
                self.best(self.embedder.iter().cloned().fold(recall, Recall::by_meaning_or_words)).await
            }
            None => self.page(query).await,
        }
    }

    /// Answers with the best hits, as many as fit.
    async fn best<K: Ask>(&self, recall: Recall<K>) -> Result<AnswerJson> {
        let recalled = K::recall(self, &recall).await?;
        let mut found = Found::default();
        found.show::<K>(recalled.hits.iter().map(|hit| &hit.record))?;
        let left_out = recalled.hits.len() - found.records.len();
        if left_out > 0 {
            found.cut.push(format!(
                "{left_out} records that answer less well did not fit into an answer of {MAX_ANSWER_BYTES} bytes"
            ));
        }
        if !recalled.complete {
            found.cut.push(
                "there is more than could be looked at or shown: name a smaller space, or ask for less".to_owned(),
            );
        }
        AnswerJson::from_value(&found)
    }

    /// Answers with a page, as many records as fit.
    async fn page<K: Ask>(&self, mut query: Query<K>) -> Result<AnswerJson> {
        let mut left_out = 0;
        loop {
            let Page { records, next, has_unreadable } = K::ask(self, &query).await?;
            let mut found = Found { cursor: next.map(|cursor| cursor.to_string()), ..Found::default() };
            found.show::<K>(&records)?;
            let shown = found.records.len();
            left_out += records.len() - shown;
            if shown < records.len() {
                // A page that is cut needs a cursor that continues at the cut, so it is queried again with a smaller
                // limit.
                query.limit = shown;
                continue;
            }
            if left_out > 0 {
                found.cut.push(format!(
                    "{left_out} records did not fit into an answer of {MAX_ANSWER_BYTES} bytes: continue with cursor"
                ));
            }
            if has_unreadable {
                found.cut.push("some records are damaged and left out".to_owned());
            }
            return AnswerJson::from_value(&found);
        }
    }
}
