//! What a question finds, and how it is read (R2 to R4, R6).

use memory_core::{
    Container, Error, ErrorKind, Language, MAX_NEIGHBOURS, MAX_TEXT, MAX_WORDS, Memory, MemoryQuery, Order,
    QueryBuilder, Recall, RecallOptions, Weights,
};

use super::{asked, asked_with, said, said_by, text_of, texts};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{metadata, query};

chapter!("recall":
    words_count_by_their_stems ["R2"],
    without_a_language_words_count_by_their_first_characters ["R2"],
    ideographs_count_in_pairs ["R2"],
    the_words_of_a_date_find ["R2"],
    a_question_without_terms_finds_nothing ["R2"],
    hostile_questions_are_no_errors_of_the_engine ["R2"],
    long_questions_are_too_large ["R2"],
    what_does_not_go_with_a_recall_is_invalid ["R3", "R4", "R6"],
    a_turn_is_found_by_the_turns_beside_it ["R3", "R6"],
    a_container_is_what_the_caller_names ["R3"],
    rare_terms_come_first ["R4"],
    a_question_seldom_answers_one ["R4"],
    who_is_named_comes_first ["R3", "R4"],
    the_same_score_comes_newest_first ["R4"],
    parts_add_up_and_are_explained ["R4"],
    weights_are_the_callers ["R4"],
);

/// Inflected forms find each other, stop words find nothing, and a question may have a language of its own.
async fn words_count_by_their_stems(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (number, text) in ["She was painting the sunrise", "Two lakes", "Running late again"].into_iter().enumerate() {
        provider.store(said(&format!("a{number}"), 0, text)).await?;
    }
    let table: [(&str, &[&str]); 6] = [
        ("When did she paint?", &["She was painting the sunrise"]),
        ("LAKE", &["Two lakes"]),
        ("run", &["Running late again"]),
        ("runs, lately", &["Running late again"]),
        ("was she the", &[]),
        ("pain", &[]),
    ];
    for (question, expected) in table {
        assert_eq!(texts(&*provider, &asked(question, |query| query.all())).await?, expected, "{question:?}");
    }
    let german = RecallOptions { language: Some(Language::German), ..RecallOptions::default() };
    provider.store(said("a3", 0, "Die Häuser am See")).await?;
    let found = texts(&*provider, &asked_with("Welches Haus?", german, |query| query.all())).await?;
    assert_eq!(found, ["Die Häuser am See"]);
    Ok(())
}

async fn without_a_language_words_count_by_their_first_characters(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a", 0, "the übertragung")).await?;
    let none = || RecallOptions { language: Some(Language::None), ..RecallOptions::default() };
    for (question, is_found) in [("Übertrag", true), ("the", true), ("über", false), ("th", false)] {
        let found = texts(&*provider, &asked_with(question, none(), |query| query.all())).await?;
        assert_eq!(!found.is_empty(), is_found, "{question:?}");
    }
    Ok(())
}

async fn ideographs_count_in_pairs(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (number, text) in ["東京タワー", "京東", "東 京"].into_iter().enumerate() {
        provider.store(said(&format!("a{number}"), 0, text)).await?;
    }
    assert_eq!(texts(&*provider, &asked("東京", |query| query.all())).await?, ["東京タワー"]);
    let mut single = texts(&*provider, &asked("京", |query| query.all())).await?;
    single.sort();
    assert_eq!(single, ["京東", "東 京", "東京タワー"]);
    Ok(())
}

/// The month, year and day of `createdAt`, in UTC, are terms.
async fn the_words_of_a_date_find(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a", -1, "before midnight")).await?;
    provider.store(said("b", 0, "after midnight")).await?;
    assert_eq!(texts(&*provider, &asked("what was on the 7?", |query| query.all())).await?, ["before midnight"]);
    assert_eq!(texts(&*provider, &asked("8 2022", |query| query.all())).await?, ["after midnight"]);
    assert_eq!(texts(&*provider, &asked("in May 2023", |query| query.all())).await?.len(), 2);
    assert_eq!(texts(&*provider, &asked("in June 2024", |query| query.all())).await?, [""; 0]);
    Ok(())
}

async fn a_question_without_terms_finds_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a", 0, "the ??? --- \u{1F600}")).await?;
    for question in ["", " ", "the of and", "???", "\0\u{1}\u{7f}", "\u{1F600}"] {
        let recalled = provider.recall(&asked(question, |query| query.all())).await?;
        assert!(recalled.hits.is_empty() && recalled.complete, "{question:?}");
    }
    let nothing = provider.recall(&asked("midnight", |query| query.all().limit(0))).await?;
    assert!(nothing.hits.is_empty(), "a limit of nothing");
    Ok(())
}

/// Operators and delimiters of query languages are ordinary text here, and the word beside them finds its record.
async fn hostile_questions_are_no_errors_of_the_engine(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a", 0, "one apple")).await?;
    for mark in [
        "\"", "'", "\\", "%", "_", "*", "(", ")", "{", "}", "[", "$", ";", "--", "\0", "\n", "\u{202e}", " AND ", ":",
        "~",
    ] {
        let question = format!("{mark}apple{mark} {mark}");
        assert_eq!(texts(&*provider, &asked(&question, |query| query.all())).await?, ["one apple"], "{question:?}");
    }
    let word = "a".repeat(MAX_TEXT);
    assert!(texts(&*provider, &asked(&word, |query| query.all())).await?.is_empty());
    Ok(())
}

async fn long_questions_are_too_large(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let kind = |question: &str| Recall::new(question, query(|query| query.all())).err().map(|error| error.kind());
    let words = |count: usize| (0..count).map(|word| format!("k{word}q ")).collect::<String>();
    assert_eq!(kind(&"a".repeat(MAX_TEXT + 1)), Some(ErrorKind::TooLarge));
    assert_eq!(kind(&words(MAX_WORDS + 1)), Some(ErrorKind::TooLarge));
    provider.store(said("a", 0, "k7q")).await?;
    assert_eq!(texts(&*provider, &asked(&words(MAX_WORDS), |query| query.all())).await?, ["k7q"]);
    Ok(())
}

async fn what_does_not_go_with_a_recall_is_invalid(_: Stage) -> CaseResult {
    let all = || MemoryQuery::builder().all();
    let kind = |query: QueryBuilder<_>, options| {
        Recall::with("apple", query.build().expect("valid"), options).err().map(|error| error.kind())
    };
    assert_eq!(kind(all(), RecallOptions::default()), None);
    for query in [all().text("x"), all().cursor("x"), all().offset(1), all().order(Order::OldestFirst)] {
        assert_eq!(kind(query, RecallOptions::default()), Some(ErrorKind::InvalidInput));
    }
    let weights = |change: fn(&mut Weights)| {
        let mut options = RecallOptions::default();
        change(&mut options.weights);
        options
    };
    for options in [
        RecallOptions { neighbours: MAX_NEIGHBOURS + 1, ..RecallOptions::default() },
        RecallOptions { container: Container::Depth(0), ..RecallOptions::default() },
        weights(|weights| weights.neighbours = -1.0),
        weights(|weights| weights.container = f64::NAN),
        weights(|weights| weights.speaker = f64::INFINITY),
        weights(|weights| weights.length = 1.1),
        weights(|weights| weights.window = Weights::MAX_WINDOW + 1),
        weights(|weights| weights.candidates = 0),
        weights(|weights| weights.candidates = Weights::MAX_CANDIDATES + 1),
    ] {
        assert_eq!(kind(all(), options.clone()), Some(ErrorKind::InvalidInput), "{options:?}");
    }
    Ok(())
}

/// An answer in a conversation shares no word with its question, and is found as the record right after it.
async fn a_turn_is_found_by_the_turns_beside_it(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let turns =
        ["hello", "nice weather", "Which camera did you buy?", "A small one, from my uncle", "ok", "bye", "see you"];
    for (number, text) in turns.into_iter().enumerate() {
        provider.store(said(&format!("room-1-{number}"), number as i64, text)).await?;
        provider.store(said(&format!("room-2-{number}"), number as i64, "elsewhere")).await?;
    }
    let found = texts(&*provider, &asked("camera", |query| query.under("room"))).await?;
    assert_eq!(found.len(), 5, "the turn and two on each side: {found:?}");
    assert_eq!(found[0], "Which camera did you buy?");
    assert!(!found.contains(&"bye".to_owned()) && !found.contains(&"elsewhere".to_owned()), "{found:?}");
    let options = RecallOptions { neighbours: 1, ..RecallOptions::default() };
    let recalled = provider.recall(&asked_with("camera", options, |query| query.under("room").limit(1))).await?;
    let [hit] = recalled.hits.as_slice() else { panic!("one hit: {recalled:?}") };
    let around = |memories: &[Memory]| memories.iter().map(text_of).collect::<Vec<_>>();
    assert_eq!(around(&hit.before), ["nice weather"]);
    assert_eq!(around(&hit.after), ["A small one, from my uncle"]);
    Ok(())
}

async fn a_container_is_what_the_caller_names(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut beside = said("a-x-2", 2, "beside");
    beside.metadata = metadata(r#"{"room":"blue"}"#);
    let mut camera = said("a-y-1", 1, "camera");
    camera.metadata = beside.metadata.clone();
    for memory in [camera, beside, said("a-y-3", 3, "third"), said("b", 0, "alone")] {
        provider.store(memory).await?;
    }
    let found = async |container| {
        let options = RecallOptions { container, ..RecallOptions::default() };
        let mut found = texts(&*provider, &asked_with("camera", options, |query| query.all())).await?;
        found.sort();
        Ok::<_, Error>(found)
    };
    assert_eq!(found(Container::Parent).await?, ["camera", "third"]);
    assert_eq!(found(Container::Depth(1)).await?, ["beside", "camera", "third"]);
    assert_eq!(found(Container::Depth(9)).await?, ["camera"]);
    assert_eq!(found(Container::Metadata("room".to_owned())).await?, ["beside", "camera"]);
    Ok(())
}

async fn rare_terms_come_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..9 {
        provider.store(said(&format!("a{number}"), number, "garden party")).await?;
    }
    provider.store(said("a9", 100, "garden zebra")).await?;
    let found = texts(&*provider, &asked("a party with a zebra", |query| query.all())).await?;
    assert_eq!((found.len(), found[0].as_str()), (10, "garden zebra"));
    Ok(())
}

async fn a_question_seldom_answers_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said("a", 2, "which zebra?")).await?;
    provider.store(said("b", 1, "which zebra;")).await?;
    let recalled = provider.recall(&asked("zebra", |query| query.all())).await?;
    let [statement, question] = recalled.hits.as_slice() else { panic!("two hits: {recalled:?}") };
    assert_eq!((statement.parts.question, question.parts.question), (0.0, -0.1));
    assert_eq!(text_of(&question.record), "which zebra?");
    Ok(())
}

async fn who_is_named_comes_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(said_by("Mel", "a", 2, "a zebra")).await?;
    provider.store(said_by("Caroline Smith", "b", 1, "a zebra")).await?;
    let speakers = async |question: &str| {
        let recalled = provider.recall(&asked(question, |query| query.all())).await?;
        Ok::<_, Error>(recalled.hits.iter().map(|hit| hit.parts.speaker > 0.0).collect::<Vec<_>>())
    };
    assert_eq!(speakers("Did Caroline see a zebra?").await?, [true, false]);
    assert_eq!(speakers("Did Caroline and Mel see a zebra?").await?, [false, false]);
    assert_eq!(speakers("Did anybody see a zebra?").await?, [false, false]);
    provider.store(said_by("田中", "c", 0, "a zebra")).await?;
    assert_eq!(speakers("田中さん: zebra").await?, [true, false, false]);
    Ok(())
}

async fn the_same_score_comes_newest_first(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut ids = Vec::new();
    for (number, millis) in [3, 1, 2, 2, 1].into_iter().enumerate() {
        ids.push((millis, provider.store(said(&format!("a{number}"), millis, "zebra")).await?));
    }
    ids.sort();
    ids.reverse();
    let recalled = provider.recall(&asked("zebra", |query| query.all())).await?;
    let found: Vec<_> = recalled.hits.iter().map(|hit| hit.record.id).collect();
    assert_eq!(found, ids.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    Ok(())
}

async fn parts_add_up_and_are_explained(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (number, text) in ["zebra and apple", "apple apple", "pear", "zebra?"].into_iter().enumerate() {
        provider.store(said_by("Mel", &format!("a-{number}"), number as i64, text)).await?;
    }
    let plain = provider.recall(&asked("Mel, zebra or apple", |query| query.all())).await?;
    assert!(plain.explained.is_none() && plain.hits.iter().all(|hit| hit.terms.is_none()));
    let options = RecallOptions { explain: true, ..RecallOptions::default() };
    let recalled = provider.recall(&asked_with("Mel, zebra or apple", options, |query| query.all())).await?;
    assert_eq!(recalled.hits.len(), 4);
    for hit in &recalled.hits {
        let parts = hit.parts;
        assert_eq!(hit.score, parts.words + parts.neighbours + parts.container + parts.question + parts.speaker);
    }
    let explained = recalled.explained.expect("it was asked for");
    assert_eq!(explained.records, 4);
    let apples = recalled.hits.iter().find(|hit| text_of(&hit.record) == "apple apple").expect("found");
    let [apple] = apples.terms.as_deref().expect("it was asked for") else { panic!("{apples:?}") };
    assert_eq!((apple.term.as_str(), apple.count), ("appl", 2));
    // Two of the four records hold it.
    assert!((apple.idf - 2.0_f64.ln()).abs() < 1e-12, "{apple:?}");
    Ok(())
}

async fn weights_are_the_callers(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (number, text) in ["zebra", "one", "two", "three", "apple"].into_iter().enumerate() {
        provider.store(said(&format!("a-{number}"), number as i64, text)).await?;
    }
    let weights = |window, candidates| {
        let weights = Weights { window, candidates, ..Weights::default() };
        RecallOptions { weights, ..RecallOptions::default() }
    };
    let found =
        async |question: &str, options| texts(&*provider, &asked_with(question, options, |query| query.all())).await;
    assert_eq!(found("zebra", weights(0, 200)).await?, ["zebra"]);
    assert_eq!(found("zebra", weights(4, 200)).await?.len(), 5);
    assert_eq!(found("zebra apple", weights(0, 1)).await?, ["apple"], "the newest of two that are as good");
    Ok(())
}
