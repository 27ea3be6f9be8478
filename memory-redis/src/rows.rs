//! The binary form of a row: one string for each memory and each document.
//!
//! A head of [`HEAD`] bytes, by which scripts tell which version of a row they meet; then revision, createdAt, updatedAt and
//! status; then the texts, each behind its length. Numbers are big-endian.

use memory_core::{
    Collection, Content, Context, Document, DocumentId, Error, ErrorKind, Head, IdempotencyKey, Memory, MemoryId,
    Metadata, Result, Revision, SpaceId, Status, Timestamp, Trigger,
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

/// What scripts compare.
pub(crate) fn head(row: &[u8]) -> &[u8] {
    &row[..row.len().min(HEAD)]
}

/// What can be told of a record before its payload is read.
pub(crate) fn read_head<'r>(id: &'r [u8], row: &'r [u8]) -> Result<Head<'r>> {
    let mut row = Reader::of(row)?;
    let (_, created_at, _, status) = row.facts()?;
    Ok(Head { id, created_at, status, space: row.text()? })
}

/// The memory in a row.
pub(crate) fn memory(id: MemoryId, row: &[u8]) -> Result<Memory> {
    let mut row = Reader::of(row)?;
    let (revision, created_at, updated_at, status) = row.facts()?;
    Ok(Memory {
        id,
        created_at,
        updated_at,
        revision,
        status: status.ok_or_else(cut)?,
        space_id: SpaceId::parse(row.text()?).map_err(corrupt)?,
        metadata: Metadata::from_stored(row.text()?)?,
        idempotency_key: row.optional_text()?.map(IdempotencyKey::parse).transpose().map_err(corrupt)?,
        trigger: Trigger::from_stored(row.text()?)?,
        context: row.optional_text()?.map(Context::from_stored).transpose()?,
    })
}

/// The document in a row.
pub(crate) fn document(collection: &Collection, id: DocumentId, row: &[u8]) -> Result<Document> {
    let mut row = Reader::of(row)?;
    let (revision, created_at, updated_at, _) = row.facts()?;
    Ok(Document {
        id,
        collection: collection.clone(),
        created_at,
        updated_at,
        revision,
        space_id: SpaceId::parse(row.text()?).map_err(corrupt)?,
        metadata: Metadata::from_stored(row.text()?)?,
        content: Content::parse(row.text()?).map_err(corrupt)?,
    })
}

/// The id of a memory in an index.
pub(crate) fn memory_id(id: &[u8]) -> Result<MemoryId> {
    let id = <[u8; 16]>::try_from(id).map_err(|_| Error::corrupt("a stored id is not a UUID"))?;
    Ok(MemoryId::from_bytes(id))
}

type Facts<S> = (Revision, Timestamp, Option<Timestamp>, S);

fn row<const N: usize>((revision, created_at, updated_at, status): Facts<u8>, texts: [Option<&str>; N]) -> Vec<u8> {
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

    fn facts(&mut self) -> Result<Facts<Option<Status>>> {
        let revision = Revision::new(u64::from_be_bytes(self.take()?)).map_err(corrupt)?;
        let created_at = self.time()?.ok_or_else(cut)?;
        let updated_at = self.time()?;
        let [status] = self.take()?;
        let known = Status::ALL.get(usize::from(status)).copied();
        if known.is_none() && status != NO_STATUS {
            return Err(Error::corrupt("a stored row has an unknown status"));
        }
        Ok((revision, created_at, updated_at, known))
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        match i64::from_be_bytes(self.take()?) {
            NO_TIME => Ok(None),
            millis => Timestamp::from_millis(millis).map(Some).map_err(corrupt),
        }
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

/// A stored value that core refuses: its own kind would blame the caller.
fn corrupt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error,
        _ => Error::corrupt("a stored value breaks a rule of the contract").with_source(error),
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(memory(expected.id, &row).expect("readable"), expected);
            assert_eq!(read_head(expected.id.as_bytes(), &row).expect("readable").space, "a-b");
            assert_ne!(head(&row), head(&again));
            assert_eq!(row[HEAD..], again[HEAD..]);
        }
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_corrupt() {
        let row = from_memory(&full_memory());
        for end in 0..row.len() {
            let error = memory(MemoryId::from_bytes([7; 16]), &row[..end]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "after {end} bytes");
        }
        assert_eq!(read_head(&[], b"{\"cut").expect_err("no row").kind(), ErrorKind::Corrupt);
    }
}
