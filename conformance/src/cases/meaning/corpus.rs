//! Random scopes, compared with brute force (M3).

use memory_core::{
    Container, Embedding, Explained, MemoryProvider, Parts, Precision, RecallOptions, Recalled, RecordId, Result,
    Revision, Status, VectorModel, Weights,
};

use super::oracle::{Told, cosines};
use super::written;
use crate::case::{CaseResult, Stage, chapter};
use crate::cases::recall::{DAY, asked_notes_with, asked_with, said};
use crate::embedder::WordModel;
use crate::fixture::{at, metadata, note, put};
use crate::random::{Random, mix};

chapter!("meaning":
    random_scopes_are_ranked_as_by_brute_force ["M3", "R3", "R5", "R6"] needs Vectors,
    random_documents_are_ranked_as_by_brute_force ["M3", "R3", "R6"] needs Vectors,
);

/// How many questions each scope gets.
const QUESTIONS: usize = 2;
/// How far a cosine may be from the exact one: for a compact vector, the numbers of the question are rounded to 16 bits.
const CLOSE: f64 = 1e-4;
/// How far the parts by words may be from the exact ones, since they are divided and multiplied again.
const EQUAL: f64 = 1e-9;

/// Compact and exact vectors, records without a vector, equal texts, and random orders of time. All scopes of one precision lie in one
/// namespace.
async fn random_scopes_are_ranked_as_by_brute_force(stage: Stage) -> CaseResult {
    for (precision, offset) in [(Precision::Compact, 0), (Precision::Exact, 1)] {
        let provider = stage.elsewhere().open().await?;
        let words = WordModel::new("words");
        let model = words.kept(precision);
        provider.set_vector_model(&model).await?;
        for number in (offset..u64::from(stage.settings().sequences)).step_by(2) {
            let seed = mix(stage.settings().seed ^ 0x4D).wrapping_add(number);
            let mut random = Random::new(seed);
            let root = format!("c{number}");
            let mut scope = tell(&*provider, &words, &model, &root, &mut random).await?;
            for _ in 0..QUESTIONS {
                let how = How::chosen(&mut random);
                scope
                    .told
                    .iter_mut()
                    .zip(&scope.places)
                    .for_each(|(told, place)| told.container = how.of(&root, place));
                let statuses = &scope.completed;
                let is_wanted = |is_completed: bool| !how.has_status || is_completed;
                scope.told.iter_mut().zip(statuses).for_each(|(told, done)| told.is_wanted = is_wanted(*done));
                let recall = |question: &str| {
                    asked_with(question, how.options(), |query| {
                        let query = query.under(&root).limit(how.limit);
                        if how.has_status { query.status(Status::Completed) } else { query }
                    })
                };
                let id = |memory: &memory_core::Memory| memory.id.as_bytes().to_vec();
                let (question, meant) = (text(&mut random), text(&mut random));
                let vector = words.vector(&meant);
                let alone = answer(provider.recall(&recall("").by_vector(vector.clone())).await?, id);
                let plain = answer(provider.recall(&recall(&question)).await?, id);
                let both = answer(provider.recall(&recall(&question).by_vector(vector.clone())).await?, id);
                let numbers: Vec<_> = vector.numbers().into_iter().map(f64::from).collect();
                let expected = Expected::of(&scope.told, &numbers, &how);
                let context = || format!("seed {seed}: {question:?}, {meant:?} and {how:?} in {:#?}", scope.told);
                expected.check_alone(&alone).map_err(|wrong| format!("by meaning alone {wrong}; {}", context()))?;
                expected.check_both(&plain, &both).map_err(|wrong| format!("by both {wrong}; {}", context()))?;
            }
        }
    }
    Ok(())
}

async fn random_documents_are_ranked_as_by_brute_force(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let words = WordModel::new("words");
    let model = words.kept(Precision::Compact);
    provider.set_vector_model(&model).await?;
    for number in 0..u64::from(stage.settings().sequences / 2) {
        let seed = mix(stage.settings().seed ^ 0x4E).wrapping_add(number);
        let mut random = Random::new(seed);
        let (mut told, mut embeddings) = (Vec::new(), Vec::new());
        for place in 0..1 + random.below(30) {
            let (id, millis, text) = (format!("{number}-{place}"), random.below(20) as i64, text(&mut random));
            let container = format!("c{number}-r{}", random.below(3));
            let mut write = written(&id, &format!("{container}-{place}"), &text);
            write.created_at = at(DAY + millis);
            put(&*provider, write).await?;
            if random.below(4) > 0 {
                let (record, revision) = (note(&id), Revision::FIRST);
                embeddings.push(Embedding { record, revision, vector: words.vector(&text), texts: None });
            }
            let (id, millis) = (id.into_bytes(), DAY + millis);
            told.push(Told { id, millis, container, vector: None, is_wanted: true });
        }
        assert!(provider.embed(&model, embeddings).await?.into_iter().all(|kept| kept), "seed {seed}");
        let names: Vec<_> = (0..told.len()).map(|place| note(&format!("{number}-{place}"))).collect();
        read_vectors(&*provider, &names, &mut told).await?;
        for _ in 0..QUESTIONS {
            let how = How { has_status: false, container: 0, ..How::chosen(&mut random) };
            let recall = |question: &str| {
                asked_notes_with(question, how.options(), |query| query.under(format!("c{number}")).limit(how.limit))
            };
            let id = |document: &memory_core::Document| document.id.as_str().as_bytes().to_vec();
            let (question, meant) = (text(&mut random), text(&mut random));
            let (vector, documents) = (words.vector(&meant), provider.documents());
            let alone = answer(documents.recall(&recall("").by_vector(vector.clone())).await?, id);
            let plain = answer(documents.recall(&recall(&question)).await?, id);
            let both = answer(documents.recall(&recall(&question).by_vector(vector.clone())).await?, id);
            let numbers: Vec<_> = vector.numbers().into_iter().map(f64::from).collect();
            let expected = Expected::of(&told, &numbers, &how);
            let context = || format!("seed {seed}: {question:?}, {meant:?} and {how:?} in {told:#?}");
            expected.check_alone(&alone).map_err(|wrong| format!("by meaning alone {wrong}; {}", context()))?;
            expected.check_both(&plain, &both).map_err(|wrong| format!("by both {wrong}; {}", context()))?;
        }
    }
    Ok(())
}

/// The memories of one scope.
struct Scope {
    told: Vec<Told>,
    /// The room, the number and the color of each memory.
    places: Vec<Place>,
    /// Whether each memory is completed.
    completed: Vec<bool>,
}

#[derive(Debug)]
struct Place {
    room: usize,
    number: usize,
    /// The color in its metadata.
    color: Option<&'static str>,
}

async fn tell(
    provider: &dyn MemoryProvider,
    words: &WordModel,
    model: &VectorModel,
    root: &str,
    random: &mut Random,
) -> Result<Scope> {
    let most = [5, 40, 90][random.below(3)];
    let count = 1 + random.below(most);
    let (mut memories, mut texts) = (Vec::new(), Vec::new());
    let mut scope = Scope { told: Vec::new(), places: Vec::new(), completed: Vec::new() };
    for number in 0..count {
        let place = Place { room: random.below(3), number, color: [None, Some("red"), Some("blue")][random.below(3)] };
        let (millis, text, is_completed) = (random.below(2 * count) as i64, text(random), random.below(2) == 0);
        let mut memory = said(&place.space(root), millis, &text);
        memory.status = if is_completed { Status::Completed } else { Status::Observed };
        if let Some(color) = place.color {
            memory.metadata = metadata(&serde_json::json!({ "color": color }).to_string());
        }
        memories.push(memory);
        texts.push(text);
        let (id, container, vector) = Default::default();
        scope.told.push(Told { id, millis: DAY + millis, container, vector, is_wanted: true });
        scope.places.push(place);
        scope.completed.push(is_completed);
    }
    let ids = provider.store_many(memories).await?;
    let mut embeddings = Vec::new();
    for ((told, id), text) in scope.told.iter_mut().zip(&ids).zip(&texts) {
        told.id = id.as_bytes().to_vec();
        if random.below(4) > 0 {
            let (record, revision) = ((*id).into(), Revision::FIRST);
            embeddings.push(Embedding { record, revision, vector: words.vector(text), texts: None });
        }
    }
    assert!(provider.embed(model, embeddings).await?.into_iter().all(|kept| kept));
    let names: Vec<_> = ids.into_iter().map(RecordId::from).collect();
    read_vectors(provider, &names, &mut scope.told).await?;
    Ok(scope)
}

impl Place {
    fn space(&self, root: &str) -> String {
        format!("{root}-r{}-{}", self.room, self.number)
    }
}

/// Reads the vectors as the storage keeps them.
async fn read_vectors(provider: &dyn MemoryProvider, names: &[RecordId], told: &mut [Told]) -> Result<()> {
    for (told, embedding) in told.iter_mut().zip(provider.vectors(names).await?) {
        let numbers = embedding.map(|embedding| embedding.vector.numbers());
        told.vector = numbers.map(|numbers| numbers.into_iter().map(f64::from).collect());
    }
    Ok(())
}

/// The options, the limit and the condition of a recall.
#[derive(Debug)]
struct How {
    /// 0: the space above; 1: the first segment of the space; 2: the metadata key `color`.
    container: usize,
    window: usize,
    candidates: usize,
    limit: usize,
    has_status: bool,
}

impl How {
    fn chosen(random: &mut Random) -> Self {
        Self {
            container: random.below(3),
            window: [2, 2, 0, 1, 5][random.below(5)],
            candidates: [200, 200, 200, 3, 7][random.below(5)],
            limit: [1_000, 1_000, 50, 4][random.below(4)],
            has_status: random.below(3) == 0,
        }
    }

    fn options(&self) -> RecallOptions {
        let container = match self.container {
            0 => Container::Parent,
            1 => Container::Depth(1),
            _ => Container::Metadata("color".to_owned()),
        };
        let (window, candidates) = (self.window, self.candidates);
        let weights = Weights { window, candidates, ..Weights::default() };
        RecallOptions { container, weights, explain: true, ..RecallOptions::default() }
    }

    /// The container of a memory at this place.
    fn of(&self, root: &str, place: &Place) -> String {
        match (self.container, place.color) {
            (1, _) => "all".to_owned(),
            (2, Some(color)) => color.to_owned(),
            _ => format!("the space {root}-r{}", place.room),
        }
    }
}

/// The answer to a recall.
struct Answer {
    hits: Vec<Found>,
    explained: Explained,
    examined: usize,
    unembedded: Option<usize>,
}

struct Found {
    id: Vec<u8>,
    score: f64,
    parts: Parts,
}

fn answer<T>(recalled: Recalled<T>, id: impl Fn(&T) -> Vec<u8>) -> Answer {
    assert!(recalled.complete, "the recall is not complete");
    let found = |hit: &memory_core::Hit<T>| Found { id: id(&hit.record), score: hit.score, parts: hit.parts };
    Answer {
        hits: recalled.hits.iter().map(found).collect(),
        explained: recalled.explained.expect("it was asked for"),
        examined: recalled.examined,
        unembedded: recalled.unembedded,
    }
}

/// The answer that brute force expects.
struct Expected<'t> {
    told: &'t [Told],
    how: &'t How,
    cosines: Vec<Option<f64>>,
    least: f64,
    greatest: f64,
}

type Checked = std::result::Result<(), String>;

impl<'t> Expected<'t> {
    fn of(told: &'t [Told], question: &[f64], how: &'t How) -> Self {
        let cosines = cosines(told, question, how.window);
        let present = || cosines.iter().flatten().copied();
        let (least, greatest) = match present().next() {
            None => (0.0, 0.0),
            Some(_) => (present().fold(f64::INFINITY, f64::min), present().fold(f64::NEG_INFINITY, f64::max)),
        };
        Self { told, how, cosines, least, greatest }
    }

    /// Checks a recall by meaning alone: the hits are those with the greatest cosines, best first, and nothing else counts.
    fn check_alone(&self, answer: &Answer) -> Checked {
        self.check_scope(answer)?;
        let wanted: Vec<f64> = (0..self.told.len()).filter_map(|place| self.cosine_if_wanted(place)).collect();
        let due = wanted.len().min(self.how.limit);
        ensure(answer.hits.len() == due, || format!("{} hits are found, not {due}", answer.hits.len()))?;
        let best = wanted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut found = Vec::new();
        for hit in &answer.hits {
            let place = self.place(hit)?;
            let cosine = self.cosine_if_wanted(place).ok_or_else(|| format!("{place} is no hit"))?;
            ensure(!found.contains(&place), || format!("{place} comes twice"))?;
            found.push(place);
            // The score is relative to the best of the hits.
            let shown = hit.score * (best - self.least) + self.least;
            ensure(close(shown, cosine), || format!("the cosine of {place} is shown as {shown}, not {cosine}"))?;
            ensure(hit.parts == Parts { meaning: hit.score, ..Parts::default() }, || format!("{:?}", hit.parts))?;
        }
        let last = found.last().and_then(|place| self.cosines[*place]);
        let missed = (0..self.told.len())
            .filter(|place| !found.contains(place))
            .filter(|place| self.cosine_if_wanted(*place) > last.map(|last| last + CLOSE));
        ensure(due == 0 || missed.count() == 0, || "better ones are left out".to_owned())?;
        self.check_order(answer)
    }

    /// Checks a recall by both: the parts by words are those of the recall without a vector, divided by the best sum, and the meaning is
    /// added.
    fn check_both(&self, plain: &Answer, both: &Answer) -> Checked {
        self.check_scope(both)?;
        ensure(plain.unembedded.is_none(), || "a recall without a vector has `unembedded`".to_owned())?;
        let best = both.explained.together_with_meaning;
        for hit in &both.hits {
            let (place, parts) = (self.place(hit)?, hit.parts);
            ensure(self.told[place].is_wanted, || format!("{place} is not wanted"))?;
            ensure(hit.score == parts.sum(), || format!("the parts of {place} do not add up"))?;
            let meant = if best > 0.0 { parts.meaning * best / 1.2 } else { 0.0 };
            let shown = meant * (self.greatest - self.least) + self.least;
            match self.cosines[place] {
                Some(cosine) if self.greatest > self.least => {
                    ensure(close(shown, cosine), || format!("{place} is shown as {shown}, not {cosine}"))?;
                }
                Some(_) => {}
                None => ensure(parts.meaning == 0.0, || format!("{place} has no vector"))?,
            }
        }
        self.check_order(both)?;
        // If not every record can be a candidate and a hit, the divisors and the hits may differ.
        if self.how.candidates < self.told.len() || self.how.limit < self.told.len() {
            return Ok(());
        }
        let divisors = |of: &Explained| [of.words, of.neighbours, of.together, of.container, of.total];
        let (before, after) = (divisors(&plain.explained), divisors(&both.explained));
        ensure(before == after, || format!("the words are divided by {after:?}, not by {before:?}"))?;
        let is_due = |place: usize| {
            self.cosine_if_wanted(place).is_some() || plain.hits.iter().any(|hit| hit.id == self.told[place].id)
        };
        let due = (0..self.told.len()).filter(|place| is_due(*place)).count();
        ensure(both.hits.len() == due, || format!("{} hits are found, not {due}", both.hits.len()))?;
        for hit in &both.hits {
            let words = plain.hits.iter().find(|other| other.id == hit.id).map(|hit| hit.parts).unwrap_or_default();
            let all = |parts: Parts| [parts.words, parts.neighbours, parts.container];
            let mut expected = words;
            if !plain.hits.iter().any(|other| other.id == hit.id) {
                // A record that no word has found still counts with the words of its container.
                let Some(container) = self.container_part(plain, hit)? else { continue };
                expected.container = container;
            }
            let is_same = all(hit.parts).into_iter().zip(all(expected)).all(|(one, other)| {
                let of_both = if best > 0.0 { other / best } else { 0.0 };
                (one - of_both).abs() < EQUAL
            });
            ensure(is_same, || format!("{:?} beside a vector are {:?}", words, hit.parts))?;
        }
        Ok(())
    }

    /// The part that the container of a hit adds to those hits that words have found in it; `None` if there are none.
    fn container_part(&self, plain: &Answer, hit: &Found) -> std::result::Result<Option<f64>, String> {
        let container = &self.told[self.place(hit)?].container;
        for other in &plain.hits {
            if self.told[self.place(other)?].container == *container {
                return Ok(Some(other.parts.container));
            }
        }
        Ok(None)
    }

    fn check_scope(&self, answer: &Answer) -> Checked {
        let without = self.cosines.iter().filter(|cosine| cosine.is_none()).count();
        let told = (answer.examined, answer.unembedded);
        ensure(told == (self.told.len(), Some(without)), || {
            format!("(examined, unembedded) is {told:?}, not {:?}", (self.told.len(), Some(without)))
        })?;
        let Explained { least_cosine, greatest_cosine, .. } = answer.explained;
        let is_right = close(least_cosine, self.least) && close(greatest_cosine, self.greatest);
        ensure(is_right, || {
            let (least, greatest) = (self.least, self.greatest);
            format!("cosines from {least_cosine} to {greatest_cosine}, not from {least} to {greatest}")
        })
    }

    /// Checks the order: by score, and for equal scores newest first.
    fn check_order(&self, answer: &Answer) -> Checked {
        let mut last = None;
        for hit in &answer.hits {
            let Told { id, millis, .. } = &self.told[self.place(hit)?];
            let now = (hit.score, *millis, id.clone());
            ensure(last.is_none_or(|last| now < last), || format!("{now:?} is out of order"))?;
            last = Some(now);
        }
        Ok(())
    }

    fn cosine_if_wanted(&self, place: usize) -> Option<f64> {
        self.cosines[place].filter(|_| self.told[place].is_wanted)
    }

    fn place(&self, hit: &Found) -> std::result::Result<usize, String> {
        let place = self.told.iter().position(|told| told.id == hit.id);
        place.ok_or_else(|| format!("{:?} is not in the scope", hit.id))
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < CLOSE
}

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// A few words of a small vocabulary, so that texts share words and are sometimes equal.
fn text(random: &mut Random) -> String {
    let words: Vec<_> = (0..1 + random.below(4)).map(|_| format!("k{}", 40 / (1 + random.below(40)))).collect();
    words.join(" ")
}
