//! Golden tables: what patterns, bounds, predicates and hostile calls mean, as data that any language can read.
//!
//! Each line has an id, so that a failure names it. The suite tries the tables on memory-core and on every engine.

use memory_core::{Memory, Metadata, Result, SpaceSelector};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A selector, a space, and whether the selector finds it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorLine {
    /// The name of the line.
    pub id: String,
    /// What kind of selector it is.
    pub kind: SelectorKind,
    /// The path, the prefix or the pattern.
    pub pattern: String,
    /// The id of a space.
    pub space: String,
    /// Whether the selector finds the space.
    pub matches: bool,
}

/// The kinds of selectors that the tables speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorKind {
    /// `SpaceSelector::under`
    Under,
    /// `SpaceSelector::prefix`
    Prefix,
    /// `SpaceSelector::glob`
    Glob,
    /// `SpaceSelector::regex`
    Regex,
}

impl SelectorLine {
    /// The selector of this line.
    pub fn selector(&self) -> Result<SpaceSelector> {
        match self.kind {
            SelectorKind::Under => SpaceSelector::under(&self.pattern),
            SelectorKind::Prefix => SpaceSelector::prefix(&self.pattern),
            SelectorKind::Glob => SpaceSelector::glob(&self.pattern),
            SelectorKind::Regex => SpaceSelector::regex(&self.pattern),
        }
    }
}

/// A point in time, bounds, and whether it lies between them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeBound {
    /// The name of the line.
    pub id: String,
    /// When a memory was created, in milliseconds.
    pub created_at: i64,
    /// The exclusive lower bound.
    pub after: Option<i64>,
    /// The exclusive upper bound.
    pub before: Option<i64>,
    /// Whether a query with these bounds finds the memory.
    pub matches: bool,
}

/// Memories, and what predicates find among them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicates {
    /// What the predicates are tried on.
    pub rows: Vec<Row>,
    /// Predicates that are valid.
    pub matches: Vec<PredicateLine>,
    /// Texts that are no predicate.
    pub refused: Vec<RefusedLine>,
}

/// A memory with a short name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What the lines call it.
    pub name: String,
    /// The memory.
    pub memory: Memory,
}

/// A predicate, and the rows that it finds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredicateLine {
    /// The name of the line.
    pub id: String,
    /// The predicate.
    pub predicate: String,
    /// The names of the rows that it finds, in the order of the table.
    pub finds: Vec<String>,
}

/// A text that is refused as a predicate of the ledger.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedLine {
    /// The name of the line.
    pub id: String,
    /// The text.
    pub predicate: String,
    /// The name of the error's kind.
    pub error: String,
}

/// Metadata, a merge patch, and what the patch makes of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchLine {
    /// The name of the line.
    pub id: String,
    /// What is there.
    pub metadata: Metadata,
    /// What is merged into it.
    pub patch: Metadata,
    /// What is there then.
    pub merged: Metadata,
}

/// A call of a memory plugin that tries to reach what it must not, and what comes of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostileCall {
    /// The name of the line.
    pub id: String,
    /// The name of the executor.
    pub verb: String,
    /// The arguments, as they are written.
    pub arguments: Box<RawValue>,
    /// The name of the kind of the error, if there is one.
    pub error: Option<String>,
    /// The ids of what is found or removed otherwise, in any order.
    #[serde(default)]
    pub finds: Vec<String>,
}

/// Globs and regular expressions (S4, S5).
pub fn patterns() -> Vec<SelectorLine> {
    read(include_str!("patterns.json"))
}

/// Prefixes and paths (S2, S3).
pub fn prefixes() -> Vec<SelectorLine> {
    read(include_str!("prefixes.json"))
}

/// Bounds of time (Q2).
pub fn time_bounds() -> Vec<TimeBound> {
    read(include_str!("time_bounds.json"))
}

/// Predicates (F1 to F5).
pub fn predicates() -> Predicates {
    read(include_str!("predicates.json"))
}

/// Merge patches of metadata (W7).
pub fn patches() -> Vec<PatchLine> {
    read(include_str!("patches.json"))
}

/// What a model may be talked into asking for (P1 to P3).
pub fn hostile_calls() -> Vec<HostileCall> {
    read(include_str!("hostile_calls.json"))
}

fn read<T: DeserializeOwned>(table: &str) -> T {
    serde_json::from_str(table).expect("a table of this crate is valid")
}
