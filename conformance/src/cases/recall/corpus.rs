//! Random corpora and questions, compared with an oracle.

use memory_core::{Expect, MemoryPatch, MemoryProvider, RecallOptions, Result, Status, Weights};

use super::oracle::{Told, rank};
use super::{DAY, asked_notes_with, asked_with, said, said_by};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, context, new_document};
use crate::random::{Random, mix};

chapter!("recall":
    random_corpora_are_ranked_as_by_an_oracle ["R1", "R3", "R4", "R6"],
    random_documents_are_ranked_as_by_an_oracle ["R1", "R3", "R4", "R6"],
);

/// The terms of the day on which all of a corpus is created.
const DATE: &str = "may 2023 8";
/// How many questions each corpus gets.
const QUESTIONS: usize = 4;

/// Words of several scripts with Zipf's distribution; equal, empty and long texts; random orders of time; updates that change words. All
/// corpora lie in one namespace.
async fn random_corpora_are_ranked_as_by_an_oracle(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..u64::from(stage.settings().sequences) {
        let seed = mix(stage.settings().seed).wrapping_add(number);
        let mut random = Random::new(seed);
        let root = format!("c{number}");
        let told = tell(&*provider, &root, &mut random).await?;
        for _ in 0..QUESTIONS {
            let (question, status) = (question(&mut random), random.below(3) == 0);
            let told: Vec<Told> = told
                .iter()
                .map(|(record, is_completed)| Told { is_wanted: !status || *is_completed, ..record.clone() })
                .collect();
            let (candidates, options) = options(&mut random);
            let recall = asked_with(&question, options, |query| {
                let query = query.under(&root).limit(1_000);
                if status { query.status(Status::Completed) } else { query }
            });
            let recalled = provider.recall(&recall).await?;
            let found = recalled.hits.iter().map(|hit| (hit.record.id.as_bytes().to_vec(), hit.score)).collect();
            assert!(recalled.complete && recalled.examined == told.len(), "seed {seed}");
            compare(found, &told, &question, candidates, seed);
        }
    }
    Ok(())
}

async fn random_documents_are_ranked_as_by_an_oracle(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for number in 0..u64::from(stage.settings().sequences / 4) {
        let seed = mix(stage.settings().seed).wrapping_add(number);
        let mut random = Random::new(seed);
        let mut told = Vec::new();
        for place in 0..1 + random.below(30) {
            let (id, millis) = (format!("{number}-{place}"), random.below(20) as i64);
            let container = format!("c{number}-r{}", random.below(3));
            // A second put may replace the text; the id and the createdAt stay.
            let mut content = text(&mut random);
            for time in 0..1 + random.below(2) {
                content = if time == 0 { content } else { text(&mut random) };
                let mut write = new_document(NOTES, &id, &format!("{container}-{place}"), &content).expect(Expect::Any);
                write.created_at = at(DAY + millis);
                documents.put(write).await?;
            }
            let text = format!("{content} {DATE}");
            told.push(Told {
                id: id.into_bytes(),
                millis: DAY + millis,
                container,
                text,
                speaker: None,
                is_wanted: true,
            });
        }
        for _ in 0..QUESTIONS {
            let question = question(&mut random);
            let (candidates, options) = options(&mut random);
            let recall = asked_notes_with(&question, options, |query| query.under(format!("c{number}")).limit(1_000));
            let hits = documents.recall(&recall).await?.hits;
            let found = hits.iter().map(|hit| (hit.record.id.as_str().as_bytes().to_vec(), hit.score)).collect();
            compare(found, &told, &question, candidates, seed);
        }
    }
    Ok(())
}

/// Stores a corpus. Returns each memory, and whether it is completed.
async fn tell(provider: &dyn MemoryProvider, root: &str, random: &mut Random) -> Result<Vec<(Told, bool)>> {
    let most = [5, 40, 90][random.below(3)];
    let count = 1 + random.below(most);
    let mut memories = Vec::new();
    let mut told = Vec::new();
    for place in 0..count {
        let millis = random.below(2 * count) as i64;
        let container = format!("{root}-r{}", random.below(3));
        let speaker = ["", "k1", "k2", "ж3"][random.below(4)];
        let is_completed = random.below(2) == 0;
        let text = if place > 0 && random.below(8) == 0 { String::new() } else { text(random) };
        let space = format!("{container}-{place}");
        let mut memory =
            if speaker.is_empty() { said(&space, millis, &text) } else { said_by(speaker, &space, millis, &text) };
        memory.status = if is_completed { Status::Completed } else { Status::Observed };
        memories.push(memory);
        let speaker = (!speaker.is_empty()).then(|| speaker.to_owned());
        let text = format!("{text} {DATE}");
        let record = Told { id: Vec::new(), millis: DAY + millis, container, text, speaker, is_wanted: true };
        told.push((record, is_completed));
    }
    let ids = provider.store_many(memories).await?;
    for ((record, _), id) in told.iter_mut().zip(ids) {
        record.id = id.as_bytes().to_vec();
        if random.below(6) == 0 {
            let more = text(random);
            let patch = MemoryPatch::new().set_context(context(&serde_json::json!([more]).to_string()));
            provider.update(id, patch).await?;
            record.text = format!("{} {more}", record.text);
        }
    }
    Ok(told)
}

/// Random words: a few are frequent and most are rare.
fn text(random: &mut Random) -> String {
    let count = if random.below(30) == 0 { 400 } else { random.below(12) };
    let mut words: Vec<_> = (0..count).map(|_| word(random)).collect();
    if random.below(5) == 0 {
        words.push(format!("{}?", word(random)));
    }
    words.join(" ")
}

/// The number of candidates, few or as many as usual, and the options with it.
fn options(random: &mut Random) -> (usize, RecallOptions) {
    let candidates = [200, 200, 3, 7][random.below(4)];
    let weights = Weights { candidates, ..Weights::default() };
    (candidates, RecallOptions { weights, ..RecallOptions::default() })
}

fn question(random: &mut Random) -> String {
    let mut words: Vec<_> = (0..1 + random.below(5)).map(|_| word(random)).collect();
    if random.below(10) == 0 {
        words.push("2023".to_owned());
    }
    words.join(" ")
}

/// A word that is a term without stemming: a letter of some script, and its rank.
fn word(random: &mut Random) -> String {
    let rank = 60 / (1 + random.below(60));
    format!("{}{rank}", ["k", "Ж", "λ", "ن"][random.below(4)])
}

fn compare(found: Vec<(Vec<u8>, f64)>, told: &[Told], question: &str, candidates: usize, seed: u64) {
    let expected = rank(told, question, candidates);
    assert_eq!(found, expected, "{question:?} in {told:#?} of the seed {seed}");
}
