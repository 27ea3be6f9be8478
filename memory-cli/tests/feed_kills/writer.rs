//! A program that stores, updates, puts and removes, and records what was acknowledged.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use conformance::CaseResult;
use memory_core::{
    Collection, Content, DocumentId, DocumentSelection, DocumentWrite, Error, IdempotencyKey, MemoryId, MemoryPatch,
    MemoryProvider, Metadata, NewMemory, Outcome, SpaceId, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::server::try_send;
use crate::consumer::opened;
use crate::journal::Journal;

/// The collection of all documents.
pub(crate) const NOTES: &str = "notes";
/// How many documents a writer has, which it puts and removes again and again.
const DOCUMENTS: u64 = 3;
/// How long it waits after a failed call.
const PAUSE: Duration = Duration::from_millis(10);

/// The end of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Called {
    number: u64,
    pub(crate) end: End,
}

/// An acknowledged change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum End {
    /// The memory with this id is at this revision.
    Memory { id: String, revision: u64 },
    /// The document has been put.
    Put { name: String, revision: u64 },
    /// The document has been removed.
    Removed { name: String },
    /// Nothing: there was nothing to remove, or the outcome is unknown.
    Nothing,
}

/// How a writer reaches the memory.
pub(crate) enum Door {
    /// By a provider of its own.
    Provider(Arc<dyn MemoryProvider>),
    /// By the server whose address is in this file.
    Served(PathBuf),
}

/// The call must be repeated, or given up.
struct Failed;

/// Continues after the last call in its journal until the file `stop` exists.
pub(crate) async fn write(me: &str, door: Door, journal: &Path, stop: &Path) -> CaseResult {
    let (mut journal, mut calls) = Journal::<Called>::open(journal)?;
    // The one that a kill has cut is made again.
    for number in calls.last().map_or(0, |last| last.number + 1).. {
        if stop.exists() {
            break;
        }
        let document = |shift| format!("{me}-{}", (number / 5 + shift) % DOCUMENTS);
        let newest = calls.iter().rev().find_map(|call| match &call.end {
            End::Memory { id, .. } => Some(id.clone()),
            _ => None,
        });
        let end = match (number % 5, newest) {
            // The key makes it stored once, however often it is repeated.
            (0 | 1, _) | (2, None) => loop {
                if let Ok(id) = door.store(&format!("{me}-{number}")).await {
                    break Ok(End::Memory { id, revision: 1 });
                }
                tokio::time::sleep(PAUSE).await;
            },
            (2, Some(id)) => door.update(&id, number).await.map(|revision| End::Memory { id, revision }),
            (3, _) => {
                let id = document(0);
                let revision = door.put(&id, number).await;
                revision.map(|revision| End::Put { name: format!("{NOTES}/{id}"), revision })
            }
            _ => {
                let id = document(1);
                let is_removed = door.remove(&id).await;
                is_removed.map(|is| if is { End::Removed { name: format!("{NOTES}/{id}") } } else { End::Nothing })
            }
        };
        if end.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
        let call = Called { number, end: end.unwrap_or(End::Nothing) };
        journal.write(&call)?;
        calls.push(call);
    }
    Ok(())
}

impl Called {
    /// The first call of a writer.
    pub(crate) fn of(end: End) -> Self {
        Self { number: 0, end }
    }
}

impl Door {
    pub(crate) async fn of(url: &str, address: Option<PathBuf>) -> memory_core::Result<Self> {
        Ok(match address {
            Some(address) => Self::Served(address),
            None => Self::Provider(opened(url).await?),
        })
    }

    /// Stores a memory with this key, and returns its id.
    async fn store(&self, key: &str) -> Result<String, Failed> {
        match self {
            Self::Provider(provider) => {
                let (space, trigger) = (SpaceId::parse(key).expect("a space"), Trigger::parse("1").expect("JSON"));
                let memory = NewMemory::new(space, trigger, Timestamp::from_millis(1).expect("a time"));
                let memory = memory.with_idempotency_key(IdempotencyKey::parse(key).expect("a key"));
                provider.store(memory).await.map(|id| id.to_string()).map_err(failed)
            }
            Self::Served(address) => {
                let body = json!({"spaceId": key, "trigger": 1, "createdAt": 1, "idempotencyKey": key});
                let stored = ask(address, "POST", "/v1/memories", &body)?;
                Ok(stored["id"].as_str().expect("an id").to_owned())
            }
        }
    }

    /// Changes a memory, and returns its revision.
    async fn update(&self, id: &str, number: u64) -> Result<u64, Failed> {
        match self {
            Self::Provider(provider) => {
                let metadata = Metadata::parse(&json!({ "n": number }).to_string()).expect("metadata");
                let (id, patch) = (MemoryId::parse(id).expect("an id"), MemoryPatch::new().merge_metadata(metadata));
                let updated = provider.update(id, patch).await.map_err(failed)?;
                Ok(updated.revision.get())
            }
            Self::Served(address) => {
                let body = json!({"metadata": {"merge": {"n": number}}});
                Ok(revision(&ask(address, "PATCH", &format!("/v1/memories/{id}"), &body)?))
            }
        }
    }

    /// Puts a document, and returns its revision.
    async fn put(&self, id: &str, number: u64) -> Result<u64, Failed> {
        let (space, content) = (format!("notes-{id}"), number.to_string());
        match self {
            Self::Provider(provider) => {
                let space = SpaceId::parse(space).expect("a space");
                let content = Content::parse(content).expect("a content");
                let created_at = Timestamp::from_millis(1).expect("a time");
                let write = DocumentWrite::new(notes(), space, content, created_at);
                let write = write.with_id(DocumentId::parse(id).expect("an id"));
                Ok(provider.documents().put(write).await.map_err(failed)?.revision.get())
            }
            Self::Served(address) => {
                let body = json!({"spaceId": space, "content": content, "createdAt": 1});
                Ok(revision(&ask(address, "PUT", &format!("/v1/documents/{NOTES}/{id}"), &body)?))
            }
        }
    }

    /// Removes a document, and returns whether it existed.
    async fn remove(&self, id: &str) -> Result<bool, Failed> {
        match self {
            Self::Provider(provider) => {
                let one = DocumentId::parse(id).expect("an id");
                let one = DocumentSelection::ids(notes(), [one]).expect("a selection");
                Ok(!provider.documents().remove(&one, 1).await.map_err(failed)?.is_empty())
            }
            Self::Served(address) => {
                Ok(!ask(address, "DELETE", &format!("/v1/documents/{NOTES}/{id}"), &Value::Null)?.is_null())
            }
        }
    }
}

pub(crate) fn notes() -> Collection {
    Collection::parse(NOTES).expect("a collection")
}

/// Only retryable errors and unknown outcomes are allowed.
fn failed(error: Error) -> Failed {
    assert!(error.is_retryable() || error.outcome() == Outcome::Unknown, "{error:?}");
    Failed
}

fn revision(answer: &Value) -> u64 {
    answer["revision"].as_u64().expect("a revision")
}

/// The server's answer; `null` if the record does not exist.
fn ask(address: &Path, method: &str, path: &str, body: &Value) -> Result<Value, Failed> {
    let address = fs::read_to_string(address).expect("the address of a server");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = try_send(&address, method, path, &body).ok_or(Failed)?;
    match answer.status {
        204 => Ok(Value::Bool(true)),
        200 | 201 => serde_json::from_str(&answer.body).map_err(|_| Failed),
        404 => Ok(Value::Null),
        status => {
            assert!(status >= 500, "{answer:?}");
            Err(Failed)
        }
    }
}
