//! The binary format of a row: one string for each memory and each document.
//!
//! It begins with a head of [`HEAD`] bytes, by which scripts identify the version of a row. Then come revision,
//! createdAt, updatedAt and status; the expiry time, in a row that expires; the texts, each after its length; and, in a
//! memory stored since there is a history, the time of its store. Numbers are in LEB128: seven bits a byte, lowest
//! first, with the high bit set in all but the last byte.

use memory_core::engine::{Found, StoredDocument, StoredMemory, corrupt};
use memory_core::{
    Collection, Context, Document, Documents, Error, Head, IdempotencyKey, Ledger, Memory, Result, Revision, Selects,
    SpaceId, Status, Timestamp,
};
use uuid::Uuid;

/// The format of a row that does not expire.
const FORM: u8 = 2;
/// The format of a row that expires. Programs without expiry refuse to read it, because they would show it after its
/// time.
const EXPIRING_FORM: u8 = 3;
/// The format byte, and a token that is new with each write: two versions of a row never share a head.
pub(crate) const HEAD: usize = 9;
/// This many bytes of a row cover its space and everything before it: three numbers, the status, the expiry time, and a
/// length.
pub(crate) const LONGEST_HEAD: usize = HEAD + 5 * 10 + 1 + SpaceId::MAX_BYTES;
/// Number of rows that one command reads.
pub(crate) const ROWS: usize = 64;
/// Stored instead of a status for documents, which have none.
const NO_STATUS: u8 = u8::MAX;

/// Identifies a version of a row, and carries what the next version keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The head of the row, which scripts compare.
    pub(crate) head: [u8; HEAD],
    /// When the memory was stored, if the row has it.
    pub(crate) stored_at: Option<Timestamp>,
}

/// Encodes the row of a memory for its next write, with the time of its store, if known.
pub(crate) fn from_memory(memory: &Memory, stored_at: Option<Timestamp>) -> Vec<u8> {
    let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
    let context = memory.context.as_ref().map(Context::as_str);
    // Statuses are never removed from the list, nor reordered.
    let status = Status::ALL.iter().position(|status| *status == memory.status).unwrap_or(NO_STATUS.into());
    let mut row = row(
        (memory.revision, memory.created_at, memory.updated_at, status as u8, memory.expires_at),
        [Some(memory.space_id.as_str()), Some(memory.metadata.as_str()), key, Some(memory.trigger.as_str()), context],
    );
    // Older programs stop reading before this.
    push(&mut row, stored_at.map_or(0, |time| since_earliest(time) + 1));
    row
}

/// Encodes the row of a document for its next write; id and collection are in its key.
pub(crate) fn from_document(document: &Document) -> Vec<u8> {
    row(
        (document.revision, document.created_at, document.updated_at, NO_STATUS, document.expires_at),
        [Some(document.space_id.as_str()), Some(document.metadata.as_str()), Some(document.content.as_str())],
    )
}

/// Converts a row of version 1 to this format; a truncated row stays truncated. `None` if not even its numbers can be
/// read.
pub(crate) fn from_form_1(old: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = old.split_at_checked(HEAD).filter(|(head, _)| head.first() == Some(&1))?;
    let (numbers, rest) = rest.split_at_checked(24)?;
    let ([revision, created_at, updated_at], _) = numbers.as_chunks() else { return None };
    let (status, mut rest) = rest.split_first()?;
    let mut row = [&[FORM], &head[1..]].concat();
    let since = |time| i64::from_be_bytes(time).wrapping_sub(Timestamp::MIN.as_millis()) as u64;
    push(&mut row, u64::from_be_bytes(*revision));
    push(&mut row, since(*created_at));
    let is_absent = *updated_at == i64::MIN.to_be_bytes();
    push(&mut row, if is_absent { 0 } else { since(*updated_at).wrapping_add(1) });
    row.push(*status);
    while let Some((length, texts)) = rest.split_first_chunk() {
        // In version 1 an absent text had the highest length; here it has length 0.
        let length = u32::from_be_bytes(*length).wrapping_add(1);
        push(&mut row, length.into());
        let text;
        (text, rest) = texts.split_at((length.saturating_sub(1) as usize).min(texts.len()));
        row.extend(text);
    }
    Some(row)
}

/// Returns the head of a row, or as much of it as there is.
pub(crate) fn head(row: &[u8]) -> &[u8] {
    &row[..row.len().min(HEAD)]
}

/// Reads the fields that are known before the payload is read.
pub(crate) fn read_head<'r>(id: &'r [u8], row: &'r [u8]) -> Result<Head<'r>> {
    let (Facts { created_at, updated_at, status, expires_at, .. }, mut texts) = Reader::of(row)?;
    let time = |millis| Timestamp::from_millis(millis).map_err(corrupt);
    Ok(Head {
        id,
        space: texts.text()?,
        created_at: time(created_at)?,
        updated_at: updated_at.map(time).transpose()?,
        status,
        expires_at: expires_at.map(time).transpose()?,
        is_over: false,
    })
}

/// A kind of record that rows store: memories, or the documents of a collection.
pub(crate) trait Stored: Selects {
    /// Decodes a row.
    fn read(of: Option<&Collection>, id: &[u8], row: &[u8]) -> Result<Held<Self::Record>>;
}

/// The contents of a row.
#[derive(Debug)]
pub(crate) struct Held<T> {
    /// The record.
    pub(crate) record: T,
    /// When the record was stored, if the row has it.
    pub(crate) stored_at: Option<Timestamp>,
}

impl Stored for Ledger {
    fn read(_: Option<&Collection>, id: &[u8], row: &[u8]) -> Result<Held<Memory>> {
        let (Facts { revision, created_at, updated_at, status, expires_at }, mut row) = Reader::of(row)?;
        let (space_id, metadata, idempotency_key) = (row.text()?, row.text()?, row.optional_text()?);
        let (status, trigger, context) = (status.ok_or_else(cut)?.as_str(), row.text()?, row.optional_text()?);
        let stored = StoredMemory {
            id,
            created_at,
            updated_at,
            revision,
            status,
            space_id,
            idempotency_key,
            metadata,
            trigger,
            context,
            expires_at,
        };
        // Rows of older programs end before this.
        let stored_at = if row.is_at_end() { 0 } else { row.number()? };
        let stored_at = stored_at.checked_sub(1).map(time_since_earliest).transpose()?;
        Ok(Held { record: stored.read()?, stored_at })
    }
}

impl Stored for Documents {
    fn read(of: Option<&Collection>, id: &[u8], row: &[u8]) -> Result<Held<Document>> {
        let id = std::str::from_utf8(id).map_err(|_| Error::corrupt("a stored id is not UTF-8"))?;
        let (Facts { revision, created_at, updated_at, expires_at, .. }, mut row) = Reader::of(row)?;
        let (space_id, metadata, content) = (row.text()?, row.text()?, row.text()?);
        let stored = StoredDocument {
            id,
            collection: of.map_or("", Collection::as_str),
            created_at,
            updated_at,
            revision,
            space_id,
            metadata,
            content,
            expires_at,
        };
        Ok(Held { record: stored.read()?, stored_at: None })
    }
}

/// Decodes the record of a row, with the row's version.
pub(crate) fn found<K: Stored>(of: Option<&Collection>, id: &[u8], row: &[u8]) -> Result<Found<K::Record, Version>> {
    let head = *row.first_chunk().ok_or_else(cut)?;
    let Held { record, stored_at } = K::read(of, id, row)?;
    Ok(Found { record, version: Version { head, stored_at } })
}

/// The fields that follow the head, as they are stored.
struct Facts {
    revision: i64,
    created_at: i64,
    updated_at: Option<i64>,
    status: Option<Status>,
    expires_at: Option<i64>,
}

fn row<const N: usize>(
    (revision, created_at, updated_at, status, expires_at): (
        Revision,
        Timestamp,
        Option<Timestamp>,
        u8,
        Option<Timestamp>,
    ),
    texts: [Option<&str>; N],
) -> Vec<u8> {
    let bytes: usize = texts.iter().flatten().map(|text| text.len()).sum();
    let mut row = Vec::with_capacity(HEAD + 29 + 5 * N + bytes);
    row.push(if expires_at.is_some() { EXPIRING_FORM } else { FORM });
    // The second half of a UUID is random.
    row.extend(&Uuid::now_v7().as_bytes()[8..]);
    push(&mut row, revision.get());
    push(&mut row, since_earliest(created_at));
    // Optional numbers are stored plus 1; 0 means absent.
    push(&mut row, updated_at.map_or(0, |time| since_earliest(time) + 1));
    row.push(status);
    // Present only in the expiring format, so that it costs nothing otherwise.
    expires_at.into_iter().for_each(|time| push(&mut row, since_earliest(time)));
    texts.into_iter().for_each(|text| push_text(&mut row, text));
    row
}

/// Encodes a time as milliseconds since the earliest one.
pub(crate) fn since_earliest(time: Timestamp) -> u64 {
    (time.as_millis() - Timestamp::MIN.as_millis()) as u64
}

/// Decodes milliseconds since the earliest time.
pub(crate) fn time_since_earliest(millis: u64) -> Result<Timestamp> {
    Timestamp::from_millis(Timestamp::MIN.as_millis().saturating_add_unsigned(millis)).map_err(corrupt)
}

/// Encodes a time in six bytes that sort like the times.
pub(crate) fn time(millis: i64) -> [u8; 6] {
    let [_, _, time @ ..] = (millis - Timestamp::MIN.as_millis()).to_be_bytes();
    time
}

pub(crate) fn push(row: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        row.push(number as u8 | 0x80);
        number >>= 7;
    }
    row.push(number as u8);
}

/// Appends a text after its length, or a mark that it is absent.
pub(crate) fn push_text(row: &mut Vec<u8>, text: Option<&str>) {
    push(row, text.map_or(0, |text| text.len() as u64 + 1));
    row.extend(text.unwrap_or_default().as_bytes());
}

/// Reads a row, a history entry or a tombstone from start to end.
pub(crate) struct Reader<'r>(pub(crate) &'r [u8]);

impl<'r> Reader<'r> {
    /// Reads the fields before the texts; returns a reader of the texts.
    fn of(row: &'r [u8]) -> Result<(Facts, Self)> {
        let is_expiring = match row.first() {
            Some(&FORM) if row.len() > HEAD => false,
            Some(&EXPIRING_FORM) if row.len() > HEAD => true,
            _ => return Err(Error::corrupt("a stored row has no form that this program knows")),
        };
        let mut reader = Self(&row[HEAD..]);
        let facts = reader.facts(is_expiring)?;
        Ok((facts, reader))
    }

    fn facts(&mut self, is_expiring: bool) -> Result<Facts> {
        let [revision, created_at, updated_at] = [self.number()?, self.number()?, self.number()?];
        let [status] = self.take()?;
        let known = Status::ALL.get(usize::from(status)).copied();
        if known.is_none() && status != NO_STATUS {
            return Err(Error::corrupt("a stored row has an unknown status"));
        }
        let time = |since_earliest| Timestamp::MIN.as_millis().saturating_add_unsigned(since_earliest);
        let updated_at = updated_at.checked_sub(1).map(time);
        let expires_at = if is_expiring { Some(time(self.number()?)) } else { None };
        Ok(Facts { revision: revision as i64, created_at: time(created_at), updated_at, status: known, expires_at })
    }

    /// Reads a time in the encoding of [`since_earliest`].
    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        time_since_earliest(self.number()?)
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for place in (0..u64::BITS).step_by(7) {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7f) << place;
            if byte <= 0x7f {
                return Ok(number);
            }
        }
        Err(cut())
    }

    pub(crate) fn text(&mut self) -> Result<&'r str> {
        self.optional_text()?.ok_or_else(cut)
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<&'r str>> {
        let Some(length) = self.number()?.checked_sub(1) else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_| cut())?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| Error::corrupt("a stored text is not UTF-8"))?;
        Ok(Some(text))
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

fn cut() -> Error {
    Error::corrupt("a stored row or entry lacks a part")
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::{Content, DocumentId, MemoryId, Metadata, NewMemory, Trigger};

    fn time(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).expect("a time")
    }

    fn memory(expires_at: Option<Timestamp>) -> Memory {
        let space = SpaceId::parse("a-b").expect("a space");
        let trigger = Trigger::parse(r#"{"text":"an event"}"#).expect("a trigger");
        let mut memory = NewMemory::new(space, trigger, time(-5)).into_memory(MemoryId::generate());
        memory.expires_at = expires_at;
        memory
    }

    fn document(expires_at: Option<Timestamp>) -> Document {
        Document {
            id: DocumentId::parse("1").expect("an id"),
            collection: Collection::parse("notes").expect("a name"),
            space_id: SpaceId::parse("a".repeat(SpaceId::MAX_BYTES)).expect("a space"),
            content: Content::parse("text").expect("a text"),
            metadata: Metadata::default(),
            created_at: time(1),
            updated_at: Some(Timestamp::MAX),
            revision: Revision::FIRST,
            expires_at,
        }
    }

    #[test]
    fn a_time_of_expiry_is_read_as_it_was_written() {
        for expires_at in [None, Some(Timestamp::MIN), Some(time(0)), Some(Timestamp::MAX)] {
            let (memory, document) = (memory(expires_at), document(expires_at));
            let (id, collection) = (*memory.id.as_bytes(), document.collection.clone());
            let row = from_memory(&memory, Some(time(3)));
            let held = Ledger::read(None, &id, &row).expect("it can be read");
            assert_eq!((held.record, held.stored_at), (memory.clone(), Some(time(3))));
            let head = read_head(&id, &row).expect("a head");
            assert_eq!((head.expires_at, head.updated_at, head.is_over), (expires_at, None, false));
            assert_eq!((head.space, head.status), ("a-b", Some(memory.status)));

            let row = from_document(&document);
            let held = Documents::read(Some(&collection), b"1", &row).expect("it can be read");
            assert_eq!(held.record, document);
            let head = read_head(b"1", &row[..row.len().min(LONGEST_HEAD)]).expect("a head");
            assert_eq!((head.expires_at, head.updated_at), (expires_at, Some(Timestamp::MAX)));
            assert_eq!(head.space, document.space_id.as_str());
        }
    }

    #[test]
    fn a_row_without_a_time_of_expiry_is_what_it_was_before_there_were_any() {
        let (without, with) = (from_memory(&memory(None), None), from_memory(&memory(Some(time(0))), None));
        assert_eq!((without[0], with[0]), (2, 3));
        // Seven bits of a time are a byte.
        assert_eq!(without.len() + 7, with.len());
        let (without, with) = (from_document(&document(None)), from_document(&document(Some(time(0)))));
        assert_eq!((without[0], with[0]), (2, 3));
        assert_eq!(without.len() + 7, with.len());
    }
}
