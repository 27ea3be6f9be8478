//! The report of a run, for people and for programs.

use conformance::workload::{Ledger, RowOrder, SpaceForm, Spread};
use memory_core::Health;
use serde::Serialize;

use super::meter::Measured;

/// The settings, and the result of each workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) engine: &'static str,
    pub(super) server_version: String,
    /// The failures that an acknowledged write survives.
    pub(super) durability: String,
    pub(super) rows: usize,
    /// The bytes of text in each memory.
    pub(super) payload: usize,
    pub(super) order: &'static str,
    pub(super) users: &'static str,
    /// The number of guilds, of channels in each guild, and of users in each channel.
    pub(super) spaces: [u64; 3],
    pub(super) clients: usize,
    #[serde(flatten)]
    pub(super) space: Space,
    pub(super) workloads: Vec<Measured>,
}

/// The storage and memory that a run took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Space {
    /// The bytes per memory that the engine reports after the ledger was loaded and read; `None` if it reports none.
    pub(super) bytes_per_memory: Option<u64>,
    /// Those of them that are not the texts of the memory.
    pub(super) bytes_beyond_texts: Option<i64>,
    /// The peak memory of this process; `None` if the system does not report it.
    pub(super) peak_resident_mib: Option<u64>,
}

impl Report {
    pub(super) fn new(health: Health, ledger: Ledger, clients: usize, space: Space, workloads: Vec<Measured>) -> Self {
        let Spread { guilds, channels, users } = ledger.spread;
        Self {
            engine: health.engine,
            server_version: health.server_version,
            durability: health.durability.to_string(),
            rows: ledger.rows,
            payload: ledger.payload,
            order: match ledger.order {
                RowOrder::Ascending => "ascending",
                RowOrder::Random => "random",
                RowOrder::Descending => "descending",
            },
            users: match ledger.form {
                SpaceForm::Plain => "plain",
                SpaceForm::WithUuid => "uuid",
            },
            spaces: [guilds, channels, users],
            clients,
            space,
            workloads,
        }
    }

    /// Returns the report as Markdown.
    pub(super) fn to_markdown(&self) -> String {
        let Self { engine, server_version, durability, rows, payload, order, users, .. } = self;
        let [guilds, channels, people] = self.spaces;
        let mut text = format!(
            "{engine} {server_version}, {durability}. {rows} memories of {payload} bytes, loaded in {order} order; \
             {guilds} guilds of {channels} channels of {people} users ({users}).\n\n\
             | workload | clients | operations | per second | p50 µs | p95 µs | p99 µs |\n\
             |---|--:|--:|--:|--:|--:|--:|\n"
        );
        for Measured { name, clients, operations, per_second, p50, p95, p99 } in &self.workloads {
            text +=
                &format!("| {name} | {clients} | {operations} | {per_second:.0} | {p50:.1} | {p95:.1} | {p99:.1} |\n");
        }
        let known = |number: Option<String>| number.unwrap_or_else(|| "unknown".to_owned());
        text + &format!(
            "\nBytes per memory: {}, of them beyond its texts: {}. Memory of this process at most: {}.",
            known(self.space.bytes_per_memory.map(|bytes| bytes.to_string())),
            known(self.space.bytes_beyond_texts.map(|bytes| bytes.to_string())),
            known(self.space.peak_resident_mib.map(|mib| format!("{mib} MiB"))),
        )
    }
}
