//! Compares the journals of watching programs with those of writing programs, and with the records.

use std::collections::{BTreeMap, BTreeSet};

use conformance::CaseResult;
use memory_core::{
    Collection, Cursor, DocumentQuery, Kind, MemoryProvider, MemoryQuery, Order, QueryBuilder, RecordId, Result,
};

use crate::consumer::{Told, What, name};
use crate::writer::{Called, End, notes};

/// The revisions of records, by their names.
pub(crate) type Records = BTreeMap<String, u64>;

/// The state that a journal of changes leads to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The records that are not gone.
    pub(crate) records: Records,
    removed: BTreeSet<String>,
}

impl Seen {
    /// Reads a journal. `Err` describes the first change that is out of order.
    pub(crate) fn of(journal: &[Told]) -> std::result::Result<Self, String> {
        let mut seen = Self::default();
        for (line, told) in journal.iter().enumerate() {
            match &told.what {
                What::Is { name, revision, is_stored } => {
                    let before = seen.records.insert(name.clone(), *revision);
                    if before.is_some_and(|before| before > *revision) || *is_stored != (*revision == 1) {
                        return Err(format!("line {line} tells {:?} behind revision {before:?}", told.what));
                    }
                }
                What::Removed { name } => {
                    seen.records.remove(name);
                    seen.removed.insert(name.clone());
                }
                What::Reached => {}
                What::Odd(change) => return Err(format!("line {line} is odd: {change}")),
            }
        }
        Ok(seen)
    }

    /// The records that differ from what was delivered, existing ones and missing ones.
    pub(crate) fn gaps(&self, there: &Records) -> Vec<String> {
        let names: BTreeSet<_> = self.records.keys().chain(there.keys()).collect();
        let differ = names.into_iter().filter(|name| self.records.get(*name) != there.get(*name));
        differ
            .map(|name| format!("{name}: told {:?}, there is {:?}", self.records.get(name), there.get(name)))
            .collect()
    }

    /// The acknowledged changes of a writer that were not delivered, for a watch that began before it wrote.
    pub(crate) fn untold(&self, calls: &[Called]) -> Vec<End> {
        let is_told = |end: &End| match end {
            End::Memory { id, revision } => self.records.get(id).is_some_and(|told| told >= revision),
            // It may have been removed since.
            End::Put { name, .. } => self.records.contains_key(name) || self.removed.contains(name),
            End::Removed { name } => self.removed.contains(name),
            End::Nothing => true,
        };
        calls.iter().map(|call| &call.end).filter(|end| !is_told(end)).cloned().collect()
    }
}

/// The existing records.
pub(crate) async fn there(provider: &dyn MemoryProvider) -> Result<Records> {
    let (mut records, mut cursor) = (Records::new(), None);
    loop {
        let page = provider.query(&page(MemoryQuery::builder(), cursor.as_ref()).build()?).await?;
        let memories = page.memories.into_iter();
        records.extend(memories.map(|memory| (name(&RecordId::Memory(memory.id)), memory.revision.get())));
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    let collection: Collection = notes();
    let page = provider.documents().query(&page(DocumentQuery::builder(collection), None).build()?).await?;
    records.extend(page.documents.into_iter().map(|document| {
        (name(&RecordId::Document { collection: document.collection, id: document.id }), document.revision.get())
    }));
    Ok(records)
}

fn page<K: Kind>(query: QueryBuilder<K>, cursor: Option<&Cursor>) -> QueryBuilder<K> {
    let query = query.all().order(Order::OldestFirst).limit(1_000);
    cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor))
}

/// The judge finds each change that a journal lacks, and each that is out of order.
pub(crate) fn finds_gaps_and_disorders() -> CaseResult {
    let is = |name: &str, revision| What::Is { name: name.to_owned(), revision, is_stored: revision == 1 };
    let removed = |name: &str| What::Removed { name: name.to_owned() };
    let of = |told: Vec<What>| Seen::of(&told.into_iter().map(Told::of).collect::<Vec<_>>());
    let there = Records::from([("a".to_owned(), 2), ("notes/b".to_owned(), 1)]);
    let whole = of(vec![is("a", 1), is("notes/b", 3), is("a", 2), removed("notes/b"), is("notes/b", 1)])?;
    assert!(whole.gaps(&there).is_empty());
    // A missing change is found, also if the record was delivered before, or is gone.
    for told in [vec![is("a", 2)], vec![is("a", 1), is("notes/b", 1)], vec![is("a", 2), is("notes/b", 1), is("c", 1)]] {
        assert_eq!(of(told)?.gaps(&there).len(), 1);
    }
    for told in [vec![is("a", 3), is("a", 2)], vec![removed("a"), is("a", 2), is("a", 1)]] {
        assert!(of(told).is_err());
    }
    let call = |end| vec![Called::of(end)];
    let (a, b) =
        (|revision| End::Memory { id: "a".to_owned(), revision }, || End::Removed { name: "notes/b".to_owned() });
    assert!(whole.untold(&call(a(2))).is_empty() && whole.untold(&call(b())).is_empty());
    assert_eq!(whole.untold(&call(a(3))), [a(3)]);
    assert_eq!(of(vec![is("notes/b", 1)])?.untold(&call(b())), [b()]);
    Ok(())
}
