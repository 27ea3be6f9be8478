//! The history: a list for each record that was changed, to which the script of each write adds an entry.
//!
//! An entry begins with its kind, revision, time and actor, encoded like the numbers and texts of a row; the rest is
//! the difference to the version before. The scripts cut it into pieces of at most 64 KiB; all pieces but the first
//! begin with a zero byte. Each piece is a list element, and the place of an entry is that of its first piece.

use memory_core::engine::{HistoryRow, VersionEntry};
use memory_core::{Actor, Error, RecordId, Result};
use redis::{Pipeline, Value};

use crate::connection::{Connections, command};
use crate::rows::{self, Reader};
use crate::statements::{Kept, Keys, decoded};

/// Number of elements that are read at once: at most about 4 MiB.
const READ: u64 = 64;
/// The first byte of a piece that continues an entry.
const PIECE: u8 = 0;
const WRITE: u8 = 1;
const REMOVAL: u8 = 2;

/// Encodes the history entry of a write.
pub(crate) fn kept(keys: &Keys, of: &RecordId, entry: &VersionEntry) -> Kept {
    let VersionEntry { revision, at, actor, is_removal, before } = entry;
    let actor = actor.as_ref().map(Actor::as_str);
    // The kind, three numbers, and the length of the actor.
    let mut bytes = Vec::with_capacity(24 + actor.map_or(0, str::len) + before.len());
    bytes.push(if *is_removal { REMOVAL } else { WRITE });
    rows::push(&mut bytes, revision.get());
    rows::push(&mut bytes, rows::since_earliest(*at));
    rows::push_text(&mut bytes, actor);
    bytes.extend(before);
    Kept { history: keys.history(of), entry: bytes }
}

/// Returns the next entries of a record below a place, newest first.
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
        // All of these are pieces of one entry.
        if slice.start == 0 {
            return Err(Error::corrupt("an entry of a history has no beginning"));
        }
        let mut earlier = Slice::read(on, &key, slice.start.saturating_sub(READ), slice.start).await?;
        earlier.elements.append(&mut slice.elements);
        slice = earlier;
    }
}

/// Adjacent elements of a list.
struct Slice {
    /// The place of the first element.
    start: u64,
    elements: Vec<Vec<u8>>,
}

impl Slice {
    /// Reads the last elements, at most `count`.
    async fn newest(on: &Connections, key: &[u8], count: u64) -> Result<Self> {
        if count == 0 {
            return Ok(Self { start: 0, elements: Vec::new() });
        }
        // In one transaction, so that the length matches the elements.
        let mut commands = Pipeline::with_capacity(4);
        commands.cmd("MULTI").cmd("LLEN").arg(key).cmd("LRANGE").arg(key).arg(-(count as i64)).arg(-1).cmd("EXEC");
        let answer = on.read(&commands).await?.pop().unwrap_or(Value::Nil);
        let (length, elements): (u64, Vec<Vec<u8>>) = decoded(answer)?;
        Ok(Self { start: length.saturating_sub(elements.len() as u64), elements })
    }

    /// Reads the elements from one place up to another. Elements never change.
    async fn read(on: &Connections, key: &[u8], start: u64, end: u64) -> Result<Self> {
        if start >= end {
            return Ok(Self { start, elements: Vec::new() });
        }
        let (first, last) = (start.to_string(), (end - 1).to_string());
        let elements = on.read_one(&command("LRANGE", &[key, first.as_bytes(), last.as_bytes()])).await?;
        Ok(Self { start, elements })
    }

    /// Decodes the last entries whose pieces are all in the slice, newest first.
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

/// Decodes the entry of some pieces.
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
    // A revision that does not fit becomes 0, which is invalid.
    let revision = i64::try_from(revision).unwrap_or_default();
    VersionEntry::from_stored(revision, at.as_millis(), actor, is_removal, before)
}
