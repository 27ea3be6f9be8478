//! What an answer depends on, and what bounds it (R1, R5, R6).

use memory_core::engine::MAX_RECALLED;
use memory_core::{
    Context, DocumentQuery, DocumentSelection, Error, Expect, Hit, MAX_PAGE_BYTES, Memory, MemoryId, MemoryPatch,
    Recall, RecallOptions, SpaceSelector, Status,
};

use super::{DAY, asked, asked_notes, asked_notes_with, asked_with, said, shown, text_of, texts};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, document_id, new_document, new_memory, query, space, trigger};

chapter!("recall":
    nothing_outside_the_scope_changes_an_answer ["R1"],
    nothing_outside_the_scope_changes_an_answer_from_documents ["R1"],
    a_host_confines_a_recall ["R1"],
    many_places_are_one_scope ["R1", "R3"],
    hits_satisfy_all_conditions ["R6"],
    writes_show_in_the_next_recall ["R6"],
    documents_come_and_go ["R6"],
    the_limit_is_kept ["R5"],
    the_newest_records_are_looked_at ["R5"],
    an_answer_ends_at_sixteen_mib ["R5"],
    neighbours_that_do_not_fit_are_left_out ["R5", "R6"],
    damaged_rows_are_passed_over ["R6", "Q8"] needs Damage,
);

/// Records outside of the scope change nothing, neither when they are stored nor when they are updated.
async fn nothing_outside_the_scope_changes_an_answer(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (number, text) in ["zebra and apple", "apple", "pear?", "zebra", "apple pear"].into_iter().enumerate() {
        provider.store(said(&format!("guild-1-room-{number}"), number as i64, text)).await?;
    }
    let recall = asked("zebra, apple", |query| query.under("guild-1"));
    let alone = provider.recall(&recall).await?;
    assert_eq!(alone.examined, 5);
    let mut ids = Vec::new();
    for number in 0..40 {
        // Including spaces whose ids start with the same bytes, and the space above.
        for place in ["guild-2-room", "guild-12", "guild-1x", "guild", "other"] {
            ids.push(provider.store(said(place, number, "apple apple zebra?")).await?);
        }
    }
    assert_eq!(provider.recall(&recall).await?, alone);
    for id in ids {
        provider.update(id, MemoryPatch::new().set_context(Context::parse(r#""zebra zebra""#)?)).await?;
    }
    let after = provider.recall(&recall).await?;
    assert_eq!(shown(&after), shown(&alone), "equal to the bit");
    Ok(())
}

async fn nothing_outside_the_scope_changes_an_answer_from_documents(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for (number, text) in ["zebra and apple", "apple", "pear?", "zebra"].into_iter().enumerate() {
        documents.put(new_document(NOTES, &number.to_string(), &format!("guild-1-{number}"), text)).await?;
    }
    let recall = asked_notes("zebra, apple", |query| query.under("guild-1"));
    let alone = documents.recall(&recall).await?;
    assert_eq!((alone.examined, alone.hits.len()), (4, 4));
    for number in 0..40 {
        documents.put(new_document(NOTES, &format!("x{number}"), "guild-12", "apple apple")).await?;
        documents.put(new_document("others", &format!("{number}"), "guild-1-0", "apple zebra")).await?;
    }
    assert_eq!(shown(&documents.recall(&recall).await?), shown(&alone));
    let others = DocumentSelection::matching(DocumentQuery::builder(collection(NOTES)).exact("guild-12"))?;
    assert_eq!(documents.remove(&others, 100).await?.len(), 40);
    assert_eq!(shown(&documents.recall(&recall).await?), shown(&alone));
    Ok(())
}

/// Records outside of the host's confinement take no part, whatever the caller names.
async fn a_host_confines_a_recall(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a-1", 1, "zebra")).await?;
    let only = provider.recall(&asked("zebra", |query| query.under("a"))).await?;
    provider.store(said("b-1", 2, "zebra")).await?;
    let within = || SpaceSelector::under("a").expect("valid");
    for confined in [
        asked("zebra", |query| query.all().within(within())),
        asked("zebra", |query| query.under("a").under("b").within(within())),
        asked("zebra", |query| query.regex("1$").within(within())),
    ] {
        assert_eq!(shown(&provider.recall(&confined).await?), shown(&only));
    }
    Ok(())
}

/// Spaces that are named one by one give the same answer as the space above them, however many they are.
async fn many_places_are_one_scope(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let spaces: Vec<_> = (0..400).map(|number| format!("a-{number}")).collect();
    let mut memories = Vec::new();
    for round in 0..3 {
        for (number, space) in spaces.iter().enumerate() {
            // Each space has memories of all times.
            let text = if (number + round) % 7 == 0 { "a zebra" } else { "a horse" };
            memories.push(said(space, (round * 400 + number * 37 % 400) as i64, text));
        }
    }
    provider.store_many(memories).await?;
    let whole = provider.recall(&asked("zebra", |query| query.under("a"))).await?;
    assert_eq!((whole.examined, whole.hits.len(), whole.complete), (1_200, 50, true));
    let named = asked("zebra", |query| spaces.iter().fold(query, |query, space| query.exact(space)));
    assert_eq!(shown(&provider.recall(&named).await?), shown(&whole));
    let within: Vec<_> = spaces.iter().map(|space| SpaceSelector::exact(space).expect("valid")).collect();
    let confined = asked("zebra", |query| query.all().within(within));
    assert_eq!(shown(&provider.recall(&confined).await?), shown(&whole));
    Ok(())
}

/// Statuses, times, filter and exclusions hold for hits; a record that does not satisfy them still counts as a neighbour.
async fn hits_satisfy_all_conditions(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut ids = Vec::new();
    for (number, text) in ["zebra one", "zebra two", "no stripes", "zebra four"].into_iter().enumerate() {
        let mut memory = said("a", number as i64, text);
        memory.status = if number == 1 { Status::Completed } else { Status::Pending };
        ids.push(provider.store(memory).await?);
    }
    let all = provider.recall(&asked("zebra", |query| query.all())).await?;
    let scores = |hits: &[Hit<Memory>]| {
        let mut scores: Vec<_> = hits.iter().map(|hit| (text_of(&hit.record), hit.score.to_bits())).collect();
        scores.sort();
        scores
    };
    let recalls = [
        (asked("zebra", |query| query.all().status(Status::Completed)), vec!["zebra two"]),
        (asked("zebra", |query| query.all().created_after(at(DAY + 2))), vec!["zebra four"]),
        (asked("zebra", |query| query.all().created_before(at(DAY + 1))), vec!["zebra one"]),
        (asked("zebra", |query| query.all().filter_text("text = 'no stripes'")), vec!["no stripes"]),
        (asked("zebra", |query| query.all().exclude(ids[0]).exclude(ids[2]).exclude(ids[3])), vec!["zebra two"]),
    ];
    for (recall, expected) in recalls {
        let found = provider.recall(&recall).await?;
        assert_eq!(found.hits.iter().map(|hit| text_of(&hit.record)).collect::<Vec<_>>(), expected, "{recall:?}");
        let same = scores(&all.hits).into_iter().filter(|(text, _)| expected.contains(&text.as_str()));
        assert_eq!(scores(&found.hits), same.collect::<Vec<_>>(), "the conditions change the scores of the hits");
    }
    Ok(())
}

async fn writes_show_in_the_next_recall(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let id = provider.store(new_memory("a", 0)).await?;
    let recall = asked("zebra", |query| query.all());
    assert_eq!(other.recall(&recall).await?.hits.len(), 0);
    provider.update(id, MemoryPatch::new().set_context(Context::parse(r#"{"answer":"a zebra"}"#)?)).await?;
    assert_eq!(other.recall(&recall).await?.hits.len(), 1);
    provider.update(id, MemoryPatch::new().set_context(Context::parse(r#""a horse""#)?)).await?;
    assert_eq!(other.recall(&recall).await?.hits.len(), 0);
    assert_eq!(other.recall(&asked("horses", |query| query.all())).await?.hits.len(), 1);
    provider.update(id, MemoryPatch::new().clear_context()).await?;
    assert_eq!(other.recall(&asked("horses", |query| query.all())).await?.hits.len(), 0);
    // A row that is restored with a time of its own.
    let mut restored = provider.get(id).await?.expect("stored");
    restored.id = MemoryId::generate();
    restored.space_id = space("b");
    restored.trigger = trigger(r#"{"text":"old zebra"}"#);
    restored.created_at = at(-5_000_000_000);
    provider.restore(vec![restored]).await?;
    assert_eq!(texts(&*other, &recall).await?, ["old zebra"]);
    Ok(())
}

async fn documents_come_and_go(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let recall = asked_notes("zebra", |query| query.under("a"));
    let found = async || documents.recall(&recall).await.map(|recalled| recalled.hits.len());
    documents.put(new_document(NOTES, "1", "a", "a zebra")).await?;
    assert_eq!(found().await?, 1);
    documents.put(new_document(NOTES, "1", "a", "a horse").expect(Expect::Any)).await?;
    assert_eq!(found().await?, 0);
    documents.put(new_document(NOTES, "1", "b", "a zebra")).await?;
    assert_eq!(found().await?, 0, "it has moved");
    documents.put(new_document(NOTES, "1", "a-b", "a zebra")).await?;
    assert_eq!(found().await?, 1);
    documents.remove(&DocumentSelection::ids(collection(NOTES), [document_id("1")])?, 1).await?;
    assert_eq!(found().await?, 0);
    Ok(())
}

async fn the_limit_is_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memories = (0..60).map(|number| said(&format!("a{number}"), number, "zebra")).collect();
    provider.store_many(memories).await?;
    let all = provider.recall(&asked("zebra", |query| query.all().limit(1_000))).await?;
    assert_eq!((all.hits.len(), all.examined, all.complete), (60, 60, true));
    for limit in [1, 7] {
        let some = provider.recall(&asked("zebra", |query| query.all().limit(limit))).await?;
        assert_eq!(some.hits, all.hits[..limit], "the best of all");
        assert!(some.complete);
    }
    let usual = Recall::new("zebra", query(|query| query.all()))?;
    assert_eq!(provider.recall(&usual).await?.hits.len(), 50);
    Ok(())
}

/// A recall on a scope that is too large answers from its newest records, and says so.
async fn the_newest_records_are_looked_at(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let most = MAX_RECALLED as i64;
    // After the two oldest, the records are stored newest first, in two places, so the order of storing is not that of time.
    provider.store_many(vec![said("b", 0, "the oldest zebra"), said("a", 1, "an old zebra")]).await?;
    for from in (2..most + 1).rev().step_by(10_000) {
        let memories = (2..=from).rev().take(10_000);
        let memories = memories.map(|number| said(if number % 2 == 0 { "a" } else { "b" }, number, "horse"));
        provider.store_many(memories.collect()).await?;
    }
    let recall = asked("zebra", |query| query.exact("a").exact("b"));
    let recalled = provider.recall(&recall).await?;
    assert_eq!((recalled.examined as i64, recalled.complete), (most, false));
    let found: Vec<_> = recalled.hits.iter().map(|hit| text_of(&hit.record)).collect();
    assert!(found.contains(&"an old zebra".to_owned()) && !found.contains(&"the oldest zebra".to_owned()), "{found:?}");
    assert!(provider.recall(&asked("zebra", |query| query.exact("a"))).await?.complete);
    Ok(())
}

async fn an_answer_ends_at_sixteen_mib(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let large = "zebra ".repeat((1 << 20) / 6);
    // The space and the metadata of each document count, too.
    let fitting = MAX_PAGE_BYTES / (large.len() + "a00{}".len());
    for number in 0..fitting + 2 {
        documents.put(new_document(NOTES, &number.to_string(), &format!("a{number:02}"), &large)).await?;
    }
    let recalled = documents.recall(&asked_notes("zebra", |query| query.all())).await?;
    assert_eq!((recalled.hits.len(), recalled.complete, recalled.examined), (fitting, false, fitting + 2));
    let one = documents.recall(&asked_notes("zebra", |query| query.all().limit(1))).await?;
    assert_eq!((one.hits.len(), one.complete), (1, true));
    Ok(())
}

/// Hits come before the records beside them, which are left out if they do not fit.
async fn neighbours_that_do_not_fit_are_left_out(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let large = "x".repeat(1 << 20);
    for number in 0..21 {
        let content = if number == 10 { "a zebra" } else { &large };
        let mut write = new_document(NOTES, &number.to_string(), &format!("a-{number}"), content);
        write.created_at = at(number);
        documents.put(write).await?;
    }
    let around = async |neighbours| {
        let options = RecallOptions { neighbours, ..RecallOptions::default() };
        let recalled = documents.recall(&asked_notes_with("zebra", options, |query| query.all().limit(1))).await?;
        Ok::<_, Error>((recalled.hits[0].before.len(), recalled.hits[0].after.len(), recalled.complete))
    };
    assert_eq!(around(7).await?, (7, 7, true));
    assert_eq!(around(10).await?, (0, 0, false));
    Ok(())
}

async fn damaged_rows_are_passed_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let damaged = provider.store(said("a", 0, "a zebra")).await?;
    provider.store(said("a", 1, "a zebra too")).await?;
    assert!(stage.harness().damage(stage.namespace(), damaged).await?);
    let options = RecallOptions { neighbours: 1, ..RecallOptions::default() };
    let recalled = provider.recall(&asked_with("zebra", options, |query| query.all())).await?;
    assert_eq!(recalled.hits.iter().map(|hit| text_of(&hit.record)).collect::<Vec<_>>(), ["a zebra too"]);
    Ok(())
}
