//! Resuming with a token (C5).

use memory_core::{
    ChangeKind, ErrorKind, MemoryProvider, MemoryQuery, Order, QueryBuilder, Result, SpaceSelector, Watch, WatchFrom,
    WatchToken, Watched,
};

use super::{all_shown, everything, next, next_kind, shown, until_reached, watch};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, kind, new_document, new_memory, query};

chapter!("watch":
    a_token_goes_on_behind_its_change ["C3", "C5"] needs Feed,
    a_token_survives_a_restart ["C5"] needs Feed,
    a_token_in_the_midst_of_a_batch_goes_on_there ["C2", "C5"] needs Feed,
    a_token_in_the_midst_of_a_snapshot_goes_on_there ["C2", "C5"] needs Feed,
    a_token_belongs_to_its_watch ["C5"] needs Feed,
    what_was_there_is_told_before_it_is_reached ["C2"] needs Feed,
);

/// Makes five changes. Returns the token from before them, and then that of each.
async fn five(provider: &dyn MemoryProvider) -> Result<Vec<WatchToken>> {
    let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
    let mut tokens = vec![next(&mut changes).await?.token];
    for number in 0..5 {
        match number % 2 {
            0 => drop(provider.store(new_memory(&format!("a-{number}"), -number)).await?),
            _ => drop(provider.documents().put(new_document(NOTES, "n", &format!("a-{number}"), "x")).await?),
        }
        loop {
            let change = next(&mut changes).await?;
            if change.kind != ChangeKind::Reached {
                tokens.push(change.token);
                break;
            }
        }
    }
    Ok(tokens)
}

/// The changes after each token of [`five`]. The document has changed twice.
const BEHIND: [&[&str]; 6] = [
    &["stored a-0", "stored a-2", "updated a-3", "stored a-4"],
    &["stored a-2", "updated a-3", "stored a-4"],
    &["stored a-2", "updated a-3", "stored a-4"],
    &["updated a-3", "stored a-4"],
    &["stored a-4"],
    &[],
];

async fn a_token_goes_on_behind_its_change(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let tokens = five(&*provider).await?;
    for (token, behind) in tokens.iter().zip(BEHIND) {
        for handle in [&provider, &other] {
            let told = until_reached(&mut handle.watch(&everything(token.clone())).await?).await?;
            assert_eq!(all_shown(&told), behind);
        }
    }
    // After *reached*, the watch continues with later changes.
    let mut changes = other.watch(&everything(tokens[4].clone())).await?;
    assert_eq!(all_shown(&until_reached(&mut changes).await?), ["stored a-4"]);
    provider.store(new_memory("later", 1)).await?;
    assert_eq!(shown(&next_kind(&mut changes).await?), "stored later");
    Ok(())
}

async fn a_token_survives_a_restart(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let tokens = five(&*provider).await?;
    provider.shutdown().await?;
    drop(provider);
    let provider = stage.open().await?;
    provider.store(new_memory("after", 1)).await?;
    for (token, behind) in tokens.iter().zip(BEHIND) {
        let told = until_reached(&mut provider.watch(&everything(token.clone())).await?).await?;
        let (last, rest) = told.split_last().expect("what was stored since");
        assert_eq!(shown(&last.kind), "stored after");
        assert_eq!(all_shown(rest), behind);
    }
    Ok(())
}

/// All changes of one call may have the same place in an engine's feed.
async fn a_token_in_the_midst_of_a_batch_goes_on_there(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let before = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
    provider.store_many((0..40).map(|number| new_memory(&format!("b-{number}"), number)).collect()).await?;
    let told = until_reached(&mut provider.watch(&everything(before)).await?).await?;
    assert_eq!(told.len(), 40);
    let names = all_shown(&told);
    for (place, change) in told.iter().enumerate() {
        let behind = all_shown(&until_reached(&mut other.watch(&everything(change.token.clone())).await?).await?);
        assert!(behind.ends_with(&names[place + 1..]), "after {place}: {behind:?}");
        assert!(behind.len() < 40, "it continues, and does not begin again: {behind:?}");
    }
    Ok(())
}

async fn a_token_in_the_midst_of_a_snapshot_goes_on_there(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many((0..120).map(|number| new_memory(&format!("m-{number}"), number)).collect()).await?;
    for number in 0..110_i64 {
        let mut write = new_document(NOTES, &format!("{number:03}"), &format!("d-{number}"), "x");
        write.created_at = at(number);
        provider.documents().put(write).await?;
    }
    let mut all: Vec<_> = (0..120).map(|number| format!("stored m-{number}")).collect();
    all.extend((0..110).map(|number| format!("stored d-{number}")));
    let mut changes = provider.watch(&everything(WatchFrom::Beginning)).await?;
    let mut tokens = vec![];
    for due in &all {
        let change = next(&mut changes).await?;
        assert_eq!(shown(&change.kind), *due);
        tokens.push(change.token);
    }
    provider.store(new_memory("since", -1)).await?;
    provider.shutdown().await?;
    let provider = stage.open().await?;
    for told in [0, 50, 99, 100, 118, 119, 120, 228, 229] {
        let rest = until_reached(&mut provider.watch(&everything(tokens[told].clone())).await?).await?;
        let rest = all_shown(&rest);
        let (last, snapshot) = rest.split_last().expect("what was stored since");
        assert_eq!(last, "stored since");
        // The new memory has the earliest createdAt, so it lies before all tokens, and comes only in the feed.
        assert_eq!(snapshot, &all[told + 1..], "behind {told}");
    }
    Ok(())
}

async fn a_token_belongs_to_its_watch(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store_many(vec![new_memory("a", 1), new_memory("a", 2)]).await?;
    let mut changes = provider.watch(&watch(|query| query.under("a"))).await?;
    let token = next(&mut changes).await?.token;
    let refused = async |watch: Watch, token: &str| {
        let watch = watch.from(WatchFrom::Token(token.to_owned()));
        kind(provider.watch(&watch).await) == Some(ErrorKind::InvalidInput)
    };
    assert!(!refused(watch(|query| query.under("a")), token.as_str()).await);
    let under = |path: &str| MemoryQuery::builder().under(path);
    for other in [
        watch(|query| query.under("b")),
        watch(QueryBuilder::all),
        watch(|query| query.under("a").filter_text("metadata.n = 1")),
        watch(|query| query.under("a").within(SpaceSelector::under("a").expect("valid"))),
        Watch::new(Watched::Memories, under("a"))?,
    ] {
        assert!(refused(other, token.as_str()).await);
    }
    let page = provider.query(&query(|query| query.under("a").limit(1).order(Order::OldestFirst))).await?;
    let cursor = page.next.expect("there is another one").to_string();
    let mut changed = token.to_string();
    changed.replace_range(40..41, if &changed[40..41] == "A" { "B" } else { "A" });
    for text in ["", "x", &cursor, &changed, &token.as_str()[..60], &format!("{token}AA"), &"A".repeat(5_000)] {
        assert!(refused(watch(|query| query.under("a")), text).await, "{text}");
    }
    // It is not accepted as a cursor either, nor by another namespace.
    let query = MemoryQuery::builder().under("a").cursor(&token).build()?;
    assert_eq!(kind(provider.query(&query).await), Some(ErrorKind::InvalidInput));
    let elsewhere = stage.elsewhere().open().await?;
    elsewhere.store(new_memory("a", 1)).await?;
    let moved = watch(|query| query.under("a")).from(token.into());
    assert_eq!(kind(elsewhere.watch(&moved).await), Some(ErrorKind::InvalidInput));
    Ok(())
}

/// A snapshot and a feed hold more than a page, and most of it is not for the watch.
async fn what_was_there_is_told_before_it_is_reached(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let rare = || watch(|query| query.under("rare"));
    let token = next(&mut provider.watch(&rare().from(WatchFrom::Now)).await?).await?.token;
    let space = |number: i64| if number % 50 == 49 { "rare" } else { "common" };
    other.store_many((0..900).map(|number| new_memory(space(number), number)).collect()).await?;
    for number in 0..100 {
        other.documents().put(new_document(NOTES, &number.to_string(), space(number), "x")).await?;
    }
    for from in [WatchFrom::Beginning, token.into()] {
        for handle in [&provider, &other] {
            let told = until_reached(&mut handle.watch(&rare().from(from.clone())).await?).await?;
            assert_eq!(all_shown(&told), ["stored rare"; 20]);
        }
    }
    Ok(())
}
