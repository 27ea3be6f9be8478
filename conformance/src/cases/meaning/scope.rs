//! What an answer by meaning depends on, and how its score is made up (M3).

use memory_core::{
    Embedding, Error, Hit, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryRecall, Parts, Precision,
    RecallOptions, Result, Revision, SpaceSelector, Status, Vector, VectorModel,
};

use super::{answer, embed, like, model_of, notes_like, texts_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{DAY, asked, asked_notes, asked_with, said, said_by, shown, text_of, texts};
use crate::embedder::WordModel;
use crate::fixture::{at, new_document, note, put, remove_note};

chapter!("meaning":
    nothing_outside_the_scope_changes_an_answer ["M3", "R1"] needs Vectors,
    nothing_outside_the_scope_changes_an_answer_from_documents ["M3", "R1"] needs Vectors,
    records_without_a_vector_are_counted_and_not_found ["M3"] needs Vectors,
    as_many_are_found_by_a_vector_as_are_asked_for ["M3"] needs Vectors,
    hits_satisfy_all_conditions ["M3", "R6"] needs Vectors,
    equal_cosines_come_newest_first ["M3", "R4"] needs Vectors,
    a_record_means_also_what_stands_beside_it ["M3", "R3"] needs Vectors,
    words_and_meaning_add_up ["M3", "R4"] needs Vectors,
    meaning_finds_what_no_word_does ["M3"] needs Vectors,
    what_a_meaning_weighs_is_the_callers ["M3"] needs Vectors,
    a_vector_shows_in_the_next_recall ["M3", "R6"] needs Vectors,
    a_recall_without_a_vector_is_as_it_was ["M3", "R4"] needs Vectors,
);

/// More records than a question in words has candidates.
const MANY: usize = 300;

/// A vector of a model with four numbers, one for each axis.
fn axis(numbers: [f32; 4]) -> Vector {
    Vector::new(&numbers).expect("a direction")
}

async fn axes_of(provider: &dyn MemoryProvider) -> Result<VectorModel> {
    let model = VectorModel::new("axes", 4, Precision::Exact)?;
    provider.set_vector_model(&model).await?;
    Ok(model)
}

/// Records outside of the scope change nothing, whether they have vectors or not.
async fn nothing_outside_the_scope_changes_an_answer(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    for (number, text) in ["a zebra eats", "apples", "pears?", "zebra", "apple pear"].into_iter().enumerate() {
        let id = provider.store(said(&format!("guild-1-room-{number}"), number as i64, text)).await?;
        if number != 1 {
            embed(&*provider, &model, &id.into(), &words.vector(text)).await?;
        }
    }
    let options = RecallOptions { explain: true, neighbours: 2, ..RecallOptions::default() };
    let recalls = ["", "zebra, apple"].map(|question| {
        let recall = asked_with(question, options.clone(), |query| query.under("guild-1"));
        recall.by_vector(words.vector("zebra apple"))
    });
    let mut alone = Vec::new();
    for recall in &recalls {
        let recalled = provider.recall(recall).await?;
        assert_eq!((recalled.examined, recalled.unembedded, recalled.complete), (5, Some(1), true));
        alone.push(recalled);
    }
    for number in 0..40 {
        // Including spaces whose ids start with the same bytes, the space above, and records with times in between.
        for place in ["guild-2-room", "guild-12", "guild-1x", "guild", "other"] {
            let id = provider.store(said(place, number, "zebra apple")).await?;
            if number % 2 == 0 {
                embed(&*provider, &model, &id.into(), &words.vector("zebra apple")).await?;
            }
        }
    }
    for (recall, alone) in recalls.iter().zip(&alone) {
        let after = provider.recall(recall).await?;
        assert_eq!(&after, alone);
        assert_eq!(shown(&after), shown(alone), "equal to the bit");
    }
    // The host's confinement holds whatever the caller names.
    let within = SpaceSelector::under("guild-1")?;
    let confined = asked_with("", options, |query| query.all().within(within)).by_vector(words.vector("zebra apple"));
    assert_eq!(shown(&provider.recall(&confined).await?), shown(&alone[0]));
    Ok(())
}

async fn nothing_outside_the_scope_changes_an_answer_from_documents(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    for (number, text) in ["a zebra", "apple", "pear?", "zebra"].into_iter().enumerate() {
        let id = number.to_string();
        put(&*provider, written(&id, &format!("guild-1-{number}"), text)).await?;
        if number != 1 {
            embed(&*provider, &model, &note(&id), &words.vector(text)).await?;
        }
    }
    let recalls = ["", "zebra, apple"]
        .map(|question| asked_notes(question, |query| query.under("guild-1")).by_vector(words.vector("zebra")));
    let mut alone = Vec::new();
    for recall in &recalls {
        let recalled = provider.documents().recall(recall).await?;
        assert_eq!((recalled.examined, recalled.unembedded), (4, Some(1)));
        alone.push(recalled);
    }
    for number in 0..40 {
        put(&*provider, written(&format!("x{number}"), "guild-12", "zebra")).await?;
        embed(&*provider, &model, &note(&format!("x{number}")), &words.vector("zebra")).await?;
        // A document of another collection may have the same id.
        let other = provider.documents().put(new_document("others", &number.to_string(), "guild-1-0", "zebra")).await?;
        embed(&*provider, &model, &(&other).into(), &words.vector("zebra")).await?;
        let id = provider.store(said("guild-1-0", number, "zebra")).await?;
        embed(&*provider, &model, &id.into(), &words.vector("zebra")).await?;
    }
    for (recall, alone) in recalls.iter().zip(&alone) {
        assert_eq!(&provider.documents().recall(recall).await?, alone);
    }
    for number in 0..40 {
        remove_note(&*provider, &format!("x{number}")).await?;
    }
    assert_eq!(&provider.documents().recall(&recalls[0]).await?, &alone[0]);
    Ok(())
}

async fn records_without_a_vector_are_counted_and_not_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(provider.store(said(&format!("a-{number}"), number, &format!("zebra {number}"))).await?);
        put(&*provider, written(&format!("n{number}"), &format!("a-{number}"), "a zebra")).await?;
    }
    for (number, left) in [(2, 5), (4, 4), (1, 3)] {
        embed(&*provider, &model, &ids[number].into(), &words.vector("zebra")).await?;
        embed(&*provider, &model, &note(&format!("n{number}")), &words.vector("zebra")).await?;
        let recalled = provider.recall(&like(&words, "zebra")).await?;
        assert_eq!((recalled.hits.len(), recalled.examined, recalled.unembedded), (6 - left, 6, Some(left)));
        let notes = provider.documents().recall(&notes_like(&words, "zebra")).await?;
        assert_eq!((notes.hits.len(), notes.examined, notes.unembedded), (6 - left, 6, Some(left)));
        // Words find records without a vector.
        let both = asked("zebra", |query| query.all()).by_vector(words.vector("zebra"));
        let recalled = provider.recall(&both).await?;
        assert_eq!((recalled.hits.len(), recalled.unembedded), (6, Some(left)));
        for hit in &recalled.hits {
            let has_vector = super::have(&*provider, &[hit.record.id.into()]).await? == [true];
            assert!(has_vector || hit.parts.meaning == 0.0, "{hit:?}");
        }
    }
    let (found, _) = answer(&*provider, &like(&words, "zebra")).await?;
    assert!(["zebra 1", "zebra 2", "zebra 4"].iter().all(|text| found.contains(&(*text).to_owned())), "{found:?}");
    // `unembedded` counts the records of the scope only.
    let part = asked("", |query| query.exact("a-2").exact("a-3")).by_vector(words.vector("zebra"));
    assert_eq!(answer(&*provider, &part).await?, (vec!["zebra 2".to_owned()], Some(1)));
    let none = asked("", |query| query.exact("b")).by_vector(words.vector("zebra"));
    assert_eq!(answer(&*provider, &none).await?, (vec![], Some(0)));
    Ok(())
}

/// A recall by a vector finds as many records as it asks for, even more than a question in words has candidates.
async fn as_many_are_found_by_a_vector_as_are_asked_for(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let model = axes_of(&*provider).await?;
    let memories = (0..MANY as i64).map(|number| said(&format!("a{number}-0"), number, "a zebra")).collect();
    let ids = provider.store_many(memories).await?;
    let embedding = |(number, id): (usize, &MemoryId)| Embedding {
        record: (*id).into(),
        revision: Revision::FIRST,
        texts: None,
        vector: axis([1.0, number as f32 / 100.0, 0.0, 0.0]),
    };
    provider.embed(&model, ids.iter().enumerate().map(embedding).collect()).await?;
    for limit in [250, MANY, MANY + 1] {
        let recall = asked("", |query| query.all().limit(limit)).by_vector(axis([1.0, 0.0, 0.0, 0.0]));
        let found = provider.recall(&recall).await?;
        let found: Vec<_> = found.hits.iter().map(|hit| hit.record.id).collect();
        assert!(found == ids[..limit.min(MANY)], "the nearest first: {limit}");
    }
    Ok(())
}

/// A record that does not satisfy the conditions still counts: for the range of the cosines, and as a neighbour.
async fn hits_satisfy_all_conditions(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let model = axes_of(&*provider).await?;
    let mut ids = Vec::new();
    for (number, first) in [4.0, 3.0, 2.0, 1.0].into_iter().enumerate() {
        let mut memory = said("a", number as i64, &format!("text {number}"));
        memory.status = if number == 1 { Status::Completed } else { Status::Pending };
        let id = provider.store(memory).await?;
        embed(&*provider, &model, &id.into(), &axis([first, 1.0, number as f32, 0.0])).await?;
        ids.push(id);
    }
    let by = |recall: MemoryRecall| recall.by_vector(axis([1.0, 0.0, 0.0, 0.0]));
    let all = provider.recall(&by(asked("", |query| query.all()))).await?;
    assert_eq!(texts_of(&records(&all.hits)), ["text 0", "text 1", "text 2", "text 3"]);
    let cases = [
        (asked("", |query| query.all().status(Status::Completed)), vec![1]),
        (asked("", |query| query.all().created_after(at(DAY + 2))), vec![3]),
        (asked("", |query| query.all().created_before(at(DAY + 2))), vec![0, 1]),
        (asked("", |query| query.all().filter_text("text = 'text 2' OR text = 'text 3'")), vec![2, 3]),
        (asked("", |query| query.all().exclude(ids[0]).exclude(ids[2])), vec![1, 3]),
        (asked("", |query| query.all().limit(2)), vec![0, 1]),
        (asked("", |query| query.all().status(Status::Pending).limit(2)), vec![0, 2]),
        (asked("", |query| query.all().limit(0)), vec![]),
    ];
    for (recall, expected) in cases {
        let has_limit = recall.query().limit() == 0;
        let recalled = provider.recall(&by(recall)).await?;
        let expected: Vec<_> = expected.into_iter().map(|number| format!("text {number}")).collect();
        assert_eq!(texts_of(&records(&recalled.hits)), expected);
        assert!(has_limit || recalled.examined == 4 && recalled.unembedded == Some(0), "{recalled:?}");
    }
    Ok(())
}

fn records(hits: &[Hit<Memory>]) -> Vec<Memory> {
    hits.iter().map(|hit| hit.record.clone()).collect()
}

/// The order of storing does not matter, even for more records than a question in words has candidates.
async fn equal_cosines_come_newest_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for precision in [Precision::Compact, Precision::Exact] {
        let words = WordModel::new("words");
        let (model, root) = (words.kept(precision), format!("{precision:?}"));
        provider.set_vector_model(&model).await?;
        let mut ids = Vec::new();
        for (number, millis) in [3, 1, 2, 2, 1, 7].into_iter().enumerate() {
            // Each in a container of its own.
            let space = format!("{root}/{number}-0");
            let id = provider.store(said(&space, millis, "zebra")).await?;
            embed(&*provider, &model, &id.into(), &words.vector("a zebra eats")).await?;
            ids.push((millis, id));
        }
        ids.sort();
        ids.reverse();
        let expected: Vec<_> = ids.into_iter().map(|(_, id)| id).collect();
        for (candidates, limit) in [(200, 50), (4, 50), (200, 3)] {
            let mut options = RecallOptions::default();
            options.weights.candidates = candidates;
            let recall = asked_with("", options, |query| query.under(&root).limit(limit));
            let recalled = provider.recall(&recall.by_vector(words.vector("zebra"))).await?;
            let found: Vec<_> = recalled.hits.iter().map(|hit| hit.record.id).collect();
            assert_eq!(found, expected[..limit.min(expected.len())]);
            assert!(recalled.hits.iter().all(|hit| hit.score == 1.0), "each is the best and the least: {recalled:?}");
        }
    }
    Ok(())
}

/// The vector of a neighbour counts half for each step of its distance, up to the window. A record without a vector of its own is not
/// found, whatever its neighbours have.
async fn a_record_means_also_what_stands_beside_it(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let model = axes_of(&*provider).await?;
    let zero = [0.0, 1.0, 0.0, 0.0];
    let vectors = [Some(zero), Some(zero), None, Some([1.0, 0.0, 0.0, 0.0]), Some(zero), Some(zero), Some(zero)];
    for (number, vector) in vectors.into_iter().enumerate() {
        let id = provider.store(said(&format!("room-{number}"), number as i64, &number.to_string())).await?;
        if let Some(vector) = vector {
            embed(&*provider, &model, &id.into(), &axis(vector)).await?;
        }
    }
    let options = RecallOptions { explain: true, ..RecallOptions::default() };
    let recall = asked_with("", options, |query| query.all()).by_vector(axis([1.0, 0.0, 0.0, 0.0]));
    let recalled = provider.recall(&recall).await?;
    // Sums of the components along the question and across it, halved for each step of the distance.
    let cosine = |along: f64, across: f64| along / along.hypot(across);
    let expected = [
        ("3", cosine(1.0, 0.25 + 0.5 + 0.25)),
        ("4", cosine(0.5, 1.0 + 0.5 + 0.25)),
        ("1", cosine(0.25, 1.0 + 0.5)),
        ("5", cosine(0.25, 0.5 + 1.0 + 0.5)),
        ("6", 0.0),
        ("0", 0.0),
    ];
    let explained = recalled.explained.ok_or("it was asked for")?;
    let (least, greatest) = (explained.least_cosine, explained.greatest_cosine);
    assert!(least.abs() < 1e-6 && (greatest - expected[0].1).abs() < 1e-6, "{explained:?}");
    assert_eq!(recalled.hits.len(), expected.len());
    for (hit, (text, cosine)) in recalled.hits.iter().zip(expected) {
        assert_eq!(text_of(&hit.record), text);
        assert!((hit.score - cosine / greatest).abs() < 1e-6, "{hit:?} {cosine}");
        assert_eq!(hit.parts, Parts { meaning: hit.score, ..Parts::default() });
    }
    // With no window, each record has its own cosine.
    let mut options = RecallOptions::default();
    options.weights.window = 0;
    let alone = asked_with("", options, |query| query.all().limit(2)).by_vector(axis([1.0, 0.0, 0.0, 0.0]));
    assert_eq!(texts(&*provider, &alone).await?, ["3", "6"]);
    Ok(())
}

/// The parts by words are those of the same question without a vector, divided by the best sum of both.
async fn words_and_meaning_add_up(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let turns = ["zebra and apple", "apple apple", "pear", "zebra?", "a horse", "stripes"];
    for (number, text) in turns.into_iter().enumerate() {
        let id = provider.store(said_by("Mel", &format!("a-{number}"), number as i64, text)).await?;
        if number != 1 {
            embed(&*provider, &model, &id.into(), &words.vector(text)).await?;
        }
    }
    let options = RecallOptions { explain: true, ..RecallOptions::default() };
    let recall = asked_with("Mel, zebra or apple", options, |query| query.all());
    let plain = provider.recall(&recall).await?;
    let both = provider.recall(&recall.clone().by_vector(words.vector("stripes zebra"))).await?;
    let (before, after) = (plain.explained.ok_or("explained")?, both.explained.ok_or("explained")?);
    let divisors = |of: &memory_core::Explained| [of.words, of.neighbours, of.together, of.container, of.total];
    assert_eq!(divisors(&before), divisors(&after));
    assert_eq!((before.together_with_meaning, before.least_cosine, before.greatest_cosine), (1.0, 0.0, 0.0));
    let best = after.together_with_meaning;
    assert!(best > 1.0 && best <= 2.2, "{after:?}");
    assert_eq!(both.hits.len(), 6);
    for hit in &both.hits {
        let Parts { words, neighbours, container, meaning, question, speaker } = hit.parts;
        let plain = plain.hits.iter().find(|other| other.record == hit.record).ok_or("all have a neighbour")?.parts;
        let close = |one: f64, other: f64| (one - other).abs() < 1e-12;
        assert!(close(words * best, plain.words), "{hit:?}");
        assert!(close(neighbours * best, plain.neighbours), "{hit:?}");
        assert!(close(container * best, plain.container), "{hit:?}");
        assert_eq!(question, if text_of(&hit.record) == "zebra?" { -0.1 } else { 0.0 });
        // All records are Mel's, who is named.
        let others = words + neighbours + container + meaning + question;
        assert!(close(speaker, 0.15 * others.max(0.0)), "{hit:?}");
        assert_eq!(hit.score, words + neighbours + container + meaning + question + speaker);
        assert!((0.0..=1.2 / best + 1e-12).contains(&meaning), "{hit:?}");
        assert_eq!(meaning == 0.0, hit.record.trigger.as_str().contains("apple apple") || is_least(hit, &both.hits));
    }
    let greatest = both.hits.iter().map(|hit| hit.score - hit.parts.question - hit.parts.speaker).fold(0.0, f64::max);
    assert!((greatest - 1.0).abs() < 1e-12, "the best sum is 1: {greatest}");
    assert!(both.hits.is_sorted_by(|one, next| one.score >= next.score));
    Ok(())
}

/// Whether a hit has the least cosine.
fn is_least(hit: &Hit<Memory>, hits: &[Hit<Memory>]) -> bool {
    hits.iter().all(|other| other.parts.meaning >= hit.parts.meaning)
}

async fn meaning_finds_what_no_word_does(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    for (number, text) in ["a horse eats", "the weather", "stripes all over"].into_iter().enumerate() {
        let id = provider.store(said(&format!("a{number}-0"), number as i64, text)).await?;
        let meant = if number == 2 { "zebra" } else { text };
        embed(&*provider, &model, &id.into(), &words.vector(meant)).await?;
    }
    let recall = asked("which zebra was there?", |query| query.all());
    assert_eq!(answer(&*provider, &recall).await?, (vec![], None), "no record has a word of it");
    let (found, unembedded) = answer(&*provider, &recall.by_vector(words.vector("zebra"))).await?;
    assert_eq!((found.len(), found[0].as_str(), unembedded), (3, "stripes all over", Some(0)));
    Ok(())
}

async fn what_a_meaning_weighs_is_the_callers(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let model = axes_of(&*provider).await?;
    for (number, (text, vector)) in
        [("zebra", [0.0, 1.0, 0.0, 0.0]), ("stripes", [1.0, 0.0, 0.0, 0.0])].into_iter().enumerate()
    {
        let id = provider.store(said(&format!("a{number}-0"), number as i64, text)).await?;
        embed(&*provider, &model, &id.into(), &axis(vector)).await?;
    }
    let found = async |meaning| {
        let mut options = RecallOptions::default();
        options.weights.meaning = meaning;
        let recall = asked_with("zebra", options, |query| query.all()).by_vector(axis([1.0, 0.0, 0.0, 0.0]));
        texts(&*provider, &recall).await
    };
    assert_eq!(found(1.2).await?, ["stripes", "zebra"]);
    assert_eq!(found(0.5).await?, ["zebra", "stripes"]);
    assert_eq!(found(0.0).await?, ["zebra", "stripes"]);
    Ok(())
}

async fn a_vector_shows_in_the_next_recall(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let (words, model) = model_of(&*provider).await?;
    let id = provider.store(said("a", 0, "a zebra")).await?;
    let found = async || Ok::<_, Error>(answer(&*other, &like(&words, "zebra")).await?.0.len());
    assert_eq!(found().await?, 0);
    embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
    assert_eq!(found().await?, 1);
    provider.update(id, MemoryPatch::new().set_context(crate::fixture::context(r#""and more""#))).await?;
    assert_eq!(found().await?, 0);
    embed(&*provider, &model, &id.into(), &words.vector("a zebra and more")).await?;
    assert_eq!(found().await?, 1);
    Ok(())
}

/// Vectors beside the records do not change a recall by words.
async fn a_recall_without_a_vector_is_as_it_was(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut ids = Vec::new();
    for (number, text) in ["zebra and apple", "apple", "pear?"].into_iter().enumerate() {
        ids.push(provider.store(said(&format!("a-{number}"), number as i64, text)).await?);
    }
    let recalls = [asked("apple", |query| query.all()), asked("", |query| query.all())];
    let mut before = Vec::new();
    for recall in &recalls {
        before.push(provider.recall(recall).await?);
    }
    assert_eq!(before.iter().map(|recalled| recalled.unembedded).collect::<Vec<_>>(), [None, None]);
    let (words, model) = model_of(&*provider).await?;
    for id in ids {
        embed(&*provider, &model, &id.into(), &words.vector("pear")).await?;
    }
    for (recall, before) in recalls.iter().zip(&before) {
        assert_eq!(&provider.recall(recall).await?, before);
    }
    Ok(())
}
