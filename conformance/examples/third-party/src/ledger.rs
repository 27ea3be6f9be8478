//! The calls on the ledger, each within one transaction.

use std::cmp::Reverse;

use memory_core::{
    Error, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryQuery, Order, PageBuilder, RestoreReport, Result,
    Timestamp, Updated, Verdict, check_repetition, words,
};
use redb::{Database, ReadableDatabase};

use crate::error::native;
use crate::tables::{self, BY_TIME, Ledger, MEMORIES, OPEN, Place};

/// Appends memories, all or none: what has a known key stands for the memory that is there (W3, W4).
pub(crate) fn store(database: &Database, memories: &[Memory]) -> Result<Vec<MemoryId>> {
    let write = database.begin_write().map_err(native)?;
    let ids = {
        let mut ledger = Ledger::of(&write)?;
        let store = |memory: &Memory| match ledger.by_key(memory)? {
            Some(first) => {
                check_repetition(memory, first.space_id.as_str(), first.trigger.as_str())?;
                Ok(first.id)
            }
            None => ledger.put(memory).map(|()| memory.id),
        };
        // An error drops the transaction, and with it what was written before.
        memories.iter().map(store).collect::<Result<_>>()?
    };
    write.commit().map_err(native)?;
    Ok(ids)
}

pub(crate) fn update(database: &Database, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Result<Updated> {
    // One transaction writes at a time, so what is read here stays as it is.
    let write = database.begin_write().map_err(native)?;
    let updated = {
        let mut ledger = Ledger::of(&write)?;
        let memory = ledger.get(id)?.ok_or_else(Error::not_found)?;
        match patch.apply(&memory, now)? {
            Some(patched) => {
                ledger.put(&patched)?;
                Updated::from(&patched)
            }
            None => Updated::from(&memory),
        }
    };
    write.commit().map_err(native)?;
    Ok(updated)
}

pub(crate) fn restore(database: &Database, memories: &[Memory]) -> Result<RestoreReport> {
    let write = database.begin_write().map_err(native)?;
    let mut report = RestoreReport::default();
    {
        let mut ledger = Ledger::of(&write)?;
        for (place, memory) in memories.iter().enumerate() {
            match ledger.get(memory.id)? {
                Some(present) if present == *memory => report.equal += 1,
                None if ledger.by_key(memory)?.is_none() => {
                    ledger.put(memory)?;
                    report.written += 1;
                }
                _ => report.conflicts.push(place),
            }
        }
    }
    write.commit().map_err(native)?;
    Ok(report)
}

pub(crate) fn get(database: &Database, id: MemoryId) -> Result<Option<Memory>> {
    let read = database.begin_read().map_err(native)?;
    let memories = read.open_table(MEMORIES).map_err(native)?;
    memories.get(tables::number(id)).map_err(native)?.map(|json| tables::memory(json.value())).transpose()
}

/// Offers the rows between the bounds of the query, in its order; the page decides which it takes.
pub(crate) fn query(database: &Database, query: &MemoryQuery) -> Result<MemoryPage> {
    let read = database.begin_read().map_err(native)?;
    let memories = read.open_table(MEMORIES).map_err(native)?;
    let only_open = !query.statuses().is_empty() && query.statuses().iter().all(|status| status.is_open());
    let places = read.open_table(if only_open { OPEN } else { BY_TIME }).map_err(native)?;
    let (first, last) = bounds(query);
    if first > last {
        return Ok(PageBuilder::new(query).finish());
    }
    let range = places.range(first..=last).map_err(native)?;
    let places: Box<dyn Iterator<Item = _>> = match query.order() {
        Order::OldestFirst => Box::new(range),
        Order::NewestFirst => Box::new(range.rev()),
    };
    let mut page = PageBuilder::new(query);
    let mut ranked = Vec::new();
    for place in places {
        let (_, id) = place.map_err(native)?.0.value();
        let Some(json) = memories.get(id).map_err(native)? else { continue };
        let memory = tables::memory(json.value());
        if let (Some(text), Ok(memory)) = (query.text(), &memory) {
            let wanted = words::distinct(text);
            let held = words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref()));
            ranked.push((held.intersection(&wanted).count(), memory.clone()));
            continue;
        }
        if offer(&mut page, memory, id)? == Verdict::Stop {
            return Ok(page.finish());
        }
    }
    // A text is answered best first; what has none of its words is no answer (T2).
    ranked.retain(|(rank, _)| *rank > 0);
    ranked.sort_by_key(|(rank, _)| Reverse(*rank));
    for (_, memory) in ranked {
        let id = tables::number(memory.id);
        if offer(&mut page, Ok(memory), id)? == Verdict::Stop {
            break;
        }
    }
    Ok(page.finish())
}

fn offer(page: &mut PageBuilder<'_, memory_core::Ledger>, memory: Result<Memory>, id: u128) -> Result<Verdict> {
    let shown = || MemoryId::from_bytes(id.to_be_bytes()).to_string();
    match memory {
        Ok(memory) => page.offer(Ok(memory.head()), |_| Ok(memory.clone()), shown),
        Err(error) => page.offer(Err(error), |_| Err(Error::corrupt("not read")), shown),
    }
}

/// The first and the last place where a row of the query can lie, in the order of time.
fn bounds(query: &MemoryQuery) -> (Place, Place) {
    let mut first = query.created_after().map_or((i64::MIN, 0), |time| (time.as_millis() + 1, 0));
    let mut last = query.created_before().map_or((i64::MAX, u128::MAX), |time| (time.as_millis() - 1, u128::MAX));
    if let Some(position) = query.after() {
        // The page itself skips what earlier pages had of this time.
        let time = position.created_at.as_millis();
        match query.order() {
            Order::OldestFirst => first = first.max((time, 0)),
            Order::NewestFirst => last = last.min((time, u128::MAX)),
        }
    }
    (first, last)
}
