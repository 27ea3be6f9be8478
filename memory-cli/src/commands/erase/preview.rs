//! Shows what would be erased.

use std::collections::BTreeSet;
use std::process::ExitCode;

use memory_core::{MAX_LIMIT, MemoryProvider, RecordId};
use serde_json::json;

use super::presence::{count_absent, is_kept, note_absent};
use super::selection::{Found, Part, Selection};
use crate::commands::exit_code;
use crate::output::{self, Output, printable};

/// Lists the records, and erases nothing.
pub(super) async fn run(
    provider: &dyn MemoryProvider,
    selection: &Selection<'_>,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let Found { parts, lists, shared } = selection.find().await?;
    let mut preview =
        Preview { output, shared, told: BTreeSet::new(), memories: 0, documents: 0, has_unreadable: false };
    for part in &parts {
        preview.show(provider, part).await?;
    }
    let Preview { output, memories, documents, has_unreadable, .. } = preview;
    for list in &lists {
        output.value(
            &json!({ "list": of(list), "dryRun": true }),
            format!("would remove the person from {}", name(list)),
        )?;
    }
    note_absent(count_absent(provider, &selection.named()).await?);
    if !output.is_json() {
        output.line(format!("would erase {memories} memories and {documents} documents"))?;
    }
    Ok(exit_code(has_unreadable))
}

/// The records that were shown so far.
struct Preview<'a> {
    output: &'a mut Output,
    /// The records that other agents read, too.
    shared: BTreeSet<RecordId>,
    /// The records that were shown, since two parts may find the same.
    told: BTreeSet<RecordId>,
    memories: usize,
    documents: usize,
    has_unreadable: bool,
}

impl Preview<'_> {
    async fn show(&mut self, provider: &dyn MemoryProvider, part: &Part) -> anyhow::Result<()> {
        if let Part::Records(records) = part {
            for record in records {
                if is_kept(provider, record).await? {
                    self.tell(record.clone())?;
                }
            }
        }
        let mut cursor = None;
        loop {
            let page = part.page(provider, MAX_LIMIT, cursor.as_ref()).await?;
            page.records.into_iter().try_for_each(|record| self.tell(record))?;
            self.has_unreadable |= output::report_unreadable(page.kind, &page.unreadable);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    fn tell(&mut self, record: RecordId) -> anyhow::Result<()> {
        if self.told.contains(&record) {
            return Ok(());
        }
        match &record {
            RecordId::Memory(_) => self.memories += 1,
            RecordId::Document { .. } => self.documents += 1,
        }
        let mut value = of(&record);
        value["dryRun"] = json!(true);
        let is_shared = self.shared.contains(&record);
        if is_shared {
            value["shared"] = json!(true);
        }
        let note = if is_shared { ", which all agents share" } else { "" };
        self.output.value(&value, format!("would erase {}{note}", name(&record)))?;
        self.told.insert(record);
        Ok(())
    }
}

/// The name of a record as JSON.
fn of(record: &RecordId) -> serde_json::Value {
    match record {
        RecordId::Memory(id) => json!({ "id": id }),
        RecordId::Document { collection, id } => json!({ "collection": collection, "id": id }),
    }
}

/// The name of a record, for people.
fn name(record: &RecordId) -> String {
    match record {
        RecordId::Memory(id) => id.to_string(),
        RecordId::Document { collection, id } => format!("{collection}/{}", printable(id.as_str())),
    }
}
