//! No read shows an expired record, whether it was swept or not (X2).
//!
//! Each read is made on a ledger that holds expired records, and on one that never had them, and must give the same answer.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use memory_core::{
    Change, ChangeKind, Collections, Count, DocumentQuery, DocumentRecall, DocumentSelection, History, Ledger,
    MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, Order, QueryBuilder, Recall, RecallOptions,
    Recalled, Record, RecordId, Result, SpaceLevel, SpaceQuery, Status, Sweep, Watch, WatchFrom, Watched,
};

use super::{END, expiring, expiring_note, get_note, set_clock, swept};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, metadata, new_document, new_memory, note, put, query, the, trigger, walk, walk_documents,
};

chapter!("expiry":
    nothing_shows_from_its_millisecond_on ["X2"] needs Erasure,
    an_old_token_shows_nothing_that_is_over ["X2"] needs Erasure,
);

/// A read, with the id of an expired memory. It returns its result as lines.
type Look = fn(Arc<dyn MemoryProvider>, MemoryId) -> BoxFuture<'static, Result<Vec<String>>>;

/// The reads that every engine has.
const LOOKS: &[(&str, Look)] = &[
    ("query", |provider, _| Box::pin(pages(provider))),
    ("recall", |provider, _| Box::pin(recalled(provider))),
    ("spaces", |provider, _| Box::pin(levels(provider))),
    ("documents.get", |provider, _| Box::pin(notes_by_name(provider))),
    ("documents.query", |provider, _| Box::pin(pages_of_notes(provider))),
    ("documents.recall", |provider, _| Box::pin(recalled_notes(provider))),
    ("documents.spaces", |provider, _| Box::pin(levels_of_notes(provider))),
    ("dry run", |provider, _| Box::pin(dry_run(provider))),
];
/// The reads of an engine that keeps a history.
const LOOKS_BACK: &[(&str, Look)] = &[
    ("history", |provider, id| Box::pin(versions(provider, id))),
    ("get_as_of", |provider, id| Box::pin(as_it_was(provider, id))),
];

/// Each read shows everything until the millisecond before the expiry, and nothing of the expired records from then on.
async fn nothing_shows_from_its_millisecond_on(stage: Stage) -> CaseResult {
    let (provider, elsewhere) = (stage.open().await?, stage.elsewhere());
    let never = elsewhere.open().await?;
    let over = fill(&provider, &never).await?;
    let mut looks = LOOKS.to_vec();
    if stage.harness().keeps_history() {
        looks.extend(LOOKS_BACK);
    }
    if stage.harness().can_watch() {
        looks.push(("snapshot", |provider, _| Box::pin(snapshot(provider))));
    }
    let set_both = |millis| {
        set_clock(&stage, millis);
        set_clock(&elsewhere, millis);
    };

    set_both(END - 1);
    for (name, look) in &looks {
        let (shown, without) = (look(Arc::clone(&provider), over).await?, look(Arc::clone(&never), over).await?);
        assert_ne!(shown, without, "{name}: a record is hidden before its expiry");
    }
    set_both(END);
    for is_swept in [false, true] {
        if is_swept {
            swept(&*provider, Sweep::due()).await?;
        }
        for handle in [&provider, &stage.open().await?] {
            for (name, look) in &looks {
                let (shown, without) = (look(Arc::clone(handle), over).await?, look(Arc::clone(&never), over).await?);
                assert_eq!(shown, without, "{name}, swept: {is_swept}");
            }
        }
    }
    Ok(())
}

/// Fills a ledger with records of which some expire, and another ledger with the rest. Returns the id of a memory that expires.
async fn fill(provider: &Arc<dyn MemoryProvider>, never: &Arc<dyn MemoryProvider>) -> Result<MemoryId> {
    let mut over = MemoryId::generate();
    for number in 0..24_i64 {
        let expires = number % 3 == 1;
        let space = if number % 2 == 0 { "a-b" } else { "a-c" };
        let mut memory = if expires { expiring(space, number) } else { new_memory(space, number) };
        let text = if expires { "cedar, tea and rain?" } else { "tea and rain" };
        memory.trigger = trigger(&format!(r#"{{"text":"{text} {number}"}}"#));
        memory.metadata = metadata(&format!(r#"{{"n":{number}}}"#));
        let id = provider.store(memory).await?;
        if number % 4 == 0 {
            provider.update(id, MemoryPatch::new().with_status(Status::Failed)).await?;
        }
        let mut write = new_document(NOTES, &format!("n{number}"), space, &format!("{text} {number}"));
        write.expires_at = expires.then(|| at(END));
        let document = put(&**provider, write).await?;
        if expires {
            over = id;
        } else {
            never.restore(vec![the(&**provider, id).await?]).await?;
            never.documents().restore(vec![document]).await?;
        }
    }
    // A space and a collection that hold nothing else.
    provider.store(expiring("a-over", 7)).await?;
    put(&**provider, new_document("drafts", "n", "a-over", "cedar").expires_at(at(END))).await?;
    // A memory with more than one version.
    provider.update(over, MemoryPatch::new().set_context(crate::fixture::context("1"))).await?;
    put(&**provider, expiring_note("n1", "a-c", "cedar, tea and rain")).await?;
    Ok(over)
}

/// Part of a query of the ledger.
pub(super) type Ask = fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>;

/// Each way to query, in both orders, with long and short pages, and with an offset.
async fn pages(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    const ASKED: &[Ask] = &[
        |all| all.all(),
        |all| all.exact("a-b"),
        |all| all.under("a"),
        |all| all.exact("a-b").exact("a-c"),
        |all| all.prefix("a-"),
        |all| all.glob("a-?"),
        |all| all.all().status(Status::Pending),
        |all| all.under("a").status(Status::Pending),
        |all| all.all().status(Status::Failed),
        |all| all.all().created_after(at(2)).created_before(at(19)),
        |all| all.all().filter_text("metadata.n < 12"),
        |all| all.all().text("cedar rain"),
    ];
    let mut shown = Vec::new();
    for (number, ask) in ASKED.iter().enumerate() {
        for (order, limit) in [(Order::NewestFirst, 1_000), (Order::OldestFirst, 3)] {
            let found = walk(&*provider, |all| ask(all).order(order).limit(limit)).await?;
            shown.extend(found.iter().map(|memory| format!("{number} {order:?} {}", memory.id)));
        }
        let page = provider.query(&query(|all| ask(all).offset(2).limit(2))).await?;
        shown.extend(page.memories.iter().map(|memory| format!("{number} behind an offset {}", memory.id)));
    }
    Ok(shown)
}

/// The hits with the bits of their scores, and the records beside them.
async fn recalled(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    for question in ["rain and tea", "cedar", "tea 7"] {
        let options = RecallOptions { neighbours: 2, ..RecallOptions::default() };
        let asked: MemoryRecall = Recall::with(question, query(|all| all.under("a")), options)?;
        shown.extend(hits(provider.recall(&asked).await?, |memory| memory.id.to_string()));
    }
    Ok(shown)
}

fn hits<T>(recalled: Recalled<T>, id: impl Fn(&T) -> String) -> Vec<String> {
    let beside = |records: &[T]| records.iter().map(&id).collect::<Vec<_>>().join(" ");
    let hits = recalled.hits.iter().map(|hit| {
        let (before, after) = (beside(&hit.before), beside(&hit.after));
        format!("{} {:x}: {before} | {after}", id(&hit.record), hit.score.to_bits())
    });
    hits.collect()
}

async fn levels(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    Ok(listed(provider.spaces(&SpaceQuery::builder().depth(3).build()?).await?))
}

fn listed(levels: Vec<SpaceLevel>) -> Vec<String> {
    let spaces = levels.into_iter().flat_map(|level| level.spaces);
    let count = |count| match count {
        Count::Exactly(count) => count.to_string(),
        Count::MoreThan(count) => format!("more than {count}"),
    };
    spaces.map(|space| format!("{} {} {}", space.id, count(space.count), space.newest)).collect()
}

async fn notes_by_name(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    for number in 0..24 {
        let found = get_note(&*provider, &format!("n{number}")).await?;
        shown.extend(found.map(|document| document.content.as_str().to_owned()));
    }
    Ok(shown)
}

async fn pages_of_notes(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let (mut shown, documents) = (Vec::new(), provider.documents());
    for (order, limit) in [(Order::NewestFirst, 1_000), (Order::OldestFirst, 3)] {
        let all = walk_documents(&*documents, NOTES, |all| all.all().order(order).limit(limit)).await?;
        let below = walk_documents(&*documents, NOTES, |all| all.under("a-c").order(order).limit(limit)).await?;
        let by_text = walk_documents(&*documents, NOTES, |all| all.all().text("cedar").order(order)).await?;
        for found in [all, below, by_text] {
            shown.extend(found.iter().map(|document| format!("{order:?} {}", document.id)));
        }
    }
    Ok(shown)
}

async fn recalled_notes(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let below = DocumentQuery::builder(collection(NOTES)).under("a").build()?;
    let options = RecallOptions { neighbours: 2, ..RecallOptions::default() };
    let asked: DocumentRecall = Recall::with("cedar and rain", below, options)?;
    Ok(hits(provider.documents().recall(&asked).await?, |document| document.id.to_string()))
}

async fn levels_of_notes(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let asked = SpaceQuery::builder().depth(3).build()?;
    Ok(listed(provider.documents().spaces(&collection(NOTES), &asked).await?))
}

/// The result of a dry run of a removal.
async fn dry_run(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let selection = DocumentSelection::matching(DocumentQuery::builder(collection(NOTES)).under("a"))?;
    let ids = selection.preview(&*provider.documents(), 100).await?;
    Ok(ids.iter().map(ToString::to_string).collect())
}

/// All versions, including those that only operators see.
async fn versions(provider: Arc<dyn MemoryProvider>, id: MemoryId) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    for record in [RecordId::from(id), note("n1")] {
        for history in [History::of(record.clone()), History::of(record).with_removed()] {
            let page = provider.history(&history).await?;
            shown.extend(page.versions.iter().map(|version| format!("{}", version.revision.get())));
        }
    }
    Ok(shown)
}

async fn as_it_was(provider: Arc<dyn MemoryProvider>, id: MemoryId) -> Result<Vec<String>> {
    let mut shown = Vec::new();
    for record in [RecordId::from(id), note("n1")] {
        let found = provider.get_as_of(&record, at(END - 1)).await?;
        shown.extend(found.map(|record| record.revision().get().to_string()));
    }
    Ok(shown)
}

/// The changes of a watch that begins with a snapshot.
async fn snapshot(provider: Arc<dyn MemoryProvider>) -> Result<Vec<String>> {
    let all = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let mut shown = told(&*provider, &all.from(WatchFrom::Beginning)).await?;
    shown.sort_unstable();
    Ok(shown)
}

/// The records that a watch delivers, up to the next *reached*.
async fn told(provider: &dyn MemoryProvider, watch: &Watch) -> Result<Vec<String>> {
    let (mut changes, mut told) = (provider.watch(watch).await?, Vec::new());
    while let Some(change) = changes.next().await {
        let Change { kind, .. } = change?;
        match kind {
            ChangeKind::Reached => break,
            ChangeKind::Stored(record) | ChangeKind::Updated(record) => told.push(name(&record)),
            _ => {}
        }
    }
    Ok(told)
}

fn name(record: &Record) -> String {
    match record {
        Record::Memory(memory) => memory.id.to_string(),
        Record::Document(document) => format!("{} {}", document.collection.as_str(), document.id),
    }
}

/// A watch that continues from an old token shows no record that has expired since.
async fn an_old_token_shows_nothing_that_is_over(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let all = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let mut changes = provider.watch(&all.clone().from(WatchFrom::Now)).await?;
    let token = changes.next().await.ok_or("the watch has ended")??.token;
    drop(changes);
    provider.store(expiring("a", 1)).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    let kept = provider.store(new_memory("a", 2)).await?;
    let watch = all.from(token.into());
    assert_eq!(told(&*provider, &watch).await?.len(), 3);
    set_clock(&stage, END);
    for is_swept in [false, true] {
        if is_swept {
            swept(&*provider, Sweep::due()).await?;
        }
        assert_eq!(told(&*provider, &watch).await?, [kept.to_string()], "swept: {is_swept}");
    }
    Ok(())
}
