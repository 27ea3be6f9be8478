//! Golden tables: what patterns, bounds, predicates, merge patches and hostile calls mean, as data that any language can read.
//!
//! Each line has an id, which failures name. The suite tries the tables on memory-core and on every engine.

use memory_core::{Memory, Metadata, Result, SpaceSelector};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A selector, a space, and whether the selector finds the space.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorLine {
    /// The id of the line, which failures name.
    pub id: String,
    /// The kind of the selector.
    pub kind: SelectorKind,
    /// The path, prefix or pattern of the selector.
    pub pattern: String,
    /// The id of the space.
    pub space: String,
    /// Whether the selector finds the space.
    pub matches: bool,
}

/// The kinds of selectors in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorKind {
    /// A path, for `SpaceSelector::under` (S3).
    Under,
    /// A prefix, for `SpaceSelector::prefix` (S2).
    Prefix,
    /// A glob, for `SpaceSelector::glob` (S4).
    Glob,
    /// A regular expression, for `SpaceSelector::regex` (S5).
    Regex,
}

impl SelectorLine {
    /// Builds the selector of this line.
    pub fn selector(&self) -> Result<SpaceSelector> {
        match self.kind {
            SelectorKind::Under => SpaceSelector::under(&self.pattern),
            SelectorKind::Prefix => SpaceSelector::prefix(&self.pattern),
            SelectorKind::Glob => SpaceSelector::glob(&self.pattern),
            SelectorKind::Regex => SpaceSelector::regex(&self.pattern),
        }
    }
}

/// A createdAt, bounds, and whether it lies between them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeBound {
    /// The id of the line, which failures name.
    pub id: String,
    /// The createdAt of a memory, in milliseconds since 1970 UTC.
    pub created_at: i64,
    /// The exclusive lower bound, in milliseconds since 1970 UTC.
    pub after: Option<i64>,
    /// The exclusive upper bound, in milliseconds since 1970 UTC.
    pub before: Option<i64>,
    /// Whether a query with these bounds finds the memory.
    pub matches: bool,
}

/// Memories, and what predicates find among them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicates {
    /// The memories on which the predicates are tried.
    pub rows: Vec<Row>,
    /// Valid predicates, each with the rows that it finds.
    pub matches: Vec<PredicateLine>,
    /// Texts that are refused as predicates, each with the error.
    pub refused: Vec<RefusedLine>,
}

/// A memory with a short name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name by which [`PredicateLine::finds`] refers to the memory.
    pub name: String,
    /// The memory itself.
    pub memory: Memory,
}

/// A predicate, and the rows that it finds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredicateLine {
    /// The id of the line, which failures name.
    pub id: String,
    /// The predicate, as a caller writes it.
    pub predicate: String,
    /// The names of the rows that it finds, in the order of the table.
    pub finds: Vec<String>,
}

/// A text that is refused as a predicate of the ledger.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedLine {
    /// The id of the line, which failures name.
    pub id: String,
    /// The text that is refused.
    pub predicate: String,
    /// The kind of the error.
    pub error: String,
}

/// Metadata, a merge patch, and the result of merging.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchLine {
    /// The id of the line, which failures name.
    pub id: String,
    /// The metadata before the patch.
    pub metadata: Metadata,
    /// The merge patch.
    pub patch: Metadata,
    /// The metadata after the patch.
    pub merged: Metadata,
}

/// A call of a memory plugin that tries to reach what is out of its scope, and the answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostileCall {
    /// The id of the line, which failures name.
    pub id: String,
    /// The name of the verb, such as `memory:query`.
    pub verb: String,
    /// The arguments, as JSON text.
    pub arguments: Box<RawValue>,
    /// The kind of the error; `None` if the call succeeds.
    pub error: Option<String>,
    /// The ids of the records that a successful call finds or removes, in any order.
    #[serde(default)]
    pub finds: Vec<String>,
}

/// The table of globs and regular expressions (S4, S5).
pub fn patterns() -> Vec<SelectorLine> {
    read(include_str!("patterns.json"))
}

/// The table of prefixes and paths (S2, S3).
pub fn prefixes() -> Vec<SelectorLine> {
    read(include_str!("prefixes.json"))
}

/// The table of time bounds (Q2).
pub fn time_bounds() -> Vec<TimeBound> {
    read(include_str!("time_bounds.json"))
}

/// The table of predicates (F1 to F5).
pub fn predicates() -> Predicates {
    read(include_str!("predicates.json"))
}

/// The table of merge patches of metadata (W7).
pub fn patches() -> Vec<PatchLine> {
    read(include_str!("patches.json"))
}

/// The table of hostile plugin calls, such as a manipulated model might make (P1 to P3).
pub fn hostile_calls() -> Vec<HostileCall> {
    read(include_str!("hostile_calls.json"))
}

fn read<T: DeserializeOwned>(table: &str) -> T {
    serde_json::from_str(table).expect("a table of this crate is valid")
}
