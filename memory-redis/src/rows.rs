//! The binary form of a row: one string for each memory and each document.
//!
//! A head of [`HEAD`] bytes, by which scripts tell which version of a row they meet; then revision, createdAt, updatedAt and
//! status; then the texts, each behind its length. Numbers are big-endian.

use memory_core::engine::{Found, StoredDocument, StoredMemory, corrupt};
use memory_core::{
    Collection, Context, Document, Error, Head, IdempotencyKey, Memory, MemoryId, Result, Revision, Status, Timestamp,
};
use uuid::Uuid;

/// The form that this program writes.
const FORM: u8 = 1;
/// The form, and a token that is new with each write: two versions of a row never share a head.
pub(crate) const HEAD: usize = 9;
/// In place of a length or a time: there is none.
const NO_TEXT: u32 = u32::MAX;
const NO_TIME: i64 = i64::MIN;
/// In place of a status, which documents don't have.
const NO_STATUS: u8 = u8::MAX;

/// The head of a row, which scripts compare.
pub(crate) type Version = [u8; HEAD];

/// A row for the next write of this memory.
pub(crate) fn from_memory(memory: &Memory) -> Vec<u8> {
    let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
    let context = memory.context.as_ref().map(Context::as_str);
    // Statuses are never taken out of the list, nor moved in it.
    let status = Status::ALL.iter().position(|status| *status == memory.status).unwrap_or(NO_STATUS.into());
    row(
        (memory.revision, memory.created_at, memory.updated_at, status as u8),
        [Some(memory.space_id.as_str()), Some(memory.metadata.as_str()), key, Some(memory.trigger.as_str()), context],
    )
}

/// A row for the next write of this document; its id and collection are in its key.
pub(crate) fn from_document(document: &Document) -> Vec<u8> {
    row(
        (document.revision, document.created_at, document.updated_at, NO_STATUS),
        [Some(document.space_id.as_str()), Some(document.metadata.as_str()), Some(document.content.as_str())],
    )
}

/// The head of a row, or what there is of it.
pub(crate) fn head(row: &[u8]) -> &[u8] {
    &row[..row.len().min(HEAD)]
}

/// What can be told of a record before its payload is read.
pub(crate) fn read_head<'r>(id: &'r [u8], row: &'r [u8]) -> Result<Head<'r>> {
    let mut row = Reader::of(row)?;
    let facts = row.facts()?;
    let created_at = Timestamp::from_millis(facts.created_at).map_err(corrupt)?;
    Ok(Head { id, created_at, status: facts.status, space: row.text()? })
}

/// The memory in a row.
pub(crate) fn memory(id: &[u8], row: &[u8]) -> Result<Memory> {
    let mut row = Reader::of(row)?;
    let Facts { revision, created_at, updated_at, status } = row.facts()?;
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
    };
    stored.read()
}

/// The document in a row.
pub(crate) fn document(collection: &Collection, id: &[u8], row: &[u8]) -> Result<Document> {
    let id = std::str::from_utf8(id).map_err(|_| Error::corrupt("a stored id is not UTF-8"))?;
    let mut row = Reader::of(row)?;
    let Facts { revision, created_at, updated_at, .. } = row.facts()?;
    let (collection, space_id, metadata, content) = (collection.as_str(), row.text()?, row.text()?, row.text()?);
    StoredDocument { id, collection, created_at, updated_at, revision, space_id, metadata, content }.read()
}

/// A record with the version of its row.
pub(crate) fn found<T>(record: Result<T>, row: &[u8]) -> Result<Found<T, Version>> {
    let version = *row.first_chunk().ok_or_else(cut)?;
    Ok(Found { record: record?, version })
}

/// The id of a memory in an index.
pub(crate) fn memory_id(id: &[u8]) -> Result<MemoryId> {
    let id = <[u8; 16]>::try_from(id).map_err(|_| Error::corrupt("a stored id is not a UUID"))?;
    Ok(MemoryId::from_bytes(id))
}

/// What a row begins with behind its head, as it is stored.
struct Facts {
    revision: i64,
    created_at: i64,
    updated_at: Option<i64>,
    status: Option<Status>,
}

fn row<const N: usize>(
    (revision, created_at, updated_at, status): (Revision, Timestamp, Option<Timestamp>, u8),
    texts: [Option<&str>; N],
) -> Vec<u8> {
    let bytes: usize = texts.iter().flatten().map(|text| text.len()).sum();
    let mut row = Vec::with_capacity(HEAD + 25 + 4 * N + bytes);
    row.push(FORM);
    // The second half of an id is random.
    row.extend(&Uuid::now_v7().as_bytes()[8..]);
    row.extend(revision.get().to_be_bytes());
    row.extend(created_at.as_millis().to_be_bytes());
    row.extend(updated_at.map_or(NO_TIME, Timestamp::as_millis).to_be_bytes());
    row.push(status);
    for text in texts {
        // No text of the contract is longer than 8 MiB.
        row.extend(text.map_or(NO_TEXT, |text| text.len() as u32).to_be_bytes());
        row.extend(text.unwrap_or_default().as_bytes());
    }
    row
}

/// Reads a row from its start to its end.
struct Reader<'r>(&'r [u8]);

impl<'r> Reader<'r> {
    fn of(row: &'r [u8]) -> Result<Self> {
        match row.first() {
            Some(&FORM) if row.len() > HEAD => Ok(Self(&row[HEAD..])),
            _ => Err(Error::corrupt("a stored row has no form that this program knows")),
        }
    }

    fn facts(&mut self) -> Result<Facts> {
        let [revision, created_at, updated_at] = [self.number()?, self.number()?, self.number()?];
        let [status] = self.take()?;
        let known = Status::ALL.get(usize::from(status)).copied();
        if known.is_none() && status != NO_STATUS {
            return Err(Error::corrupt("a stored row has an unknown status"));
        }
        Ok(Facts { revision, created_at, updated_at: Some(updated_at).filter(|time| *time != NO_TIME), status: known })
    }

    fn number(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<&'r str> {
        self.optional_text()?.ok_or_else(cut)
    }

    fn optional_text(&mut self) -> Result<Option<&'r str>> {
        let length = u32::from_be_bytes(self.take()?);
        if length == NO_TEXT {
            return Ok(None);
        }
        let (text, rest) = self.0.split_at_checked(length as usize).ok_or_else(cut)?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| Error::corrupt("a stored text is not UTF-8"))?;
        Ok(Some(text))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*bytes)
    }
}

fn cut() -> Error {
    Error::corrupt("a stored row lacks a part")
}

#[cfg(test)]
mod tests {
    use memory_core::{ErrorKind, Metadata, SpaceId, Trigger};

    use super::*;

    fn full_memory() -> Memory {
        Memory {
            id: MemoryId::from_bytes([7; 16]),
            space_id: SpaceId::parse("a-b").expect("valid"),
            trigger: Trigger::parse(r#"{"text":"é"}"#).expect("valid"),
            context: Some(Context::parse("null").expect("valid")),
            created_at: Timestamp::MIN,
            updated_at: Some(Timestamp::MAX),
            metadata: Metadata::parse(r#"{"k":1}"#).expect("valid"),
            status: Status::Observed,
            revision: Revision::MAX,
            idempotency_key: Some(IdempotencyKey::parse("k").expect("valid")),
        }
    }

    #[test]
    fn rows_come_back_and_no_two_writes_share_a_head() {
        let full = full_memory();
        let plain = Memory { context: None, updated_at: None, idempotency_key: None, ..full.clone() };
        for expected in [full, plain] {
            let (row, again) = (from_memory(&expected), from_memory(&expected));
            assert_eq!(memory(expected.id.as_bytes(), &row).expect("readable"), expected);
            assert_eq!(read_head(expected.id.as_bytes(), &row).expect("readable").space, "a-b");
            assert_ne!(head(&row), head(&again));
            assert_eq!(row[HEAD..], again[HEAD..]);
        }
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_corrupt() {
        let row = from_memory(&full_memory());
        for end in 0..row.len() {
            let error = memory(&[7; 16], &row[..end]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "after {end} bytes");
        }
        assert_eq!(read_head(&[], b"{\"cut").expect_err("no row").kind(), ErrorKind::Corrupt);
    }
}
