//! Recalls for which a model makes the vector (M4).

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use memory_core::{Embedder, ErrorKind, MemoryProvider, MemoryRecall, Precision};
use tokio::time::timeout;

use super::{PATIENCE, answer, embed, model_of, written};
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{asked, asked_notes, said, said_by, shown};
use crate::embedder::{Manner, WordModel};
use crate::fixture::{NOTES, collection, document_id, kind, note, put, query};

chapter!("meaning":
    a_model_answers_as_its_vector_does ["M4", "M3"] needs Vectors,
    names_of_speakers_are_not_asked_for ["M4"] needs Vectors,
    where_a_model_fails_words_answer ["M4"] needs Vectors,
    a_question_without_a_term_needs_its_vector ["M4"] needs Vectors,
    a_model_that_hangs_is_not_waited_for ["M4", "L6"] needs Vectors,
    a_model_that_hangs_holds_up_no_words ["M4", "L8"] needs Vectors,
    nothing_is_held_while_a_model_is_asked ["M4", "L8"] needs Vectors,
    another_model_is_refused ["M4", "M1"] needs Vectors,
    words_answer_for_another_model_where_they_may ["M4", "M1"] needs Vectors,
    a_model_is_asked_only_where_it_counts ["M4"] needs Vectors,
);

/// Wrong ways to answer. For each of them, words alone answer the recall.
const WRONG: [Manner; 6] =
    [Manner::Fails, Manner::OneTooFew, Manner::OneTooMany, Manner::TooWide, Manner::NotFinite, Manner::Zeros];

/// How many attempts are made to see other calls finish.
const ATTEMPTS: usize = 5;

fn by(recall: MemoryRecall, model: &Arc<WordModel>) -> MemoryRecall {
    recall.by_meaning(Arc::clone(model) as Arc<dyn Embedder>)
}

/// Stores three memories with vectors and one without, and a note.
async fn told(provider: &dyn MemoryProvider) -> memory_core::Result<Arc<WordModel>> {
    let (words, model) = model_of(provider).await?;
    for (number, text) in ["a zebra eats", "two horses", "stripes", "zebra"].into_iter().enumerate() {
        let id = provider.store(said(&format!("a{number}-0"), number as i64, text)).await?;
        if number < 3 {
            embed(provider, &model, &id.into(), &words.vector(text)).await?;
        }
    }
    put(provider, written("n", "a", "a zebra eats")).await?;
    embed(provider, &model, &note("n"), &words.vector("a zebra eats")).await?;
    Ok(Arc::new(words))
}

/// A recall by a model gives the same answer, to the bit, as one by its vector, in the ledger and among documents.
async fn a_model_answers_as_its_vector_does(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    for question in ["which zebra has stripes?", "what", "???"] {
        let recall = asked(question, |query| query.all());
        let by_vector = provider.recall(&recall.clone().by_vector(words.vector(question))).await?;
        let by_meaning = provider.recall(&by(recall, &words)).await?;
        assert_eq!(by_meaning, by_vector);
        assert_eq!(shown(&by_meaning), shown(&by_vector), "{question:?}");
        assert_eq!((by_meaning.unembedded, by_meaning.complete), (Some(1), true));
        assert_eq!(words.take_asked(), [question]);
        let recall = asked_notes(question, |query| query.all());
        let by_vector = provider.documents().recall(&recall.clone().by_vector(words.vector(question))).await?;
        let by_meaning = recall.by_meaning(Arc::clone(&words) as Arc<dyn Embedder>);
        let by_meaning = provider.documents().recall(&by_meaning).await?;
        assert_eq!(by_meaning, by_vector);
        assert_eq!((by_meaning.hits.len(), by_meaning.unembedded), (1, Some(0)));
        assert_eq!(words.take_asked(), [question]);
    }
    Ok(())
}

/// The names of speakers of the scope, and of no others, are left out of the text that the model embeds.
async fn names_of_speakers_are_not_asked_for(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (words, model) = model_of(&*provider).await?;
    let words = Arc::new(words);
    for (number, speaker) in ["Caroline Smith", "Mel", "田中", "X"].into_iter().enumerate() {
        provider.store(said_by(speaker, &format!("a-{number}"), number as i64, "a zebra")).await?;
    }
    provider.store(said_by("Bob", "b", 9, "a zebra")).await?;
    // If no record of the scope has a vector, the model is not called.
    let id = provider.store(said("a-4", 4, "a zebra")).await?;
    embed(&*provider, &model, &id.into(), &words.vector("a zebra")).await?;
    for (question, expected) in [
        ("What did Caroline paint?", vec!["What", "did", "paint?"]),
        ("What did CAROLINE and mel paint", vec!["What", "did", "and", "paint"]),
        ("Did Bob see a zebra?", vec!["Did", "Bob", "see", "a", "zebra?"]),
        ("Did X see a zebra?", vec!["Did", "X", "see", "a", "zebra?"]),
        ("田中 zebra", vec!["zebra"]),
        // If only names are left, the whole question is embedded.
        ("Caroline Smith, and Mel?", vec!["Caroline", "Smith,", "and", "Mel?"]),
    ] {
        provider.recall(&by(asked(question, |query| query.under("a")), &words)).await?;
        let texts = words.take_asked();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert_eq!(texts[0].split_whitespace().collect::<Vec<_>>(), expected, "{question:?}");
    }
    // Words still find by the name.
    let recalled = provider.recall(&by(asked("Mel zebra", |query| query.under("a")), &words)).await?;
    assert!(recalled.hits.iter().any(|hit| hit.parts.speaker > 0.0), "{recalled:?}");
    Ok(())
}

/// The answer by words is the same, to the bit, as without a model, and says that meaning took no part.
async fn where_a_model_fails_words_answer(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    let (recall, notes) = (asked("zebra", |query| query.all()), asked_notes("zebra", |query| query.all()));
    let (plain, plain_notes) = (provider.recall(&recall).await?, provider.documents().recall(&notes).await?);
    assert_eq!((plain.hits.len(), plain.unembedded), (2, None));
    for manner in WRONG {
        words.answers(manner);
        assert_eq!(provider.recall(&by(recall.clone(), &words)).await?, plain, "{manner:?}");
        let by_meaning = notes.clone().by_meaning(Arc::clone(&words) as Arc<dyn Embedder>);
        assert_eq!(provider.documents().recall(&by_meaning).await?, plain_notes, "{manner:?}");
        assert_eq!(words.take_asked(), ["zebra", "zebra"], "{manner:?}");
    }
    words.answers(Manner::Soundly);
    assert_eq!(provider.recall(&by(recall, &words)).await?.unembedded, Some(1));
    Ok(())
}

async fn a_question_without_a_term_needs_its_vector(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    for manner in WRONG {
        words.answers(manner);
        for question in ["the of and", "???"] {
            let refused = provider.recall(&by(asked(question, |query| query.all()), &words)).await;
            let expected = if manner == Manner::Fails { ErrorKind::Unavailable } else { ErrorKind::Unexpected };
            assert_eq!(kind(refused), Some(expected), "{manner:?}");
        }
    }
    words.take_asked();
    // A blank question is not embedded.
    for question in ["", " \n"] {
        let (found, unembedded) = answer(&*provider, &by(asked(question, |query| query.all()), &words)).await?;
        assert_eq!((found.len(), unembedded, words.take_asked().len()), (0, None, 0), "{question:?}");
    }
    Ok(())
}

/// A recall waits for a model for five seconds, or half of the remaining time if that is less.
async fn a_model_that_hangs_is_not_waited_for(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    words.answers(Manner::Hangs);
    let hasty = stage.clone().with_deadline(Duration::from_secs(4)).open().await?;
    let recall = || by(asked("zebra", |query| query.all()), &words);
    let begin = Instant::now();
    let timed = async |handle: &Arc<dyn MemoryProvider>, recall: MemoryRecall| {
        let found = handle.recall(&recall).await;
        (found, begin.elapsed())
    };
    let without_terms = by(asked("???", |query| query.all()), &words);
    let ((of_hasty, hasty_took), (of_patient, patient_took), (refused, _)) =
        futures::join!(timed(&hasty, recall()), timed(&provider, recall()), timed(&hasty, without_terms));
    let plain = provider.recall(&asked("zebra", |query| query.all())).await?;
    assert_eq!((of_hasty?, of_patient?), (plain.clone(), plain));
    assert_eq!(kind(refused), Some(ErrorKind::Timeout));
    // A call of the patient handle has 30 seconds, and most of them are left.
    assert!(
        hasty_took < Duration::from_secs(4) && patient_took < Duration::from_secs(10),
        "{hasty_took:?} {patient_took:?}"
    );
    Ok(())
}

/// If more costly recalls are in flight than may wait for a model, the others are answered by their words.
async fn a_model_that_hangs_holds_up_no_words(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    words.answers(Manner::Hangs);
    let provider = stage.with_deadline(Duration::from_secs(10)).open().await?;
    let costly = asked("zebra", |query| query.all().filter_text("text LIKE '%zebra%'"));
    let plain = provider.recall(&costly).await?;
    assert_eq!((plain.hits.len(), plain.unembedded), (2, None));
    let count = 4 * available_parallelism().map_or(2, usize::from).max(2);
    let recalls = (0..count).map(|_| async {
        let by_meaning = by(costly.clone(), &words);
        provider.recall(&by_meaning).await
    });
    for recalled in futures::future::try_join_all(recalls).await? {
        assert_eq!(recalled, plain);
    }
    Ok(())
}

/// More recalls than there are permits wait for their vectors, and all other calls continue meanwhile.
async fn nothing_is_held_while_a_model_is_asked(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    words.answers(Manner::Hangs);
    // A recall waits for five seconds at most, in which a busy machine may not finish the others.
    for _ in 0..ATTEMPTS {
        if others_go_on(&provider, &words).await? {
            return Ok(());
        }
    }
    panic!("while a model is asked, other calls wait until that has ended");
}

/// Whether other calls finish while all of the recalls still wait.
async fn others_go_on(
    provider: &Arc<dyn MemoryProvider>,
    words: &Arc<WordModel>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let count = available_parallelism().map_or(2, usize::from).max(2) + 1;
    let recall = |number: usize| {
        let (provider, words) = (Arc::clone(provider), Arc::clone(words));
        let question = if number.is_multiple_of(2) { "zebra" } else { "zebra stripes" };
        tokio::spawn(async move { provider.recall(&by(asked(question, |query| query.all()), &words)).await })
    };
    let recalls: Vec<_> = (0..count).map(recall).collect();
    for _ in 0..count {
        timeout(PATIENCE, words.called()).await?;
    }
    let id = provider.store(said("b", 0, "another")).await?;
    put(&**provider, written("m", "b", "another")).await?;
    // A call that takes a permit.
    provider.query(&query(|query| query.all().filter_text("text LIKE '%other%'"))).await?;
    provider.recall(&asked("zebra", |query| query.all())).await?;
    provider.documents().get(&collection(NOTES), &document_id("m")).await?;
    embed(&**provider, &words.kept(Precision::Compact), &id.into(), &words.vector("another")).await?;
    words.release();
    let mut answered = 0;
    for recall in recalls {
        answered += usize::from(recall.await??.unembedded.is_some());
    }
    words.hold();
    Ok(answered == count)
}

/// A model other than that of the namespace is refused without being called.
async fn another_model_is_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    told(&*provider).await?;
    for other in [WordModel::new("others"), WordModel::with_width("words", 33)] {
        let other = Arc::new(other);
        for question in ["zebra", "???"] {
            for manner in [Manner::Soundly, Manner::Fails] {
                other.answers(manner);
                let refused = provider.recall(&by(asked(question, |query| query.all()), &other)).await;
                assert_eq!(kind(refused), Some(ErrorKind::SchemaMismatch));
            }
            let notes = asked_notes(question, |query| query.all());
            let notes = notes.by_meaning(Arc::clone(&other) as Arc<dyn Embedder>);
            assert_eq!(kind(provider.documents().recall(&notes).await), Some(ErrorKind::SchemaMismatch));
        }
        assert!(other.take_asked().is_empty());
    }
    Ok(())
}

/// If the recall allows words, they answer as if no model had been named, and a question without a term finds nothing.
async fn words_answer_for_another_model_where_they_may(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    let other = Arc::new(WordModel::new("others"));
    for question in ["zebra", "???"] {
        let recall = asked(question, |query| query.all());
        let plain = provider.recall(&recall).await?;
        assert_eq!(provider.recall(&recall.clone().by_meaning_or_words(Arc::clone(&other) as _)).await?, plain);
        let notes = asked_notes(question, |query| query.all());
        let plain = provider.documents().recall(&notes).await?;
        assert_eq!(provider.documents().recall(&notes.by_meaning_or_words(Arc::clone(&other) as _)).await?, plain);
        let by_meaning = provider.recall(&by(recall.clone(), &words)).await?;
        assert_eq!(provider.recall(&recall.by_meaning_or_words(Arc::clone(&words) as _)).await?, by_meaning);
    }
    assert!(other.take_asked().is_empty());
    Ok(())
}

/// A recall by words or by a vector calls no model, nor does a recall by a model if no record of its scope has a vector.
async fn a_model_is_asked_only_where_it_counts(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = told(&*provider).await?;
    provider.recall(&asked("zebra", |query| query.all())).await?;
    provider.recall(&asked("zebra", |query| query.all()).by_vector(words.vector("zebra"))).await?;
    assert!(words.take_asked().is_empty());
    // Nor is it called if no record of the scope has a vector.
    for (space, count) in [("a3", 1), ("nowhere", 0)] {
        let recalled = provider.recall(&by(asked("zebra", |query| query.under(space)), &words)).await?;
        assert_eq!((recalled.hits.len(), recalled.unembedded), (count, Some(count)));
        assert!(words.take_asked().is_empty());
    }
    Ok(())
}
