//! Q1 to Q9: what a query finds, in which order, and on which pages.
//!
//! The parentheses in the docs of these cases mostly name a known bug of another system; `BUGS.md` lists these bugs.

mod bounds;
mod damage;
mod open_work;
mod order;
mod pages;
mod selection;
mod walking;

use memory_core::{
    Cursor, Ledger, Memory, MemoryId, MemoryPage, MemoryProvider, NewMemory, Order, QueryBuilder, Result,
};

use crate::case::Case;
use crate::fixture::{ids, new_memory, query};
use crate::random::mix;

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [
        selection::cases(),
        bounds::cases(),
        order::cases(),
        pages::cases(),
        walking::cases(),
        damage::cases(),
        open_work::cases(),
    ]
    .concat()
}

const BOTH_ORDERS: [Order; 2] = [Order::NewestFirst, Order::OldestFirst];

/// A function that adds to a query.
type Part = fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>;

/// Several queries for exactly the rows of the spaces `guild-1-a` and `guild-1-b` of [`guilds`], which all have the same text.
const READ_PATHS: [(&str, Part); 10] = [
    ("exact", |query| query.exact("guild-1-a").exact("guild-1-b")),
    ("under", |query| query.under("guild-1")),
    ("prefix", |query| query.prefix("guild-1-")),
    ("glob", |query| query.glob("guild-1-*")),
    ("glob without a head", |query| query.glob("*-1-[ab]")),
    ("regex", |query| query.regex("^guild-1-[ab]$")),
    ("regex without a head", |query| query.regex("-1-")),
    ("all, confined", |query| query.all().within(memory_core::SpaceSelector::under("guild-1").expect("a valid path"))),
    ("union", |query| query.exact("guild-1-a").under("guild-1-b").prefix("guild-1-b").glob("guild-1-?")),
    ("text", |query| query.under("guild-1").text("nobody said: Hello!")),
];

/// Four spaces, two of them in `guild-1`, each with one memory for each of these times.
fn guilds(times: impl IntoIterator<Item = i64>) -> Vec<NewMemory> {
    let spaces = ["guild-1-a", "guild-12-a", "guild-1-b", "guild-2"];
    times.into_iter().flat_map(|time| spaces.map(|space| new_memory(space, time))).collect()
}

/// One page, the first or the one after a cursor.
async fn page(
    provider: &dyn MemoryProvider,
    build: impl Fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>,
    cursor: Option<&Cursor>,
) -> Result<MemoryPage> {
    let query = query(|builder| match cursor {
        Some(cursor) => build(builder).cursor(cursor),
        None => build(builder),
    });
    provider.query(&query).await
}

/// A walk over the pages of a query, during which the case does something else.
struct Walk<'a, B> {
    provider: &'a dyn MemoryProvider,
    build: B,
    cursor: Option<Cursor>,
    /// The ids of the memories so far, in the order of the walk.
    found: Vec<MemoryId>,
}

impl<'a, B: Fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>> Walk<'a, B> {
    fn new(provider: &'a dyn MemoryProvider, build: B) -> Self {
        Self { provider, build, cursor: None, found: Vec::new() }
    }

    /// Reads the next page, and returns it if it is not the last one.
    async fn next(&mut self) -> Result<Option<MemoryPage>> {
        let page = page(self.provider, &self.build, self.cursor.as_ref()).await?;
        self.found.extend(ids(&page.memories));
        self.cursor = page.next.clone();
        Ok(Some(page).filter(|page| page.next.is_some()))
    }
}

/// The ids in an order of Q4.
fn sorted_ids<'a>(memories: impl IntoIterator<Item = &'a Memory>, order: Order) -> Vec<MemoryId> {
    let mut memories: Vec<_> = memories.into_iter().collect();
    memories.sort_by_key(|memory| (memory.created_at, *memory.id.as_bytes()));
    if order == Order::NewestFirst {
        memories.reverse();
    }
    memories.into_iter().map(|memory| memory.id).collect()
}

/// A UUID of version 4 that depends on `number` alone, and whose bytes don't sort as the numbers do.
fn scattered_id(number: u64) -> MemoryId {
    let mut bytes = (u128::from(mix(2 * number)) << 64 | u128::from(mix(2 * number + 1))).to_be_bytes();
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    MemoryId::from_bytes(bytes)
}
