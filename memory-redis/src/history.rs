//! The history: for each record that was changed a list, to which the script of each write adds an entry.
//!
//! An entry begins with its kind, its revision, its time and its actor, in the numbers and texts of a row; the rest makes the version before.
//! The scripts cut it into pieces of at most 64 KiB, of which all but the first begin with a zero byte. Each piece is an element of the list,
//! and the place of an entry that of its first piece.

use memory_core::engine::{HistoryRow, VersionEntry};
use memory_core::{Actor, Error, RecordId, Result};
use redis::{Pipeline, Value};

use crate::connection::{Connections, command, decoded};
use crate::rows::{self, Reader};
use crate::statements::{Kept, Keys};

/// How many elements are read at once: some 4 MiB at most.
const READ: u64 = 64;
/// What a piece begins with that goes on with an entry.
const PIECE: u8 = 0;
const WRITE: u8 = 1;
const REMOVAL: u8 = 2;

/// What a write leaves in the history of a record.
pub(crate) fn kept(keys: &Keys, of: &RecordId, entry: &VersionEntry) -> Kept {
    let VersionEntry { revision, at, actor, is_removal, before } = entry;
    let actor = actor.as_ref().map(Actor::as_str);
    // A kind, three numbers, and the length of an actor.
    let mut bytes = Vec::with_capacity(24 + actor.map_or(0, str::len) + before.len());
    bytes.push(if *is_removal { REMOVAL } else { WRITE });
    rows::push(&mut bytes, revision.get());
    rows::push(&mut bytes, rows::since_earliest(*at));
    rows::push_text(&mut bytes, actor);
    bytes.extend(before);
    Kept { history: keys.history(of), entry: bytes }
}

/// The next entries of a record below a place, newest first.
pub(crate) async fn rows_of(on: &Connections, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
    let (key, count) = (on.keys.history(of), READ.min(most as u64));
    let mut slice = match below {
        u64::MAX => Slice::newest(on, &key, count).await?,
        _ => Slice::read(on, &key, below.saturating_sub(count), below).await?,
    };
    loop {
        let rows = slice.rows(most)?;
        if !rows.is_empty() || slice.elements.is_empty() {
            return Ok(rows);
        }
        // These are pieces of one entry.
        if slice.start == 0 {
            return Err(Error::corrupt("an entry of a history has no beginning"));
        }
        let mut earlier = Slice::read(on, &key, slice.start.saturating_sub(READ), slice.start).await?;
        earlier.elements.append(&mut slice.elements);
        slice = earlier;
    }
}

/// Elements of a list that stand side by side.
struct Slice {
    /// The place of the first one.
    start: u64,
    elements: Vec<Vec<u8>>,
}

impl Slice {
    /// The last elements, at most so many.
    async fn newest(on: &Connections, key: &[u8], count: u64) -> Result<Self> {
        if count == 0 {
            return Ok(Self { start: 0, elements: Vec::new() });
        }
        // At once, so that one tells the place of the other.
        let mut commands = Pipeline::with_capacity(4);
        commands.cmd("MULTI").cmd("LLEN").arg(key).cmd("LRANGE").arg(key).arg(-(count as i64)).arg(-1).cmd("EXEC");
        let answer = on.read(&commands).await?.pop().unwrap_or(Value::Nil);
        let (length, elements): (u64, Vec<Vec<u8>>) = decoded(answer)?;
        Ok(Self { start: length.saturating_sub(elements.len() as u64), elements })
    }

    /// The elements from a place up to another one. What stands in a place never changes.
    async fn read(on: &Connections, key: &[u8], start: u64, end: u64) -> Result<Self> {
        if start >= end {
            return Ok(Self { start, elements: Vec::new() });
        }
        let (first, last) = (start.to_string(), (end - 1).to_string());
        let elements = on.read_one(&command("LRANGE", &[key, first.as_bytes(), last.as_bytes()])).await?;
        Ok(Self { start, elements })
    }

    /// The last entries whose pieces are all here, newest first.
    fn rows(&self, most: usize) -> Result<Vec<HistoryRow>> {
        let (mut rows, mut end) = (Vec::new(), self.elements.len());
        for (place, element) in self.elements.iter().enumerate().rev() {
            if rows.len() == most {
                break;
            }
            if element.first() != Some(&PIECE) {
                let entry = read(element, &self.elements[place + 1..end])?;
                rows.push(HistoryRow { place: self.start + place as u64, entry });
                end = place;
            }
        }
        Ok(rows)
    }
}

/// The entry in some pieces.
fn read(first: &[u8], others: &[Vec<u8>]) -> Result<VersionEntry> {
    let mut reader = Reader(first);
    let is_removal = match reader.take()? {
        [WRITE] => false,
        [REMOVAL] => true,
        _ => return Err(Error::corrupt("an entry of a history has no kind that this program knows")),
    };
    let (revision, at, actor) = (reader.number()?, reader.time()?, reader.optional_text()?);
    let Reader(rest) = reader;
    let mut before = rest.to_vec();
    for piece in others {
        before.extend(piece.get(1..).unwrap_or_default());
    }
    // One that is too high is none.
    let revision = i64::try_from(revision).unwrap_or_default();
    VersionEntry::from_stored(revision, at.as_millis(), actor, is_removal, before)
}
