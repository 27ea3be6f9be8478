use std::sync::LazyLock;

use memory_core::filter::{MAX_FILTER_BYTES, RecordSource, Subject};
use memory_core::{
    Collection, Content, Document, DocumentId, ErrorKind, Filter, IdempotencyKey, Memory, MemoryId, NewMemory,
    Revision, SpaceId, Status, Timestamp,
};

use crate::accepted;

const METADATA: &str = r#"{"a":{"b c":null,"n":-1.5},"big":18446744073709551615,"flag":true,"list":[1,"news",2.0,null,[1]],"topic":"rust"}"#;

static MEMORY: LazyLock<Memory> = LazyLock::new(|| memory().expect("a memory"));
static DOCUMENT: LazyLock<Document> = LazyLock::new(|| document().expect("a document"));

/// A predicate: its written form parses back to it, and either it or its negation matches.
pub fn predicate(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(filter) = accepted(Filter::parse(text)) else { return };
    let written = filter.to_string();
    // The written form may be longer than the limit of a predicate.
    if written.len() <= MAX_FILTER_BYTES {
        assert_eq!(Filter::parse(&written).expect("what a filter is written as"), filter);
    }
    let negated = filter.clone().negate();
    for source in [RecordSource::Ledger, RecordSource::Documents] {
        let refused = filter.check(source).err().map(|error| error.kind());
        assert!(refused.is_none_or(|kind| kind == ErrorKind::InvalidInput), "the limits hold of what was read");
    }
    for subject in [Subject::from(&*MEMORY), Subject::from(&*DOCUMENT)] {
        assert_ne!(filter.matches(&subject), negated.matches(&subject));
    }
}

fn memory() -> memory_core::Result<Memory> {
    let trigger = r#"{"speaker":"Ana","text":"100% caf\u00e9, my birthday\nis on March 14"}"#.parse()?;
    let memory = NewMemory::new(SpaceId::parse("discord-guild1-ana-m1")?, trigger, Timestamp::from_millis(7)?);
    let memory = memory.with_metadata(METADATA.parse()?).with_status(Status::Completed);
    let memory = memory.with_idempotency_key(IdempotencyKey::parse("k1")?);
    Ok(memory.into_memory(MemoryId::from_bytes([7; 16])))
}

fn document() -> memory_core::Result<Document> {
    Ok(Document {
        id: DocumentId::parse("people/ana b")?,
        collection: Collection::parse("notes")?,
        space_id: SpaceId::parse("discord-guild1-ana")?,
        content: Content::parse("Ana has a cat_\n")?,
        metadata: METADATA.parse()?,
        created_at: Timestamp::from_millis(1_700_000_000_000)?,
        updated_at: Some(Timestamp::from_millis(1_700_000_000_001)?),
        revision: Revision::new(2)?,
        expires_at: None,
    })
}
