//! The feed: a table to which each writing statement appends what it has written.
//!
//! A row is delivered once all transactions up to its own have ended, on the whole server: then no earlier row can
//! still appear.
//!
//! An erasure leaves the feed rows of its documents in place, because a watch may continue from there, but changes them
//! to name a memory that never existed.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory_core::engine::{Access, FeedEnd, FeedEntry, FeedPage, FeedPosition, FeedWrite, KeptChanges};
use memory_core::{Collection, DocumentId, Error, MemoryId, RecordId, Result};
use sqlx::postgres::PgRow;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use uuid::Uuid;

use crate::connection::{Connections, Session};
use crate::erasure::hashes;
use crate::row::column;

/// Minimum interval between two announcements of commits to other processes, and interval at which a process checks
/// whether anybody listens.
const BETWEEN_NOTICES: Duration = Duration::from_millis(20);
const UNHEARD: Duration = Duration::from_secs(1);
/// Interval at which a listening process renews its notice, well within the time that the notice is valid.
const LISTENS: Duration = Duration::from_secs(5);
/// Interval at which a writing process checks whether the feed has rows to drop.
const BETWEEN_TRIMS: Duration = Duration::from_secs(10);
/// After this time without an answer a server counts as gone; another one may have taken over.
const UNANSWERED: Duration = Duration::from_secs(10);
/// Interval at which the feed is checked if no announcement arrives.
const LOOK: Duration = Duration::from_secs(1);
/// Interval at which the feed is checked while an open transaction holds rows back.
const HELD_BACK: Duration = Duration::from_millis(50);

/// What a process knows about commits: its own, and those that others announce.
#[derive(Debug)]
pub(crate) struct Feed {
    connections: Arc<Connections>,
    /// Announces this process's commits.
    written: watch::Sender<()>,
    /// Announces all commits.
    news: watch::Sender<()>,
    /// Listens to other processes while a watch is open. The waiting call takes it, so it ends if that call is dropped.
    listening: Mutex<JoinSet<()>>,
}

/// A position in the feed: a row, and the number of the record within it, from 1. A row of a document has only number
/// 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    xid: i64,
    seq: i64,
    number: i64,
    /// Distinguishes the row from others that take its place.
    mark: Uuid,
    /// The server and its timeline.
    epoch: (i64, i64),
}

impl Feed {
    pub(crate) fn new(connections: &Arc<Connections>, kept: KeptChanges) -> Self {
        let written = watch::Sender::default();
        tokio::spawn(follow_writes(Arc::clone(connections), kept, written.subscribe()));
        let (connections, news, listening) = (Arc::clone(connections), watch::Sender::default(), Mutex::default());
        Self { connections, written, news, listening }
    }

    /// Announces a write that has ended.
    pub(crate) fn tell(&self) {
        self.written.send_replace(());
        self.news.send_replace(());
    }

    /// Stops listening.
    pub(crate) fn unwatched(&self) {
        drop(self.take_listening());
    }

    fn take_listening(&self) -> JoinSet<()> {
        mem::take(&mut *self.listening.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until there are rows after a position that can be delivered, or until the given time.
    pub(crate) async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        let mut listening = self.take_listening();
        let mut news = self.news.subscribe();
        while Instant::now() < until {
            while listening.try_join_next().is_some() {}
            if listening.is_empty() && !self.connections.is_pooled() {
                listening.spawn(listen(Arc::clone(&self.connections), self.news.clone()));
            }
            // Announcements from here on wake the wait.
            news.mark_unchanged();
            let mut session = self.connections.session(Access::ReadLatest, None).await?;
            let FeedEnd { position, held_back_to } = newest(&mut session).await?;
            session.end().await?;
            if position != *after {
                break;
            }
            let pause = if held_back_to.is_none() { LOOK } else { HELD_BACK };
            // After the pause the feed is checked in any case.
            let _ = timeout_at(until.min(Instant::now() + pause), news.changed()).await;
        }
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = listening;
        Ok(())
    }
}

/// Announces commits to other processes, after and outside their transactions: inside, it would make all writers of the
/// server wait for each other. Also trims the feed.
async fn follow_writes(connections: Arc<Connections>, kept: KeptChanges, mut written: watch::Receiver<()>) {
    let mut next_trim = Instant::now();
    while written.changed().await.is_ok() {
        // If this fails, other processes notice by their own checks.
        let told = timeout(UNANSWERED, connections.ask(|on| &on.tell_changes)).await;
        let is_heard = told.is_ok_and(|row| row.and_then(|row| column(&row, 0)).unwrap_or(false));
        if Instant::now() >= next_trim {
            // If this fails, it is tried again later.
            while timeout(UNANSWERED, trim(&connections, kept)).await.is_ok_and(|trimmed| trimmed.unwrap_or(false)) {}
            next_trim = Instant::now() + BETWEEN_TRIMS;
        }
        sleep(if is_heard { BETWEEN_NOTICES } else { UNHEARD }).await;
    }
}

/// Deletes a slice of the oldest rows; returns `false` if none are surplus.
async fn trim(connections: &Connections, kept: KeptChanges) -> Result<bool> {
    let mut session = connections.session(Access::Write, None).await?;
    let is_dropped = match kept {
        KeptChanges::MIN => session.holds(session.statement(|on| &on.trim_changes)).await?,
        kept => session.holds(session.statement(|on| &on.trim_changes_beyond).bind(i64::from(kept.get()))).await?,
    };
    session.end().await?;
    Ok(is_dropped)
}

/// Forwards the announcements of other processes until the connection ends.
async fn listen(connections: Arc<Connections>, news: watch::Sender<()>) {
    let Ok(mut listener) = connections.listen().await else {
        // Watches check at intervals meanwhile; listening is tried again afterwards.
        return sleep(LOOK).await;
    };
    loop {
        if connections.says_that_it_listens(&mut listener).await.is_err() {
            return sleep(LOOK).await;
        }
        // A process may have written before, when nobody listened.
        news.send_replace(());
        let until = Instant::now() + LISTENS;
        while let Ok(notice) = timeout_at(until, listener.try_recv()).await {
            let Ok(Some(notice)) = notice else { return };
            if connections.is_of_namespace(notice.payload()) {
                news.send_replace(());
            }
        }
    }
}

/// Returns the last row that can be delivered, and the last existing row if an open transaction holds that back.
pub(crate) async fn newest(session: &mut Session) -> Result<FeedEnd> {
    let mut rows = session.rows(session.statement(|on| &on.newest_change)).await?;
    if rows.is_empty() {
        // All existing rows were restored from the dump of a server that was ahead.
        session.written_rows(session.statement(|on| &on.trim_changes)).await?;
        rows = session.rows(session.statement(|on| &on.newest_change)).await?;
    }
    let row = rows.first().ok_or_else(|| Error::corrupt("the feed of changes has no row"))?;
    let place = Place { number: i64::from(column::<i32>(row, 6)?), ..Place::of(row)? };
    let is_settled: bool = column(row, 5)?;
    let last = Place { xid: column(row, 7)?, seq: column(row, 8)?, number: 0, mark: column(row, 9)?, ..place };
    let held_back_to = if is_settled { None } else { Some(last.to_position()?) };
    Ok(FeedEnd { position: place.to_position()?, held_back_to })
}

/// What a row says about one record.
enum Noted {
    Memory(Uuid),
    /// A write to a document, or an erasure. `None` if the record can't be named.
    Other(Option<FeedWrite>),
}

/// Returns the next entries after a position.
pub(crate) async fn changes(session: &mut Session, after: &FeedPosition, most: usize) -> Result<FeedPage> {
    let place = Place::parse(after).ok_or_else(Error::feed_reset)?;
    if most == 0 {
        let rows = session.rows(session.statement(|on| &on.change).bind(place.xid).bind(place.seq)).await?;
        place.check(rows.first())?;
        return Ok(FeedPage { entries: Vec::new(), reached: after.clone(), is_end: false });
    }
    let statement = session.statement(|on| &on.changes).bind(place.xid).bind(place.seq);
    let rows = session.rows(statement.bind(most as i64 + 1).bind(most as i64 + place.number)).await?;
    // Rows are dropped oldest first, so if the row of the position exists, all later ones do.
    let first = place.check(rows.first())?;
    let is_settled: bool = column(first, 5)?;
    let (mut noted, mut is_whole) = (Vec::new(), rows.len() <= most);
    'rows: for row in &rows {
        let here = Place::of(row)?;
        let told = if here.seq == place.seq { place.number } else { 0 };
        for (number, one) in (1..).zip(noted_in(row)?).skip_while(|(number, _)| *number <= told) {
            if noted.len() == most {
                is_whole = false;
                break 'rows;
            }
            noted.push((Place { number, ..here }, one));
        }
    }
    let reached = noted.last().map_or(place, |(last, _)| *last).to_position()?;
    let spaces = spaces(session, &noted).await?;
    let entry = |(place, noted): (Place, Noted)| {
        let write = match noted {
            Noted::Memory(id) => spaces
                .get(&id)
                .map(|space| FeedWrite::Memory { id: MemoryId::from_bytes(id.into_bytes()), space: space.clone() }),
            Noted::Other(write) => write,
        };
        write.map(|write| place.to_position().map(|position| FeedEntry { position, write }))
    };
    let entries = noted.into_iter().filter_map(entry).collect::<Result<_>>()?;
    Ok(FeedPage { entries, reached, is_end: is_whole && is_settled })
}

/// Returns what a row holds: memories, one document, or one erasure.
fn noted_in(row: &PgRow) -> Result<Vec<Noted>> {
    match (column::<Option<Vec<Uuid>>>(row, 6)?, column::<Option<&[u8]>>(row, 12)?) {
        (ids, Some(places)) => Ok(vec![Noted::Other(erasure_of(row, ids, places)?)]),
        (Some(ids), None) => Ok(ids.into_iter().map(Noted::Memory).collect()),
        (None, None) => Ok(vec![Noted::Other(document_of(row)?)]),
    }
}

/// Returns the erasure of a row; `None` if the record can't be named.
fn erasure_of(row: &PgRow, memories: Option<Vec<Uuid>>, places: &[u8]) -> Result<Option<FeedWrite>> {
    let record = match memories {
        Some(ids) => ids.first().map(|id| RecordId::from(MemoryId::from_bytes(id.into_bytes()))),
        None => name_of(row)?.map(RecordId::from),
    };
    let places = hashes(places)?;
    Ok(record.map(|record| FeedWrite::Erasure { record, places }))
}

/// Returns the name of a row's document; `None` if it can't be read.
fn name_of(row: &PgRow) -> Result<Option<(Collection, DocumentId)>> {
    let (collection, id) = (Collection::parse(column::<&str>(row, 7)?), DocumentId::parse(column::<&str>(row, 8)?));
    Ok(collection.ok().zip(id.ok()))
}

/// Returns the write to a row's document; `None` if it can't be named.
fn document_of(row: &PgRow) -> Result<Option<FeedWrite>> {
    let Some((collection, id)) = name_of(row)? else { return Ok(None) };
    let space = column(row, 9)?;
    Ok(Some(match column::<Option<i64>>(row, 11)? {
        Some(revision) => {
            let revision = u64::try_from(revision).unwrap_or_default();
            FeedWrite::Document { collection, id, space, before: column(row, 10)?, revision }
        }
        None => FeedWrite::Removal { collection, id, space },
    }))
}

/// Returns the spaces of memories.
async fn spaces(session: &mut Session, noted: &[(Place, Noted)]) -> Result<HashMap<Uuid, String>> {
    let ids = noted.iter().filter_map(|(_, noted)| match noted {
        Noted::Memory(id) => Some(*id),
        Noted::Other(_) => None,
    });
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = session.rows(session.statement(|on| &on.spaces_of_memories).bind(ids)).await?;
    rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
}

impl Place {
    /// Returns the position before the records of a row.
    fn of(row: &PgRow) -> Result<Self> {
        let epoch = (column(row, 3)?, column(row, 4)?);
        Ok(Self { xid: column(row, 0)?, seq: column(row, 1)?, number: 0, mark: column(row, 2)?, epoch })
    }

    /// Returns its row. Fails with `FeedReset` unless the row found for it is the same.
    fn check(self, row: Option<&PgRow>) -> Result<&PgRow> {
        let row = row.ok_or_else(Error::feed_reset)?;
        match (Place { number: self.number, ..Self::of(row)? }) == self {
            true => Ok(row),
            false => Err(Error::feed_reset()),
        }
    }

    fn to_position(self) -> Result<FeedPosition> {
        let Self { xid, seq, number, mark, epoch: (server, timeline) } = self;
        let numbers = [xid, seq, number, server, timeline].map(i64::to_be_bytes);
        FeedPosition::new([numbers.as_flattened(), mark.as_bytes().as_slice()].concat())
    }

    fn parse(position: &FeedPosition) -> Option<Self> {
        let (numbers, mark) = position.as_bytes().split_at_checked(40)?;
        let number = |place: usize| {
            let bytes = numbers.get(8 * place..8 * place + 8)?;
            Some(i64::from_be_bytes(bytes.try_into().ok()?))
        };
        let epoch = (number(3)?, number(4)?);
        Some(Self { xid: number(0)?, seq: number(1)?, number: number(2)?, mark: Uuid::from_slice(mark).ok()?, epoch })
    }
}
