//! Converts stored values back to records.

use crate::{
    Collection, Content, Context, Document, DocumentId, Error, ErrorKind, IdempotencyKey, Memory, MemoryId, Metadata,
    Result, Revision, SpaceId, Status, Timestamp, Trigger,
};

/// The values of a memory as an engine stores them.
#[derive(Debug, Clone, Copy)]
pub struct StoredMemory<'r> {
    /// The id: 16 bytes.
    pub id: &'r [u8],
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970; `None` before the first update.
    pub updated_at: Option<i64>,
    /// The revision, 1 or more.
    pub revision: i64,
    /// The lower-case name of the status.
    pub status: &'r str,
    /// The id of the space.
    pub space_id: &'r str,
    /// The idempotency key.
    pub idempotency_key: Option<&'r str>,
    /// The metadata as canonical JSON.
    pub metadata: &'r str,
    /// The trigger as JSON.
    pub trigger: &'r str,
    /// The context as JSON, if set.
    pub context: Option<&'r str>,
    /// Milliseconds since 1970; `None` for never.
    pub expires_at: Option<i64>,
}

impl StoredMemory<'_> {
    /// Converts the values to a memory. `Corrupt` if one breaks a rule of the contract.
    pub fn read(&self) -> Result<Memory> {
        let id = <[u8; 16]>::try_from(self.id).map_err(|_| Error::corrupt("a stored id has not 16 bytes"))?;
        Ok(Memory {
            id: MemoryId::from_bytes(id),
            space_id: SpaceId::parse(self.space_id).map_err(corrupt)?,
            trigger: Trigger::from_stored(self.trigger)?,
            context: self.context.map(Context::from_stored).transpose()?,
            created_at: time(self.created_at)?,
            updated_at: self.updated_at.map(time).transpose()?,
            metadata: Metadata::from_stored(self.metadata)?,
            status: Status::parse(self.status).map_err(|_| Error::corrupt("a stored status is unknown"))?,
            revision: revision(self.revision)?,
            idempotency_key: self.idempotency_key.map(IdempotencyKey::parse).transpose().map_err(corrupt)?,
            expires_at: self.expires_at.map(time).transpose()?,
        })
    }
}

/// The values of a document as an engine stores them.
#[derive(Debug, Clone, Copy)]
pub struct StoredDocument<'r> {
    /// The id in the collection.
    pub id: &'r str,
    /// The name of the collection.
    pub collection: &'r str,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Milliseconds since 1970; `None` before the first change.
    pub updated_at: Option<i64>,
    /// The revision, 1 or more.
    pub revision: i64,
    /// The id of the space.
    pub space_id: &'r str,
    /// The metadata as canonical JSON.
    pub metadata: &'r str,
    /// The content.
    pub content: &'r str,
    /// Milliseconds since 1970; `None` for never.
    pub expires_at: Option<i64>,
}

impl StoredDocument<'_> {
    /// Converts the values to a document. `Corrupt` if one breaks a rule of the contract.
    pub fn read(&self) -> Result<Document> {
        Ok(Document {
            id: DocumentId::parse(self.id).map_err(corrupt)?,
            collection: Collection::parse(self.collection).map_err(corrupt)?,
            space_id: SpaceId::parse(self.space_id).map_err(corrupt)?,
            content: Content::parse(self.content).map_err(corrupt)?,
            metadata: Metadata::from_stored(self.metadata)?,
            created_at: time(self.created_at)?,
            updated_at: self.updated_at.map(time).transpose()?,
            revision: revision(self.revision)?,
            expires_at: self.expires_at.map(time).transpose()?,
        })
    }
}

/// Turns the error of a stored value into `Corrupt`: its own kind would blame the caller.
pub fn corrupt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error,
        _ => Error::corrupt("a stored value breaks a rule of the contract").with_source(error),
    }
}

fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis).map_err(corrupt)
}

fn revision(number: i64) -> Result<Revision> {
    Revision::new(u64::try_from(number).unwrap_or_default()).map_err(corrupt)
}
