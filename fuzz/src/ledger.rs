//! The data of the targets' servers and tools: records that a caller may see, and others.

use std::sync::Arc;

use memory_core::{
    Collection, Content, DocumentId, DocumentQuery, DocumentWrite, Filter, IdempotencyKey, InMemory, Memory, MemoryId,
    MemoryProvider, MemoryQuery, NewMemory, Result, Revision, SpaceId, Timestamp,
};

/// Stands in every value of every record outside of guild1, and nowhere else.
pub(crate) const SECRET: &str = "xq9vsealed";

const THEIRS: MemoryId = MemoryId::from_bytes([9; 16]);

/// A provider with records in guild1 and in another guild.
pub(crate) async fn ledger() -> Result<Arc<dyn MemoryProvider>> {
    let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
    provider.init().await?;
    let cat = r#"{"speaker":"Ana","text":"I adopted a cat <x-cat>"}"#;
    let bird = r#"{"speaker":"Bo","text":"The birds left"}"#;
    let theirs = format!(r#"{{"speaker":"{SECRET}","text":"My birthday {SECRET}"}}"#);
    let memories = vec![
        memory(1, "guild1-general-m1", cat, r#"{"topic":"pets","tags":["news"]}"#, "k1")?,
        memory(2, "guild1-bot-m2", bird, "{}", "k2")?,
        memory(9, &format!("guild2-{SECRET}"), &theirs, &format!(r#"{{"topic":"{SECRET}"}}"#), SECRET)?,
    ];
    provider.restore(memories).await?;
    let documents = provider.documents();
    documents.put(document("cat", "guild1", "Ana has a cat")?).await?;
    documents.put(document("bird", "guild1-bot", "Bo has a <x-bird>")?).await?;
    documents.put(document(SECRET, &format!("guild2-{SECRET}"), &format!("A cat of {SECRET}"))?).await?;
    Ok(provider)
}

/// Asserts that nothing outside of guild1 was changed.
pub(crate) async fn assert_untouched(provider: &dyn MemoryProvider) -> Result<()> {
    let memory = provider.get(THEIRS).await?.expect("the memory of the other guild");
    assert_eq!(memory.revision, Revision::FIRST, "the memory of the other guild was changed");
    let outside = Filter::under(&SpaceId::parse("guild1")?).negate();
    let memories = provider.query(&MemoryQuery::builder().all().filter(outside.clone()).build()?).await?.memories;
    assert_eq!(memories.len(), 1, "a memory outside");
    for collection in provider.documents().collections().await? {
        let query = DocumentQuery::builder(collection).all().filter(outside.clone()).build()?;
        for document in provider.documents().query(&query).await?.documents {
            let is_theirs = document.id.as_str() == SECRET && document.content.as_str().contains(SECRET);
            assert!(is_theirs, "a document outside");
        }
    }
    Ok(())
}

fn memory(number: u8, space: &str, trigger: &str, metadata: &str, key: &str) -> Result<Memory> {
    let at = Timestamp::from_millis(1_700_000_000_000 + i64::from(number))?;
    let memory = NewMemory::new(SpaceId::parse(space)?, trigger.parse()?, at).with_metadata(metadata.parse()?);
    Ok(memory.with_idempotency_key(IdempotencyKey::parse(key)?).into_memory(MemoryId::from_bytes([number; 16])))
}

fn document(id: &str, space: &str, content: &str) -> Result<DocumentWrite> {
    let (notes, at) = (Collection::parse("notes")?, Timestamp::from_millis(1_700_000_000_000)?);
    let write = DocumentWrite::new(notes, SpaceId::parse(space)?, Content::parse(content)?, at);
    Ok(write.with_id(DocumentId::parse(id)?))
}
