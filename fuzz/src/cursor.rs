use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memory_core::{
    Cursor, CursorKey, ErrorKind, Ledger, Memory, MemoryId, MemoryQuery, NewMemory, Order, PageBuilder, QueryBuilder,
    Result, SpaceId, Timestamp,
};

static KEY: LazyLock<CursorKey> = LazyLock::new(|| CursorKey::generate().expect("a key"));

/// A cursor, or changes to one: eight bytes of a time, sixteen of an id, then pairs of a changed position and its new
/// value. Only the sealed text continues a walk, and only for its own query.
pub fn cursor(data: &[u8]) {
    let own = || MemoryQuery::builder().all().limit(1);
    let text = String::from_utf8_lossy(data);
    assert_refused(own(), &text);
    let Some((time, rest)) = data.split_first_chunk::<8>() else { return };
    let Some((id, changes)) = rest.split_first_chunk::<16>() else { return };
    let Ok(created_at) = Timestamp::from_millis(i64::from_be_bytes(*time)) else { return };
    let memory = memory(created_at, MemoryId::from_bytes(*id)).expect("a memory");
    let Some(sealed) = sealed(own(), memory).expect("a page") else { return };
    let query = own().cursor(&sealed).build().expect("a query");
    let page = PageBuilder::new(&query, &KEY).expect("its own cursor");
    let after = page.after().expect("where it goes on");
    assert_eq!((after.created_at, &after.id[..]), (created_at, &id[..]));
    assert_refused(own().order(Order::OldestFirst), sealed.as_str());
    assert_refused(own().under("a"), sealed.as_str());
    assert_refused(own(), &format!("{text}{sealed}"));
    let bytes = URL_SAFE_NO_PAD.decode(sealed.as_str()).expect("base64");
    let (mut of_text, mut of_bytes) = (sealed.as_str().to_owned().into_bytes(), bytes.clone());
    for change in changes.chunks_exact(2) {
        let (at, to) = (usize::from(change[0]), change[1]);
        (of_text[at % sealed.as_str().len()], of_bytes[at % bytes.len()]) = (to, to);
    }
    for changed in [String::from_utf8_lossy(&of_text).into_owned(), URL_SAFE_NO_PAD.encode(&of_bytes)] {
        if changed != sealed.as_str() {
            assert_refused(own(), &changed);
        }
    }
}

fn memory(created_at: Timestamp, id: MemoryId) -> Result<Memory> {
    Ok(NewMemory::new(SpaceId::parse("a")?, "1".parse()?, created_at).into_memory(id))
}

/// The cursor after a page that this memory fills; `None` if no memory follows it.
fn sealed(query: QueryBuilder<Ledger>, memory: Memory) -> Result<Option<Cursor>> {
    let query = query.build()?;
    let mut page = PageBuilder::new(&query, &KEY)?;
    let mut next = memory.clone();
    next.created_at = Timestamp::MIN;
    next.id = MemoryId::from_bytes([0; 16]);
    for memory in [memory, next] {
        page.offer(Ok(memory.head()), |_| Ok(memory.clone()), String::new)?;
    }
    Ok(page.finish()?.next)
}

fn assert_refused(query: QueryBuilder<Ledger>, cursor: &str) {
    let refused = query.cursor(cursor).build().and_then(|query| PageBuilder::new(&query, &KEY).map(drop));
    assert_eq!(refused.expect_err("another cursor").kind(), ErrorKind::InvalidInput);
}
