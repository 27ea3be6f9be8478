//! The options of `erase`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use memory_context::records::{AgentId, EntityId};
use memory_core::{Actor, Collection, DocumentId, MemoryId};

use crate::args::{LedgerArgs, SpaceArgs, values};
use crate::collections::is_copied;

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("selection")
        .args([
            "ids", "document", "exact", "under", "prefix", "glob", "regex", "all", "after", "before", "status",
            "filter", "text", "person",
        ])
        .required(true)
        .multiple(true)
))]
pub(crate) struct EraseArgs {
    /// Erase only the memories with these ids.
    #[arg(value_name = "ID", value_parser = values::memory_id, conflicts_with_all = CONDITIONS)]
    pub(super) ids: Vec<MemoryId>,
    /// Erase this document, or the history of one that was removed. May be repeated, and combined with ids of memories.
    #[arg(
        long,
        value_name = "COLLECTION/ID",
        value_parser = document_name,
        conflicts_with = "person",
        conflicts_with_all = CONDITIONS
    )]
    pub(super) document: Vec<(Collection, DocumentId)>,
    #[command(flatten)]
    pub(super) spaces: SpaceArgs,
    #[command(flatten)]
    pub(super) conditions: LedgerArgs,
    /// Only records that hold at least one word of this text.
    #[arg(long, allow_hyphen_values = true, help_heading = "Conditions")]
    pub(super) text: Option<String>,
    /// Also erase the documents that the spaces, --where and --text select, of all collections.
    #[arg(
        long,
        help_heading = "Conditions",
        conflicts_with_all = ["ids", "document", "person", "after", "before", "status", "exclude"]
    )]
    pub(super) documents: bool,
    /// Of the documents, erase only those of this collection. Repeat it to accept several.
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Conditions",
        value_parser = copied_collection,
        requires = "documents"
    )]
    pub(super) collection: Vec<Collection>,
    /// Erase what an agent knows of this entity: its messages, the facts about it and by it, its profile, and its other records. What
    /// others wrote about it stays.
    #[arg(
        long,
        value_name = "ENTITY",
        help_heading = "A person",
        value_parser = values::entity_id,
        requires = "agent",
        conflicts_with = "ids",
        conflicts_with_all = CONDITIONS
    )]
    pub(super) person: Option<EntityId>,
    /// The agent that knows the entity.
    #[arg(long, value_name = "AGENT", help_heading = "A person", value_parser = values::agent_id, requires = "person")]
    pub(super) agent: Option<AgentId>,
    /// The reason, in one line. It stays in the tombstone of each erased record, so do not name the person who is to be forgotten.
    #[arg(long, value_name = "TEXT", help_heading = ERASURE, required_unless_present = "dry_run")]
    pub(super) reason: Option<String>,
    /// The actor who erases, which stays in the tombstones, too.
    #[arg(long, value_name = "ACTOR", help_heading = ERASURE, value_parser = values::actor)]
    pub(super) by: Option<Actor>,
    /// Show what would be erased, and erase nothing.
    #[arg(long, help_heading = ERASURE)]
    pub(super) dry_run: bool,
    /// Stop after this many records.
    #[arg(
        long,
        value_name = "N",
        help_heading = ERASURE,
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "dry_run"
    )]
    pub(super) at_most: Option<u64>,
    /// Write the erased records and the result of the verification to this file as JSON. Repeating the erasure with the same file adds to
    /// it.
    #[arg(long, value_name = "FILE", help_heading = ERASURE, conflicts_with = "dry_run")]
    pub(super) certificate: Option<PathBuf>,
    /// Print "done: N" on standard error when N records are erased, and "verified: N" when N are verified, instead of a bar.
    #[arg(long, help_heading = ERASURE)]
    pub(super) progress: bool,
}

const ERASURE: &str = "Erasure";
/// The options that can't be combined with ids or a person.
const CONDITIONS: [&str; 12] =
    ["exact", "under", "prefix", "glob", "regex", "all", "after", "before", "status", "filter", "exclude", "text"];

/// Parses a collection. Collections in which programs keep their progress are refused: copies need their marks to
/// continue, and vector keepers their positions.
fn copied_collection(text: &str) -> Result<Collection, String> {
    let collection = values::collection(text)?;
    if !is_copied(&collection) {
        return Err("programs keep their own progress in it, so its documents can't be erased".to_owned());
    }
    Ok(collection)
}

/// Parses the name of a document; names of collections have no slash.
fn document_name(text: &str) -> Result<(Collection, DocumentId), String> {
    let (collection, id) = text.split_once('/').ok_or("a document is named by its collection, a slash and its id")?;
    Ok((copied_collection(collection)?, values::document_id(id)?))
}
