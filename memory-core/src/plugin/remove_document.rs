//! `memory:remove_document`: removes saved documents.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::NamedArguments;
use super::{AnswerJson, Arguments, Executor, Scope};
use crate::{
    DocumentId, DocumentQuery, DocumentSelection, DocumentStore, Documents, Error, ErrorKind, Filter, QueryBuilder,
    Result,
};

/// Maximum number of documents that one call removes, whatever `max` says.
const MAX_REMOVED: usize = 100;
/// Maximum number unless the caller sets `max`.
const DEFAULT_MAX: usize = 10;

/// The executor of the verb.
#[derive(Debug)]
pub(super) struct RemoveDocument {
    documents: Arc<dyn DocumentStore>,
    arguments: Value,
    answer: Value,
}

/// The JSON of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    ids: Vec<DocumentId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_found: Vec<DocumentId>,
    dry_run: bool,
}

impl RemoveDocument {
    pub(super) fn new(documents: Arc<dyn DocumentStore>) -> Self {
        let arguments = json!({
            "type": "object",
            "properties": {
                "ids": {
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "description": "The documents with these ids."
                },
                "where": {
                    "type": "string",
                    "description": "The documents that satisfy a condition, written as for memory:query."
                },
                "text": { "type": "string", "description": "The documents that hold at least one of these words." },
                "space": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Only those in this space or below it. Leave it out for all that you may remove."
                },
                "collection": {
                    "type": "string",
                    "description": "The set of documents to look in. Leave it out unless you were told its name."
                },
                "max": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_REMOVED,
                    "description": format!("If more than this are found, none is removed; {DEFAULT_MAX} by default.")
                },
                "dryRun": { "type": "boolean", "description": "Only show what would be removed; false by default." }
            },
            "additionalProperties": false
        });
        let answer = json!({
            "type": "object",
            "properties": {
                "ids": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "The ids of what was removed, or would be."
                },
                "notFound": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Those of the given ids that do not exist."
                },
                "dryRun": { "type": "boolean", "description": "Whether this was a dry run, which removed nothing." }
            },
            "required": ["ids", "dryRun"]
        });
        Self { documents, arguments, answer }
    }
}

#[async_trait]
impl Executor for RemoveDocument {
    fn name(&self) -> &str {
        "memory:remove_document"
    }

    fn description(&self) -> &str {
        "Removes documents from long-term memory for good: by ids, by a condition (where), by words (text); they \
         must satisfy all that are given. Give at least one of them. If you are not sure what it removes, try it \
         with dryRun first."
    }

    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn answer(&self) -> &Value {
        &self.answer
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        let mut arguments = NamedArguments::read(arguments, &self.arguments)?;
        let max = arguments.count("max", MAX_REMOVED)?.unwrap_or(DEFAULT_MAX);
        let dry_run = arguments.flag("dryRun")?;
        let ids = arguments.texts("ids")?.map(|ids| ids.into_iter().map(DocumentId::parse).collect()).transpose();
        let ids: Option<Vec<_>> = ids.map_err(|error| NamedArguments::about("ids", &error))?;
        let selection = select(scope, ids.as_deref(), &mut arguments)?;
        let selection = scope.actor().cloned().into_iter().fold(selection, DocumentSelection::by);
        let removed = if dry_run {
            selection.preview(&*self.documents, max).await
        } else {
            self.documents.remove(&selection, max).await
        };
        let removed = removed.map_err(|error| match error.kind() {
            ErrorKind::LimitExceeded => {
                // A higher `max` does not help against the limit of bytes, nor beyond that of the verb.
                let is_over_max = error.message() == Error::limit_exceeded(max).message();
                let advice = match is_over_max && max < MAX_REMOVED {
                    true => format!("narrow the selection, or raise max, up to {MAX_REMOVED}"),
                    false => "narrow the selection, or remove them in several calls".to_owned(),
                };
                let message = format!("{}: {advice}", error.message());
                error.with_message(message)
            }
            _ => error,
        })?;
        let mut not_found: Vec<_> = ids.unwrap_or_default().into_iter().filter(|id| !removed.contains(id)).collect();
        not_found.sort_unstable();
        not_found.dedup();
        AnswerJson::from_value(&Removed { ids: removed, not_found, dry_run })
    }
}

/// Builds the selection of the arguments, confined to where the scope may both read and write.
fn select(scope: &Scope, ids: Option<&[DocumentId]>, arguments: &mut NamedArguments) -> Result<DocumentSelection> {
    let builder = DocumentQuery::builder(scope.collection(arguments.text("collection")?.as_deref())?.clone());
    let space = arguments.text("space")?;
    let mut query: QueryBuilder<Documents> = scope.confine(builder, Some(scope.path_to_write(space.as_deref())?))?;
    let (predicate, text) = (arguments.text("where")?, arguments.text("text")?);
    if ids.is_none() && predicate.is_none() && text.is_none() {
        return Err(Error::invalid("name what to remove: by ids, where or text"));
    }
    let predicate = predicate.map(|predicate| Filter::parse(&predicate)).transpose();
    let predicate = predicate.map_err(|error| NamedArguments::about("where", &error))?;
    let is_writable = scope.unwritable().map(|space| Filter::under(space).negate());
    if let Some(filter) = predicate.into_iter().chain(is_writable).reduce(Filter::and) {
        query = query.filter(filter);
    }
    if let Some(text) = text {
        query = query.text(text);
    }
    match ids {
        Some(ids) => DocumentSelection::ids_where(ids.iter().cloned(), query),
        None => DocumentSelection::matching(query),
    }
}
