//! `memory:add_document`: saves a text.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::NamedArguments;
use super::{AnswerJson, Arguments, Executor, Scope};
use crate::engine::Retry;
use crate::{
    Clock, Content, DEFAULT_DEADLINE, Document, DocumentId, DocumentStore, DocumentWrite, Error, ErrorKind, Expect,
    Metadata, Result, SpaceId, SystemClock,
};

/// The executor of the verb.
#[derive(Debug)]
pub(super) struct AddDocument {
    documents: Arc<dyn DocumentStore>,
    arguments: Value,
    answer: Value,
}

/// The JSON of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Added {
    id: DocumentId,
    space_id: SpaceId,
}

impl AddDocument {
    pub(super) fn new(documents: Arc<dyn DocumentStore>) -> Self {
        let arguments = json!({
            "type": "object",
            "properties": {
                "content": { "type": "string", "description": "The text to save, of at most 1 MiB." },
                "metadata": {
                    "type": "object",
                    "description": "Names and values to find it by later, as in {\"topic\": \"rust\", \"tags\": [\"a\"]}."
                },
                "id": {
                    "type": "string",
                    "minLength": 1,
                    "description": "A name of your own, so that the same call twice saves one document. Another text needs another id."
                },
                "space": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Where it belongs: the space that you may write (the default), or one below it."
                },
                "collection": {
                    "type": "string",
                    "description": "The set of documents that it goes to. Leave it out unless you were told its name."
                }
            },
            "required": ["content"],
            "additionalProperties": false
        });
        let answer = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "The id of the document." },
                "spaceId": { "type": "string", "description": "The space of the document." }
            },
            "required": ["id", "spaceId"]
        });
        Self { documents, arguments, answer }
    }

    /// Puts a new document under an id. If the id is taken by an equal document, the call is a repetition and returns
    /// that; else it fails.
    async fn put_as(&self, id: DocumentId, write: DocumentWrite) -> Result<Document> {
        let write = write.with_id(id.clone()).expect(Expect::Absent);
        let attempt = async |_| {
            match self.documents.put(write.clone()).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                result => return result,
            }
            match self.documents.get(&write.collection, &id).await? {
                Some(present) if is_repetition(&write, &present) => Ok(present),
                // The error reveals nothing about the other document, which may be out of scope.
                Some(_) => Err(Error::conflict("id: another document has it; choose another id or leave it out")),
                // It was removed meanwhile, or the read came from a replica that lags behind.
                None => {
                    Err(Error::conflict("id: another document had it a moment ago; choose another id or leave it out")
                        .retryable())
                }
            }
        };
        Retry::until(Instant::now() + DEFAULT_DEADLINE).run(is_race, attempt).await
    }
}

/// Returns whether a call lost a race and can be retried at once.
fn is_race(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.is_retryable()
}

fn is_repetition(write: &DocumentWrite, present: &Document) -> bool {
    present.content == write.content && present.metadata == write.metadata && present.space_id == write.space_id
}

#[async_trait]
impl Executor for AddDocument {
    fn name(&self) -> &str {
        "memory:add_document"
    }

    fn description(&self) -> &str {
        "Saves a text to long-term memory, where memory:query finds it in later conversations. Save what is worth keeping: \
         facts, preferences, decisions. Answers with the id of the document."
    }

    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn answer(&self) -> &Value {
        &self.answer
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        let mut arguments = NamedArguments::read(arguments, &self.arguments)?;
        let (id, space) = (arguments.text("id")?, arguments.text("space")?);
        let collection = scope.collection(arguments.text("collection")?.as_deref())?.clone();
        let space = scope.space_to_write(space.as_deref())?;
        let id = id.map(DocumentId::parse).transpose().map_err(|error| NamedArguments::about("id", &error))?;
        let content = arguments.text("content")?.ok_or_else(|| Error::invalid("content: is missing"))?;
        let content = Content::parse(content).map_err(|error| NamedArguments::about("content", &error))?;
        let metadata = arguments.json("metadata").map(|json| Metadata::parse(json.get())).transpose();
        let metadata = metadata.map_err(|error| NamedArguments::about("metadata", &error))?.unwrap_or_default();
        let mut write = DocumentWrite::new(collection, space, content, SystemClock.now()).with_metadata(metadata);
        write.actor = scope.actor().cloned();
        let document = match id {
            Some(id) => self.put_as(id, write).await?,
            None => self.documents.put(write).await?,
        };
        AnswerJson::from_value(&Added { id: document.id, space_id: document.space_id })
    }
}
