//! Reads the versions of a record: the current one, and earlier ones by applying the entries of its history backwards.

use std::sync::Arc;
use std::time::Instant;

use super::living::{LivingWork, View};
use super::look::Look;
use super::open::{Open, Shared};
use crate::engine::history::{HistoryRow, no_history};
use crate::engine::pages::Asked;
use crate::engine::session::{Found, Reader};
use crate::engine::watch::{Watch, Watching};
use crate::engine::{Access, Engine};
use crate::history::Image;
use crate::query::MAX_PAGE_BYTES;
use crate::{
    Actor, Cursor, Error, ErrorKind, History, HistoryPage, Outcome, Record, RecordId, Result, Revision, Timestamp,
    TransientKeys, Version,
};

/// Number of history entries that are read at once.
const SLICE: usize = 64;

impl<E: Engine> Open<E> {
    /// Returns the beginning of the namespace's history; `None` if it keeps none. That is decided when the namespace is
    /// first opened, or with the first write if the first program could not write or the namespace was read-only then
    /// (PostgreSQL keeps the decision there too).
    pub(super) async fn history_since(&self) -> Result<Option<Timestamp>> {
        if !E::HISTORY {
            return Ok(None);
        }
        let decide = || async {
            let asked = self.settings.history.is_kept;
            let proposed = asked.unwrap_or(true).then(|| self.settings.clock.now());
            let keep = |_| self.engine.history_since(proposed);
            let since = self.retry().repeatable().run(|error| self.engine.is_temporary(error), keep).await;
            let since = since.map_err(|error| error.with_outcome(Outcome::NotDone))?;
            match (asked, since) {
                (Some(true), None) => Err(mismatch("keeps no history, so history=all is refused: leave it out")),
                (Some(false), Some(_)) => Err(mismatch("keeps a history, so history=none is refused: leave it out")),
                _ => Ok(since),
            }
        };
        self.since.get_or_try_init(decide).await.copied()
    }

    /// Returns a page of a history, including that of expired records.
    pub(super) async fn last_versions(&self, history: &History, until: Instant) -> Result<HistoryPage> {
        let watching = Watching::new(until, None);
        let query = (history.clone(), self.settings.history.transient.clone());
        let asked = Asked { query, key: self.key.clone(), watch: watching.watch(), has_places: true };
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(page(reader, asked));
        self.run_until(until, View::of_all(Access::ReadLatest), asked, work).await
    }

    /// Returns the time for the entry of a write; `None` if no history is kept.
    pub(super) async fn written_at(&self) -> Result<Option<Timestamp>> {
        // Read here, because a clock that panics must not end a thread of the engine.
        Ok(self.history_since().await?.map(|_| self.settings.clock.now()))
    }
}

fn mismatch(reason: &str) -> Error {
    Error::new(ErrorKind::SchemaMismatch, format!("the namespace {reason}"))
}

impl<E: Engine> Shared<E> {
    /// Returns a page of a history.
    pub(super) async fn history(&self, history: &History) -> Result<HistoryPage> {
        let open = self.ready().await?;
        open.history_since().await?.ok_or_else(no_history)?;
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(page(reader, asked));
        // Two replicas may be at different states when the record and its entries are read.
        let asked = (history.clone(), open.settings.history.transient.clone());
        self.look(&open, Look::new(&open, Access::ReadLatest), &asked, work).await
    }

    /// Returns a record as it was at a time.
    pub(super) async fn as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        let open = self.ready().await?;
        let since = open.history_since().await?.ok_or_else(no_history)?;
        if time < since {
            let message = format!("the history of this ledger begins at {since} ms");
            return Err(Error::invalid(message));
        }
        if time > open.settings.clock.now() {
            return Err(Error::invalid("this time is in the future"));
        }
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(as_of(reader, asked));
        let asked = AsOf { id: id.clone(), time, transient: open.settings.history.transient.clone() };
        self.look(&open, Look::new(&open, Access::ReadLatest), &asked, work).await
    }
}

/// A question for a record as it was at a time.
#[derive(Clone)]
struct AsOf {
    id: RecordId,
    time: Timestamp,
    transient: TransientKeys,
}

/// The position of a version: below the entry with this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    place: u64,
    /// Whether it is the version before that entry's, which has no entry of its own.
    is_before: bool,
}

impl Position {
    /// Returns whether it comes after another position in the order of a page.
    fn is_behind(self, other: Self) -> bool {
        (self.place, other.is_before) < (other.place, self.is_before)
    }

    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.place.to_be_bytes().to_vec();
        bytes.push(self.is_before.into());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (place, is_before) = bytes.split_first_chunk::<8>()?;
        let [is_before @ 0..=1] = is_before else { return None };
        Some(Self { place: u64::from_be_bytes(*place), is_before: *is_before == 1 })
    }
}

/// A version that the walk has reached.
struct Seen<'w> {
    position: Position,
    committed_at: Option<Timestamp>,
    actor: Option<&'w Actor>,
    what: What<'w>,
}

enum What<'w> {
    Was(&'w Image<Vec<u8>>),
    Removed(Revision),
}

/// Visits each version; returns `false` to stop.
type Visit<'v> = dyn FnMut(&Base, &Seen<'_>) -> Result<bool> + Send + 'v;

/// The record's id and immutable fields.
struct Base {
    id: RecordId,
    now: Option<Record>,
    transient: TransientKeys,
}

impl Base {
    /// Returns the bytes of a version's texts.
    fn size(&self, image: &Image<Vec<u8>>) -> usize {
        let of_all = match &self.now {
            Some(Record::Memory(memory)) => memory.space_id.as_str().len() + memory.trigger.as_str().len(),
            _ => 0,
        };
        of_all + image.size()
    }

    /// Builds the record of an image.
    fn record(&self, image: &Image<Vec<u8>>) -> Result<Record> {
        match (&self.id, &self.now) {
            (RecordId::Document { collection, id }, _) => image.to_document(collection, id).map(Record::Document),
            (RecordId::Memory(_), Some(Record::Memory(memory))) => {
                let mut version = image.to_memory(memory)?;
                version.metadata = self.transient.strip(&version.metadata)?;
                Ok(Record::Memory(version))
            }
            (RecordId::Memory(_), _) => Err(Error::corrupt("a memory is gone")),
        }
    }
}

async fn page<R: Reader>(reader: &mut R, asked: &Asked<(History, TransientKeys)>) -> Result<HistoryPage> {
    let Asked { query: (history, transient), key, watch, .. } = asked;
    let (fingerprint, mut page) = (history.fingerprint(), HistoryPage::default());
    let behind = history.page_cursor().map(|cursor| {
        let position = key.open_bytes(cursor, &fingerprint).and_then(|bytes| Position::parse(&bytes));
        position.ok_or_else(|| {
            Error::invalid("the cursor is not from a page of this history: leave it out to begin at the first page")
        })
    });
    let behind = behind.transpose()?;
    if history.page_limit() == 0 {
        return Ok(page);
    }
    let (mut last, mut bytes) = (None, 0);
    let mut visit = |base: &Base, seen: &Seen<'_>| {
        if behind.is_some_and(|behind| !seen.position.is_behind(behind)) {
            return Ok(true);
        }
        let size = if let What::Was(image) = seen.what { base.size(image) } else { 0 };
        if let Some(last) = last
            && (page.versions.len() == history.page_limit() || bytes + size > MAX_PAGE_BYTES)
        {
            let position: Position = last;
            page.next = Some(Cursor::sealed(key.seal_bytes(&fingerprint, position.to_bytes())?));
            return Ok(false);
        }
        (last, bytes) = (Some(seen.position), bytes + size);
        let (revision, record) = match seen.what {
            What::Was(image) => {
                let record = base.record(image)?;
                (record.revision(), Some(record))
            }
            What::Removed(revision) => (revision, None),
        };
        let (committed_at, actor) = (seen.committed_at, seen.actor.cloned());
        page.versions.push(Version { revision, committed_at, actor, record });
        Ok(true)
    };
    go_back(reader, history.record(), transient, history.has_removed(), watch, &mut visit).await?;
    Ok(page)
}

/// Finds the newest version that was committed by the given time. A version without a commit time existed before the
/// history began.
async fn as_of<R: Reader>(reader: &mut R, Asked { query, watch, .. }: &Asked<AsOf>) -> Result<Option<Record>> {
    let (AsOf { id, time, transient }, mut found) = (query, None);
    let mut visit = |base: &Base, seen: &Seen<'_>| {
        if seen.committed_at.is_some_and(|at| at > *time) {
            return Ok(true);
        }
        if let What::Was(image) = seen.what {
            found = Some(base.record(image)?);
        }
        Ok(false)
    };
    go_back(reader, id, transient, false, watch, &mut visit).await?;
    Ok(found)
}

/// Walks the versions of a record, newest first: back to the removal before them, or beyond it.
async fn go_back<R: Reader>(
    reader: &mut R,
    id: &RecordId,
    transient: &TransientKeys,
    with_removed: bool,
    watch: &Arc<Watch>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let (now, mut rows) = consistent(reader, id, watch).await?;
    let mut image = now.as_ref().map(|record| match record {
        Record::Memory(memory) => Image::of(&memory.into()),
        Record::Document(document) => Image::of(&document.into()),
    });
    let base = Base { id: id.clone(), now, transient: transient.clone() };
    let (mut place, mut bytes) = (u64::MAX, 0);
    while !rows.is_empty() {
        for HistoryRow { place: of_row, entry } in rows {
            bytes += entry.before.len() + image.as_ref().map_or(0, |image| base.size(image));
            if bytes > MAX_PAGE_BYTES && !watch.is_heavy() {
                watch.spend();
            }
            if !watch.goes_on() {
                watch.check()?;
            }
            if let (RecordId::Memory(_), Some(image)) = (id, &image)
                && entry.revision.get() > image.revision
            {
                // This entry was written after the record was read.
                place = of_row;
                continue;
            }
            let is_own = image.as_ref().is_some_and(|image| match id {
                // Later updates changed only transient keys.
                RecordId::Memory(_) => image.revision >= entry.revision.get(),
                RecordId::Document { .. } => image.revision == entry.revision.get(),
            });
            if let Some(without_entry) = image.as_ref().filter(|_| !is_own || entry.is_removal) {
                // Nothing is known of earlier versions.
                let position = Position { place, is_before: true };
                let (committed_at, actor, what) = (None, None, What::Was(without_entry));
                if !visit(&base, &Seen { position, committed_at, actor, what })? {
                    return Ok(());
                }
                image = None;
            }
            place = of_row;
            let position = Position { place, is_before: false };
            let (committed_at, actor) = (Some(entry.at), entry.actor.as_ref());
            if entry.is_removal {
                if !with_removed
                    || !visit(&base, &Seen { position, committed_at, actor, what: What::Removed(entry.revision) })?
                {
                    return Ok(());
                }
                let mut removed = Image::default();
                removed.go_back(&entry.before)?;
                image = Some(removed);
            } else if let Some(was) = &mut image {
                if !visit(&base, &Seen { position, committed_at, actor, what: What::Was(was) })? {
                    return Ok(());
                }
                match entry.before.is_empty() {
                    true => image = None,
                    false => was.go_back(&entry.before)?,
                }
            }
        }
        rows = reader.history(id, place, SLICE).await?;
        watch.check()?;
    }
    if let Some(first) = &image {
        let committed_at = match id {
            RecordId::Memory(id) => reader.stored_at(*id).await?,
            RecordId::Document { .. } => None,
        };
        let position = Position { place, is_before: true };
        visit(&base, &Seen { position, committed_at, actor: None, what: What::Was(first) })?;
    }
    Ok(())
}

/// Reads the record and the newest entries that belong to it. On an engine without a common snapshot, a write may come
/// in between.
async fn consistent<R: Reader>(
    reader: &mut R,
    id: &RecordId,
    watch: &Watch,
) -> Result<(Option<Record>, Vec<HistoryRow>)> {
    let (collection, id_of) = match id {
        RecordId::Memory(id_of) => {
            let found = reader.memories(&[*id_of]).await?.remove(id_of).transpose()?;
            let Some(Found { record, .. }) = found else { return Ok((None, Vec::new())) };
            return Ok((Some(Record::Memory(record)), reader.history(id, u64::MAX, SLICE).await?));
        }
        RecordId::Document { collection, id } => (collection, id),
    };
    loop {
        let rows = reader.history(id, u64::MAX, SLICE).await?;
        let found = reader.documents(collection, std::slice::from_ref(id_of)).await?.pop().transpose()?;
        let again = reader.history(id, u64::MAX, 1).await?;
        if again.first().map(|row| row.place) == rows.first().map(|row| row.place) {
            return Ok((found.map(|found| Record::Document(found.record)), rows));
        }
        watch.check()?;
    }
}
