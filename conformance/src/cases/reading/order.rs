//! Q4: by (createdAt, bytes of the id).

use memory_core::{Memory, MemoryId, MemoryProvider, Order};

use super::{BOTH_ORDERS, READ_PATHS, guilds, sorted_ids};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, new_memory, walk};

chapter!("reading":
    the_limit_takes_the_newest ["Q4", "Q5"],
    five_hundred_rows_of_one_millisecond_keep_their_order ["Q4", "Q6", "V5"],
    ids_are_ordered_by_unsigned_bytes ["Q4", "W12"],
    rows_restored_into_a_millisecond_find_their_place ["Q4", "W12"],
    rows_stored_in_any_order_come_back_in_order ["Q4"],
    rows_of_many_spaces_come_in_one_order ["Q4"],
);

/// Q4: newest first by default, oldest first on request. A limit takes the first rows of that order (known bug:
/// the oldest N instead of the newest N).
async fn the_limit_takes_the_newest(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((1..=30).flat_map(|time| guilds([time])).collect()).await?;
    for (name, part) in READ_PATHS {
        let newest = super::page(&*provider, |query| part(query).limit(2), None).await?;
        assert_eq!(ids(&newest.memories), [stored[118], stored[116]], "{name}");
        let oldest = super::page(&*provider, |query| part(query).limit(2).order(Order::OldestFirst), None).await?;
        assert_eq!(ids(&oldest.memories), [stored[0], stored[2]], "{name}");
    }
    Ok(())
}

/// Q4: rows of one millisecond come in the order in which one process stored them (ties in random order, openai-agents-python#1900), in
/// batches or one by one.
async fn five_hundred_rows_of_one_millisecond_keep_their_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let row = |number: usize| new_memory(&format!("guild-1-{}", number % 7), 1_700_000_000_000);
    let mut stored = provider.store_many((0..480).map(row).collect()).await?;
    for number in 0..20 {
        stored.push(provider.store(row(number)).await?);
    }
    for limit in [1, 50, 1_000] {
        let oldest = walk(&*provider, |query| query.under("guild-1").order(Order::OldestFirst).limit(limit)).await?;
        assert_eq!(ids(&oldest), stored, "{limit} a page");
        let newest = walk(&*provider, |query| query.under("guild-1").limit(limit)).await?;
        assert_eq!(ids(&newest), Vec::from_iter(stored.iter().rev().copied()), "{limit} a page");
    }
    Ok(())
}

/// Q4: bytes compare unsigned, from the first to the last.
async fn ids_are_ordered_by_unsigned_bytes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let numbers = [1, 0x7F << 120, 0x80 << 120, 0xFF << 120, u128::MAX, 1 << 64, 0x80 << 56, 0x7F << 56, 0x0A << 120];
    let row = |number: u128| new_memory("guild-1-a", 7).into_memory(MemoryId::from_bytes(number.to_be_bytes()));
    let rows = Vec::from(numbers.map(row));
    provider.restore(rows.clone()).await?;
    check_order(&*provider, &rows).await
}

/// Q4: rows that are restored into a millisecond come before, between and after the existing ones, by their ids.
async fn rows_restored_into_a_millisecond_find_their_place(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(["guild-1-a"; 4].map(|space| new_memory(space, 9)).to_vec()).await?;
    let mut rows = walk(&*provider, |query| query.exact("guild-1-a")).await?;
    let next_to = |id: MemoryId| MemoryId::from_bytes((u128::from_be_bytes(*id.as_bytes()) + 1).to_be_bytes());
    let between = rows.iter().map(|row| next_to(row.id));
    let ends = [MemoryId::from_bytes([0; 16]), MemoryId::from_bytes([255; 16])];
    let restored: Vec<Memory> = between.chain(ends).map(|id| new_memory("guild-1-b", 9).into_memory(id)).collect();
    provider.restore(restored.clone()).await?;
    rows.extend(restored);
    check_order(&*provider, &rows).await
}

/// Q4: rows stored in descending and in random order of their times (imports) come back in order.
async fn rows_stored_in_any_order_come_back_in_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut times: Vec<i64> = (0..100).rev().collect();
    times.extend((0..100).map(|number| number * 37 % 101 - 20));
    for chunk in times.chunks(23) {
        let rows = chunk.iter().map(|time| new_memory(["guild-1-a", "guild-1-b"][(*time & 1) as usize], *time));
        provider.store_many(rows.collect()).await?;
    }
    let rows = walk(&*provider, |query| query.all()).await?;
    assert_eq!(rows.len(), 200);
    check_order(&*provider, &rows).await
}

/// Q4: what several spaces or selectors contribute is merged into one order.
async fn rows_of_many_spaces_come_in_one_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = (0..120).map(|number| new_memory(&format!("s{}-x{}", number % 3, number % 8), number * 7 % 60));
    provider.store_many(rows.collect()).await?;
    let rows = walk(&*provider, |query| query.all()).await?;
    for order in BOTH_ORDERS {
        let parts: [super::Part; 4] = [
            |query| query.under("s0").under("s1").under("s2"),
            |query| query.prefix("s"),
            |query| query.glob("s?-*").exact("s0-x0"),
            |query| query.under("s0").prefix("s1-").regex("^s2"),
        ];
        for (number, part) in parts.into_iter().enumerate() {
            let found = walk(&*provider, |query| part(query).order(order).limit(17)).await?;
            assert_eq!(ids(&found), sorted_ids(&rows, order), "query {number}, {order:?}");
        }
    }
    Ok(())
}

/// Checks that every read path gives `rows`, which lie in `guild-1-a` and `guild-1-b`, in both orders.
async fn check_order(provider: &dyn MemoryProvider, rows: &[Memory]) -> CaseResult {
    for order in BOTH_ORDERS {
        let expected = sorted_ids(rows, order);
        for (name, part) in READ_PATHS {
            let found = walk(provider, |query| part(query).order(order).limit(60)).await?;
            assert_eq!(ids(&found), expected, "{name}, {order:?}");
        }
    }
    Ok(())
}
