//! The feed: a table to which each transaction appends what it has written.
//!
//! Ledger rows are already in the order of their commits. So the memories that a transaction appends are one feed row,
//! with the first and the last of them; a group of stores costs one row.

use memory_core::engine::{FeedEntry, FeedPage, FeedPosition, FeedWrite, KeptChanges};
use memory_core::{Collection, Document, DocumentId, Error, KeyedHash, MemoryId, RecordId, Result, Tombstone};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use tokio::sync::watch;

use crate::connection::Session;
use crate::error::native;
use crate::statements::{self, bytes, column, execute, first, optional_text, prepare, text};

/// Number of rows that one trim deletes, and of new rows between two checks.
const DROPPED: i64 = 1_000;

/// The feed rows of a transaction, and the channel that announces commits.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    noted: Vec<Noted>,
    /// Marks the rows of this connection; 0 until the first one is written.
    epoch: i64,
    /// The last row that was written.
    last: i64,
    /// Number of rows that the idle writer keeps. Between two trims there may be twice as many.
    kept: KeptChanges,
    commits: watch::Sender<()>,
}

/// A row to append.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    Memories { first: i64, last: i64 },
    Document { document: Named, before: Option<String>, revision: i64 },
    Removal(Named),
    Erasure { record: RecordId, places: Vec<u8> },
}

#[derive(Debug, PartialEq, Eq)]
struct Named {
    collection: Collection,
    id: DocumentId,
    space: String,
}

/// A position in the feed: a row, and the number of the memory within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    seq: i64,
    number: i64,
    epoch: i64,
}

impl Feed {
    /// Makes a feed that announces each commit.
    pub(crate) fn telling(commits: watch::Sender<()>, kept: KeptChanges) -> Self {
        Self { kept, commits, ..Self::default() }
    }

    /// Returns the number of rows to keep.
    pub(crate) fn kept(&self) -> i64 {
        self.kept.get().into()
    }

    /// Drops what an earlier transaction has noted.
    pub(crate) fn clear(&mut self) {
        self.noted.clear();
    }

    /// Notes that a memory was appended or replaced.
    pub(crate) fn note_memory(&mut self, seq: i64) {
        match self.noted.last_mut() {
            Some(Noted::Memories { first, last }) if (*first..=*last + 1).contains(&seq) => *last = seq.max(*last),
            _ => self.noted.push(Noted::Memories { first: seq, last: seq }),
        }
    }

    /// Notes that a document was put, over another version or as a new one.
    pub(crate) fn note_put(&mut self, before: Option<&Document>, after: &Document) {
        let before = before.map(|before| &before.space_id).filter(|space| **space != after.space_id);
        let (before, revision) = (before.map(ToString::to_string), after.revision.into());
        self.noted.push(Noted::Document { document: Named::of(after), before, revision });
    }

    /// Notes that a document was removed.
    pub(crate) fn note_removal(&mut self, document: &Document) {
        self.noted.push(Noted::Removal(Named::of(document)));
    }

    /// Notes that a record was erased.
    pub(crate) fn note_erasure(&mut self, tombstone: &Tombstone) {
        let (record, places) = (tombstone.record.clone(), KeyedHash::concat(&tombstone.places));
        self.noted.push(Noted::Erasure { record, places });
    }

    /// Drops what was noted of a document, because it tells the document's spaces.
    pub(crate) fn forget(&mut self, collection: &Collection, id: &DocumentId) {
        let is_of = |named: &Named| (&named.collection, &named.id) == (collection, id);
        self.noted.retain(|noted| match noted {
            Noted::Document { document, .. } | Noted::Removal(document) => !is_of(document),
            Noted::Memories { .. } | Noted::Erasure { .. } => true,
        });
    }

    /// Appends what was noted, at the end of the transaction.
    pub(crate) fn write(&mut self, connection: &Connection) -> Result<()> {
        if self.noted.is_empty() {
            return Ok(());
        }
        if self.epoch == 0 {
            self.epoch = new_epoch();
        }
        let epoch = self.epoch;
        for noted in &self.noted {
            match noted {
                Noted::Memories { first, last } => {
                    execute(connection, statements::INSERT_CHANGED_MEMORIES, [epoch, *first, *last])?;
                }
                Noted::Document { document: Named { collection, id, space }, before, revision } => {
                    let row = params![epoch, collection.as_str(), id.as_str(), space, before, revision];
                    execute(connection, statements::INSERT_CHANGED_DOCUMENT, row)?;
                }
                Noted::Removal(Named { collection, id, space }) => {
                    let row = params![epoch, collection.as_str(), id.as_str(), space, None::<&str>, None::<i64>];
                    execute(connection, statements::INSERT_CHANGED_DOCUMENT, row)?;
                }
                Noted::Erasure { record, places } => {
                    let (collection, id) = match record {
                        RecordId::Memory(id) => (None, id.to_string()),
                        RecordId::Document { collection, id } => (Some(collection.as_str()), id.to_string()),
                    };
                    execute(connection, statements::INSERT_ERASURE, params![epoch, collection, id, places])?;
                }
            }
        }
        let last = connection.last_insert_rowid();
        if last <= self.last {
            // An earlier state of the file was put in its place while this connection was open.
            self.epoch = new_epoch();
            execute(connection, statements::MARK_CHANGES, [self.epoch, last - self.noted.len() as i64])?;
        }
        if last / DROPPED != self.last / DROPPED {
            // Trims also if the writer is never idle.
            execute(connection, statements::DROP_CHANGES, [2 * self.kept(), 2 * DROPPED])?;
        }
        self.last = last;
        Ok(())
    }

    /// Announces the end of the transaction, if it has appended anything.
    pub(crate) fn tell(&mut self) {
        if !self.noted.is_empty() {
            self.commits.send_replace(());
        }
    }
}

/// Returns the end of the feed.
pub(crate) fn newest(connection: &Connection) -> Result<FeedPosition> {
    let read = |row: &Row<'_>| Ok(Place { seq: column(row, 0)?, epoch: column(row, 1)?, number: column(row, 2)? });
    let newest = first(connection, statements::NEWEST_CHANGE, [], read)?;
    newest.unwrap_or(Place { seq: 0, number: 0, epoch: 0 }).to_position()
}

/// Returns the next entries after a position.
pub(crate) fn changes(connection: &Connection, after: &FeedPosition, most: usize) -> Result<FeedPage> {
    let place = Place::parse(after).ok_or_else(Error::feed_reset)?;
    if !place.is_in(connection)? {
        return Err(Error::feed_reset());
    }
    let (mut entries, mut reached) = (Vec::new(), place);
    let mut rows = prepare(connection, statements::CHANGES)?;
    let mut rows = rows.query([place.seq]).map_err(native)?;
    while entries.len() < most
        && let Some(row) = rows.next().map_err(native)?
    {
        let (seq, epoch): (i64, i64) = (column(row, 0)?, column(row, 1)?);
        let Some(first) = column::<Option<i64>>(row, 2)? else {
            if seq > place.seq {
                reached = Place { seq, number: 0, epoch };
                if let Some(write) = write_of(row)? {
                    entries.push(FeedEntry { position: reached.to_position()?, write });
                }
            }
            continue;
        };
        let last = column(row, 3)?;
        let from = if seq == place.seq { first + place.number + 1 } else { first };
        let wanted = (most - entries.len()) as i64;
        let mut memories = prepare(connection, statements::CHANGED_MEMORIES)?;
        let mut memories = memories.query([from, last, wanted]).map_err(native)?;
        let mut found = 0;
        while let Some(memory) = memories.next().map_err(native)? {
            found += 1;
            reached = Place { seq, number: column::<i64>(memory, 0)? - first, epoch };
            // A row with an invalid id can't be named, and one with an invalid space is in no scope.
            let (Ok(id), Ok(space)) = (column::<[u8; 16]>(memory, 1), text(memory, 2)) else { continue };
            let write = FeedWrite::Memory { id: MemoryId::from_bytes(id), space: space.to_owned() };
            entries.push(FeedEntry { position: reached.to_position()?, write });
        }
        if found == wanted {
            // Damaged rows may have been skipped, and more of this row may follow.
            break;
        }
        reached = Place { seq, number: last - first, epoch };
    }
    let reached = reached.to_position()?;
    let is_end = reached == newest(connection)?;
    Ok(FeedPage { entries, reached, is_end })
}

/// Deletes a slice of the oldest rows if there are more than `kept`; returns `true` if no more are surplus.
pub(crate) fn trim(session: &mut Session, kept: i64) -> Result<bool> {
    let number = |sql| first(&session.connection, sql, [], |row| column::<i64>(row, 0));
    let (oldest, newest) = (number(statements::OLDEST_CHANGE)?, number(statements::NEWEST_CHANGE)?);
    let over = newest.zip(oldest).map_or(0, |(newest, oldest)| newest - oldest + 1 - kept);
    if over <= 0 {
        return Ok(true);
    }
    session.begin(std::time::Instant::now())?;
    session
        .in_transaction(|session| execute(&session.connection, statements::DROP_CHANGES, [kept, DROPPED]).map(drop))?;
    Ok(over <= DROPPED)
}

impl Named {
    fn of(document: &Document) -> Self {
        let Document { collection, id, space_id, .. } = document;
        Self { collection: collection.clone(), id: id.clone(), space: space_id.to_string() }
    }
}

impl Place {
    fn to_position(self) -> Result<FeedPosition> {
        let Self { seq, number, epoch } = self;
        FeedPosition::new([seq.to_be_bytes(), number.to_be_bytes(), epoch.to_be_bytes()].concat())
    }

    fn parse(position: &FeedPosition) -> Option<Self> {
        let number = |place: usize| {
            let bytes = position.as_bytes().get(8 * place..8 * place + 8)?;
            Some(i64::from_be_bytes(bytes.try_into().ok()?))
        };
        Some(Self { seq: number(0)?, number: number(1)?, epoch: number(2)? })
    }

    /// Returns whether the feed has this position and everything after it.
    fn is_in(self, connection: &Connection) -> Result<bool> {
        if self.seq == 0 {
            let oldest: Option<i64> = first(connection, statements::OLDEST_CHANGE, [], |row| column(row, 0))?;
            return Ok(oldest.is_none_or(|oldest| oldest == 1));
        }
        let epoch: Option<i64> = first(connection, statements::EPOCH_OF_CHANGE, [self.seq], |row| column(row, 0))?;
        Ok(epoch == Some(self.epoch))
    }
}

/// Returns the write of a row; `None` if its record can't be named, or was erased since.
fn write_of(row: &Row<'_>) -> Result<Option<FeedWrite>> {
    if let ValueRef::Blob(_) = row.get_ref(9).map_err(native)? {
        let (Ok(record), Some(places)) = (record_of(row), bytes(row, 9).ok().and_then(KeyedHash::all_of)) else {
            return Ok(None);
        };
        return Ok(Some(FeedWrite::Erasure { record, places }));
    }
    let (collection, id) = (text(row, 4).and_then(Collection::parse), text(row, 5).and_then(DocumentId::parse));
    let (Ok(collection), Ok(id), Ok(space)) = (collection, id, text(row, 6)) else { return Ok(None) };
    let space = space.to_owned();
    Ok(Some(match column::<Option<i64>>(row, 8)? {
        Some(revision) => {
            let revision = u64::try_from(revision).unwrap_or_default();
            FeedWrite::Document { collection, id, space, before: column(row, 7)?, revision }
        }
        None => FeedWrite::Removal { collection, id, space },
    }))
}

/// Returns the erased record.
fn record_of(row: &Row<'_>) -> Result<RecordId> {
    let id = text(row, 5)?;
    match optional_text(row, 4)? {
        None => MemoryId::parse(id).map(RecordId::from),
        Some(collection) => Ok((Collection::parse(collection)?, DocumentId::parse(id)?).into()),
    }
}

/// Draws a random number that is not 0.
fn new_epoch() -> i64 {
    let [.., a, b, c, d, e, f, g] = *MemoryId::generate().as_bytes();
    // Positive, because the first byte is 0; not 0, because the last bit is set.
    i64::from_be_bytes([0, a, b, c, d, e, f, g]) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Session {
        let connection = Connection::open_in_memory().expect("opens");
        let wanted = ["ledger", "writers", migrations::FEED, migrations::ERASURE];
        let steps = migrations::sqlite().iter().filter(|step| wanted.contains(&step.name));
        let bookkeeping =
            "CREATE TABLE schema_migrations (version INTEGER, name TEXT, checksum TEXT, complete INTEGER)";
        let texts = [bookkeeping].into_iter().chain(steps.map(|step| step.text));
        texts.for_each(|text| connection.execute_batch(text).expect("the tables"));
        Session::new(connection)
    }

    /// Appends what was noted, as a transaction does.
    fn write(session: &mut Session, feed: &mut Feed) {
        feed.write(&session.connection).expect("written");
        feed.clear();
    }

    fn count(session: &Session) -> i64 {
        session.connection.query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).expect("a number")
    }

    #[test]
    fn what_follows_one_another_is_one_row() {
        let mut feed = Feed::default();
        [7, 8, 9, 8, 9, 10, 12, 3].into_iter().for_each(|seq| feed.note_memory(seq));
        let rows = [(7, 10), (12, 12), (3, 3)].map(|(first, last)| Noted::Memories { first, last });
        assert_eq!(feed.noted, rows);
    }

    #[test]
    fn the_oldest_rows_go_in_slices_and_the_newest_stay() {
        let (mut session, mut feed) = (opened(), Feed::default());
        for seq in 0..3_500 {
            // No number follows the one before.
            feed.note_memory(-2 * seq);
        }
        write(&mut session, &mut feed);
        let newest = newest(&session.connection).expect("a place");
        let mut left = vec![count(&session)];
        while !trim(&mut session, 700).expect("trimmed") {
            left.push(count(&session));
        }
        assert_eq!((left, count(&session)), (vec![3_500, 2_500, 1_500], 700));
        assert_eq!(super::newest(&session.connection).expect("a place"), newest);
        assert!(changes(&session.connection, &newest, 1).is_ok());
    }

    /// A backup is restored into the file while a program goes on.
    #[test]
    fn rows_in_the_place_of_lost_ones_are_known() {
        let (mut session, mut feed) = (opened(), Feed::default());
        let mut places = Vec::new();
        for seq in [1, 3, 5, 7] {
            feed.note_memory(seq);
            write(&mut session, &mut feed);
            places.push(newest(&session.connection).expect("a place"));
        }
        session.connection.execute("DELETE FROM changes WHERE seq > 2", []).expect("gone back");
        for seq in [9, 11, 13] {
            feed.note_memory(seq);
            write(&mut session, &mut feed);
        }
        let is_there = places.iter().map(|place| changes(&session.connection, place, 1).is_ok());
        assert_eq!(is_there.collect::<Vec<_>>(), [true, true, false, false]);
    }

    /// A damaged row hides no other, whichever page it is on.
    #[test]
    fn a_damaged_row_is_passed_over() {
        let (mut session, mut feed) = (opened(), Feed::default());
        let connection = |session: &Session, sql: &str| session.connection.execute(sql, []).expect("done");
        let begin = newest(&session.connection).expect("a place");
        for seq in 1..=20 {
            let memory = "INSERT INTO memories (seq, id, slot, status, revision, space_id, metadata, trigger)
                VALUES (?1, CAST(printf('%016d', ?1) AS BLOB), ?1, 'completed', 1, 'a', '{}', '1')";
            session.connection.execute(memory, [seq]).expect("stored");
            feed.note_memory(seq);
            if seq >= 19 {
                write(&mut session, &mut feed);
            }
        }
        connection(&session, "UPDATE memories SET id = x'00' WHERE seq = 3");
        connection(&session, "UPDATE memories SET space_id = CAST(x'ff41' AS TEXT) WHERE seq IN (4, 11)");
        for most in [1, 2, 3, 7, 100] {
            let (mut place, mut told) = (begin.clone(), Vec::new());
            loop {
                let page = changes(&session.connection, &place, most).expect("a page");
                told.extend(page.entries.iter().filter_map(|entry| match &entry.write {
                    FeedWrite::Memory { id, .. } => str::from_utf8(id.as_bytes()).ok()?.parse::<u8>().ok(),
                    _ => None,
                }));
                if page.is_end {
                    break;
                }
                assert!(page.reached > place, "a page that does not come on");
                place = page.reached;
            }
            let due: Vec<_> = (1..=20).filter(|seq| ![3, 4, 11].contains(seq)).collect();
            assert_eq!(told, due, "by pages of {most}");
        }
    }
}
