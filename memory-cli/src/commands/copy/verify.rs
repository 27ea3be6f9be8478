//! Compares a source and a target, record by record.

use std::cmp::Ordering;
use std::io::Write as _;

use memory_core::{
    Clock as _, DocumentQuery, Documents, Ledger, MAX_LIMIT, MemoryProvider, MemoryQuery, Order, QueryBuilder, Selects,
    SystemClock, compare_heads,
};

use super::copied::{Copied, MOST_MISSING};
use super::walk::{Home, Walk};
use crate::collections::is_copied;
use crate::progress::Progress;

/// Compares all records of the source.
pub(super) async fn verify_all(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    progress: &Progress,
) -> anyhow::Result<Copied> {
    let mut copied = Copied::default();
    let all = verify::<Ledger, _>(&source, &target, &MemoryQuery::builder().all(), progress, &mut copied).await?;
    copied.memories = all.records;
    copied.unreadable = all.unreadable;
    let (source, target) = (source.documents(), target.documents());
    let (source, target) = (&*source, &*target);
    for collection in source.collections().await?.into_iter().filter(is_copied) {
        let query = DocumentQuery::builder(collection).all();
        let all = verify::<Documents, _>(&source, &target, &query, progress, &mut copied).await?;
        copied.documents += all.records;
        copied.unreadable += all.unreadable;
    }
    Ok(copied)
}

/// The result of a comparison.
pub(super) struct Verified {
    records: u64,
    /// The number of records that can't be read at the source.
    unreadable: u64,
}

/// Walks both engines side by side and hashes the source's records on either side. Records that only the target has do not count.
pub(super) async fn verify<K, H>(
    source: &H,
    target: &H,
    query: &QueryBuilder<K>,
    progress: &Progress,
    copied: &mut Copied,
) -> anyhow::Result<Verified>
where
    K: Selects + Clone,
    H: Home<K>,
{
    let (mut from, mut to, mut verified) = (Walk::new(query), Walk::new(query), 0);
    let (mut line, mut other_line) = (Vec::<u8>::new(), Vec::<u8>::new());
    while let Some(record) = from.next(source).await? {
        if !copied.passed_over.is_empty() && copied.passed_over.contains(&H::name(&record)) {
            continue;
        }
        line.clear();
        other_line.clear();
        H::write(&record, &mut line)?;
        while let Some(other) = to.peek(target).await? {
            match compare_heads(&K::head(other), &K::head(&record), Order::OldestFirst) {
                Ordering::Less => drop(to.records.pop_front()),
                Ordering::Equal => {
                    H::write(other, &mut other_line)?;
                    break;
                }
                Ordering::Greater => break,
            }
        }
        // A record that has expired since it was read is not missing.
        let has_expired = K::head(&record).expires_at.is_some_and(|time| time <= SystemClock.now());
        if has_expired && other_line.is_empty() {
            continue;
        }
        copied.source.write_all(&line)?;
        copied.target.write_all(&other_line)?;
        if line != other_line {
            copied.differs.get_or_insert_with(|| H::name(&record));
            if other_line.is_empty() && copied.missing.len() < MOST_MISSING {
                copied.missing.push(H::record(record).id());
            }
        }
        verified += 1;
        if verified % MAX_LIMIT as u64 == 0 {
            progress.verified(verified);
        }
    }
    Ok(Verified { records: verified, unreadable: from.unreadable })
}
