//! Writes the records of a source to a target, with their vectors and versions.

use std::collections::BTreeSet;

use memory_core::{
    DocumentQuery, Documents, Ledger, MemoryProvider, MemoryQuery, QueryBuilder, Record, RecordId, RestoreReport,
    Selects,
};

use super::batch::without;
use super::copied::Copied;
use super::walk::{Home, Walk};
use crate::collections::is_copied;
use crate::output;
use crate::progress::Progress;
use crate::vectors::VectorWriter;
use crate::versions::Versions;

/// Carries vectors, and if requested versions, along with records.
pub(super) struct Carrier<'a> {
    pub(super) source: &'a dyn MemoryProvider,
    pub(super) target: &'a dyn MemoryProvider,
    pub(super) has_versions: bool,
    pub(super) vectors: VectorWriter,
}

/// Writes the records of a query to the target, page by page, with their vectors and, if requested, their versions, and returns their
/// number. Records that exist in the target stay, so that an interrupted copy continues when it is repeated.
pub(super) async fn transfer<K, H>(
    source: &H,
    target: &H,
    carrier: &mut Carrier<'_>,
    query: &QueryBuilder<K>,
    progress: &Progress,
    copied: &mut Copied,
) -> anyhow::Result<u64>
where
    K: Selects + Clone,
    H: Home<K>,
{
    let before = copied.records();
    copied.passed_over.clear();
    let (mut walk, mut done) = (Walk::new(query), 0);
    while let Some(unreadable) = walk.next_page(source).await? {
        output::report_unreadable("record", &unreadable);
        copied.unreadable += unreadable.len() as u64;
        let records = Vec::from(std::mem::take(&mut walk.records));
        let names: Vec<_> = records.iter().map(H::name).collect();
        let versions: Vec<_> = records.iter().map(H::version).collect();
        let report = match carrier.has_versions {
            true => with_versions(carrier.source, carrier.target, records.into_iter().map(H::record)).await?,
            false => target.restore(records).await?,
        };
        let there = without(versions, &report);
        carrier.vectors.carry(carrier.source, carrier.target, &there).await?;
        for place in &report.conflicts {
            progress.note(&format!("error: {} is there and differs; it stays as it is", names[*place]));
        }
        copied.passed_over.extend(report.erased.iter().map(|place| names[*place].clone()));
        copied.written += report.written as u64;
        copied.conflicts += report.conflicts.len() as u64;
        copied.erased += report.erased.len() as u64;
        done += names.len() as u64;
        progress.done(before + done, 0);
    }
    Ok(done)
}

/// Writes records with their versions.
async fn with_versions(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    records: impl Iterator<Item = Record>,
) -> anyhow::Result<RestoreReport> {
    let mut report = RestoreReport::default();
    for (place, record) in records.enumerate() {
        let of_record = Versions::read(source, &record).await?.restore(target).await?;
        report.written += usize::from(of_record.written > 0);
        report.conflicts.extend((!of_record.conflicts.is_empty()).then_some(place));
        report.erased.extend((!of_record.erased.is_empty()).then_some(place));
    }
    Ok(report)
}

/// Carries the vectors of all records of the source, since the feed does not report vectors.
pub(super) async fn carry_vectors(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    vectors: &mut VectorWriter,
    differing: &BTreeSet<RecordId>,
) -> anyhow::Result<()> {
    carry_all::<Ledger, _>(&source, &MemoryQuery::builder().all(), source, target, vectors, differing).await?;
    let documents = source.documents();
    let documents = &*documents;
    for collection in documents.collections().await?.into_iter().filter(is_copied) {
        let query = DocumentQuery::builder(collection).all();
        carry_all::<Documents, _>(&documents, &query, source, target, vectors, differing).await?;
    }
    Ok(())
}

async fn carry_all<K, H>(
    home: &H,
    query: &QueryBuilder<K>,
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    vectors: &mut VectorWriter,
    differing: &BTreeSet<RecordId>,
) -> anyhow::Result<()>
where
    K: Selects + Clone,
    H: Home<K>,
{
    let mut walk = Walk::new(query);
    while walk.next_page(home).await?.is_some() {
        let mut records: Vec<_> = std::mem::take(&mut walk.records).iter().map(H::version).collect();
        records.retain(|(id, _)| !differing.contains(id));
        vectors.carry(source, target, &records).await?;
    }
    Ok(())
}
