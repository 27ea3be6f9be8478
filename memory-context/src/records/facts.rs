//! The facts of an agent: one way in, and the ways to find them again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use memory_core::filter::Field;
use memory_core::{
    Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Documents, Error, ErrorKind,
    Expect, Hit, MemoryQuery, QueryBuilder, Recall, RecallOptions, Recalled, Result, Weights,
};

use super::fact::normalised;
use super::layout::{document_id, fact_collection, room_space};
use super::question::about;
use super::table::{AT_ONCE, absent};
use super::{Audience, Fact, FactQuery, FoundFact, NewFact, RecalledFacts, Records, Remembered, RoomId};
use crate::deadline::within_deadline;
use crate::documents;
use crate::embedding::fuse;

/// The facts that an agent knows; see [`Records::facts`].
///
/// Those of each room have a collection of their own: a question costs what the rooms that it may look into hold, whatever else the agent
/// knows.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    records: &'a Records,
}

/// How many facts of a room come into question.
const CANDIDATES: usize = 100;
/// How long a question waits for its vector.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a prompt waits for it: less than half of what a provider has.
const PROMPT_PATIENCE: Duration = Duration::from_secs(2);

impl Records {
    /// What is known.
    pub fn facts(&self) -> Facts<'_> {
        Facts { records: self }
    }
}

impl Facts<'_> {
    /// Keeps a fact. One that is known in its room of its subject, but for case, white space and the last full stop, is not
    /// kept twice, also when two are kept at once.
    ///
    /// It waits for no model: its vector is made by a [`keeper`](crate::embedding::keeper), which follows what is stored.
    pub async fn remember(&self, new: NewFact) -> Result<Remembered> {
        let id = self.id(&new)?;
        let collection = fact_collection(self.records.agent(), &new.room)?;
        if let Some(document) = self.records.documents().get(&collection, &id).await? {
            return Ok(Remembered { fact: Fact::read(document)?, is_new: false });
        }
        let write = self.write(&new)?;
        within_deadline(async {
            loop {
                match self.records.documents().put(write.clone()).await {
                    Ok(document) => return Ok(Remembered { fact: Fact::read(document)?, is_new: true }),
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error),
                }
                // What somebody else is about to write can be in the way before it can be read.
                if let Some(document) = self.records.documents().get(&collection, &id).await? {
                    return Ok(Remembered { fact: Fact::read(document)?, is_new: false });
                }
            }
        })
        .await
    }

    /// Puts a fact in the place of another, as where that turns out to be wrong. The new one is kept before the known one is taken
    /// away, so that a call that is cut and repeated loses neither, and ends with the new one alone.
    ///
    /// `Conflict` when somebody else has replaced or removed the known fact, whereupon the new one is not kept.
    pub async fn replace(&self, known: &Fact, new: NewFact) -> Result<Remembered> {
        let remembered = self.remember(new).await?;
        if remembered.fact.id == known.id || self.take(known).await? || !remembered.is_new {
            return Ok(remembered);
        }
        self.take(&remembered.fact).await?;
        Err(Error::conflict("the fact was replaced or removed meanwhile"))
    }

    /// Takes a fact away. `NotFound` when it is gone.
    pub async fn remove(&self, known: &Fact) -> Result<()> {
        if self.take(known).await? { Ok(()) } else { Err(absent("fact")) }
    }

    /// The fact with this text that may be changed on behalf of the audience: one that became known in its room. What became known elsewhere is
    /// changed there alone, though it may be shown: a group can't undo what was said in private, nor a direct conversation what a group
    /// knows. The text may be as `FACTS` writes it, with the day in brackets. Of several, that about the entity comes first.
    pub async fn find(&self, audience: &Audience, text: &str) -> Result<Option<Fact>> {
        let text = text.trim_start_matches(['-', ' ']);
        let behind_the_day = text.strip_prefix('[').and_then(|text| text.split_once(']')).map(|(_, text)| text);
        let wanted: Vec<_> = [Some(text), behind_the_day].into_iter().flatten().map(normalised).collect();
        let mut found = self.of(std::slice::from_ref(&audience.room), usize::MAX).await?;
        found.retain(|fact| wanted.contains(&normalised(&fact.text)));
        found.sort_by_key(|fact| fact.subject != audience.entity);
        Ok(found.into_iter().next())
    }

    /// The newest facts of the rooms of which something may be shown in the audience's room, newest first.
    pub async fn newest(&self, audience: &Audience, limit: usize) -> Result<Vec<Fact>> {
        let mut facts = self.of_rooms(audience, limit).await?;
        facts.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        facts.truncate(limit);
        Ok(facts)
    }

    /// The facts that answer a question best, of the rooms of which something may be shown in the audience's room.
    ///
    /// Each room is asked by words and, with an embedder, by meaning (M3). Scores are those of a room and do not compare between rooms: of several, the
    /// ranking of all facts by meaning and that by words, which is of the places in the rooms, are fused by reciprocal ranks. By
    /// words alone where the embedder makes no vector of the question in good time, and where the namespace has its vectors from another model.
    pub async fn recall(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        self.answers(audience, query, PATIENCE).await
    }

    /// The same for a prompt, which waits for less.
    pub(crate) async fn recall_soon(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        self.answers(audience, query, PROMPT_PATIENCE).await
    }

    async fn answers(&self, audience: &Audience, query: &FactQuery, patience: Duration) -> Result<RecalledFacts> {
        if query.limit == 0 || query.text.trim().is_empty() {
            return Ok(RecalledFacts::default());
        }
        let rooms = self.records.rooms().readable(audience).await?;
        // A question is asked once, and not by meaning where that fails.
        let embedder = match self.records.asking(patience) {
            Some(embedder) => match embedder.vectors(&[question(&query.text)?]).await {
                Ok(_) => Some(embedder),
                Err(error) => {
                    tracing::warn!(%error, "facts are found by their words alone");
                    None
                }
            },
            None => None,
        };
        let options = options();
        let (embedder, options) = (&embedder, &options);
        let of_rooms = stream::iter(rooms).map(|room| async move {
            let collection = fact_collection(self.records.agent(), &room)?;
            let asked = asked_of(query, DocumentQuery::builder(collection).all()).limit(CANDIDATES);
            let recall = about(&query.text, &asked.build()?, options)?;
            let recall = embedder.iter().cloned().fold(recall, Recall::by_meaning_or_words);
            self.records.documents().recall(&recall).await
        });
        let rooms: Vec<_> = of_rooms.buffered(AT_ONCE).try_collect().await?;
        Ok(fused(rooms, query, options.weights.meaning))
    }

    /// Asks for the vector of a question before it is put, so that a [`recall`](Self::recall) of the same text waits for this call
    /// instead of one of its own: those of the last hundred texts are kept. Nothing to do without an embedder, and for a blank
    /// text.
    pub async fn prepare(&self, text: &str) -> Result<()> {
        match self.records.asking(Duration::MAX).filter(|_| !text.trim().is_empty()) {
            Some(embedder) => embedder.vectors(&[question(text)?]).await.map(drop),
            None => Ok(()),
        }
    }

    /// The facts of the rooms of which something may be shown, each room's newest first.
    async fn of_rooms(&self, audience: &Audience, limit: usize) -> Result<Vec<Fact>> {
        let rooms = self.records.rooms().readable(audience).await?;
        self.of(&rooms, limit).await
    }

    async fn of(&self, rooms: &[RoomId], limit: usize) -> Result<Vec<Fact>> {
        let of_rooms = stream::iter(rooms.to_vec()).map(|room| async move {
            let query = DocumentQuery::builder(fact_collection(self.records.agent(), &room)?).all();
            documents::find(self.records.documents().as_ref(), query, limit, Fact::read).await
        });
        let facts: Vec<_> = of_rooms.buffered(AT_ONCE).try_collect().await?;
        Ok(facts.into_iter().flatten().collect())
    }

    /// Takes a fact away; tells whether it was there. What a fact says is part of its id, so it is the one that is meant.
    async fn take(&self, fact: &Fact) -> Result<bool> {
        let collection = fact_collection(self.records.agent(), &fact.room)?;
        let selection = DocumentSelection::ids(collection, [fact.id.clone()])?;
        Ok(!self.records.documents().remove(&selection, 1).await?.is_empty())
    }

    fn write(&self, fact: &NewFact) -> Result<DocumentWrite> {
        let agent = self.records.agent();
        let (collection, space) = (fact_collection(agent, &fact.room)?, room_space(agent, &fact.room)?);
        let write = DocumentWrite::new(collection, space, Content::parse(&fact.text)?, fact.created_at);
        Ok(write.with_id(self.id(fact)?).with_metadata(fact.labels()?).expect(Expect::Absent))
    }

    fn id(&self, fact: &NewFact) -> Result<DocumentId> {
        document_id(self.records.agent(), [fact.room.as_str(), fact.subject.as_str(), &normalised(&fact.text)])
    }
}

/// What a question asks for, but for its words.
fn asked_of(query: &FactQuery, builder: QueryBuilder<Documents>) -> QueryBuilder<Documents> {
    let subject = query.subject.iter().map(|subject| Field::metadata(["subject"]).eq(subject.as_str()));
    let kind = query.kind.iter().map(|kind| Field::metadata(["type"]).eq(kind.as_str()));
    subject.chain(kind).reduce(|one, other| one.and(other)).into_iter().fold(builder, QueryBuilder::filter)
}

/// How facts are ranked: each stands for itself, unlike a turn of a conversation.
fn options() -> RecallOptions {
    let weights = Weights { window: 0, container: 0.0, question: 0.0, ..Weights::default() };
    RecallOptions { weights, explain: true, ..RecallOptions::default() }
}

/// As much of the beginning of a text as a recall asks.
fn question(text: &str) -> Result<String> {
    Ok(about(text, &MemoryQuery::builder().all().build()?, &options())?.question().to_owned())
}

/// The facts that rooms have found, in one order.
fn fused(rooms: Vec<Recalled<Document>>, query: &FactQuery, weight: f64) -> RecalledFacts {
    let (mut facts, mut unembedded) = (BTreeMap::new(), 0);
    let (mut lists, mut words, mut near) = (Vec::new(), Vec::new(), Vec::new());
    for recalled in rooms {
        unembedded += recalled.unembedded.unwrap_or(recalled.examined);
        let (mut list, mut by_words) = (Vec::new(), Vec::new());
        for hit in &recalled.hits {
            let similarity = cosine(hit, &recalled, weight);
            let is_near = query.threshold.is_none_or(|least| similarity.is_some_and(|cosine| cosine >= least));
            if hit.parts.words == 0.0 && !is_near {
                continue;
            }
            let id = hit.record.id.clone();
            match Fact::read(hit.record.clone()) {
                Ok(fact) => {
                    near.extend(similarity.map(|cosine| (f64::from(cosine), id.clone())));
                    by_words.extend((hit.parts.words > 0.0).then(|| (hit.parts.words, id.clone())));
                    list.push(id.clone());
                    facts.insert(id, (fact, similarity));
                }
                Err(error) => tracing::warn!(%id, %error, "a document holds something else"),
            }
        }
        if !list.is_empty() {
            lists.push(list);
            words.push(best_first(by_words));
        }
    }
    if lists.len() > 1 {
        // What is the best of its room may be nothing to another: cosines compare between rooms, and words by their places.
        let by_words = fuse(&words).into_iter().map(|(id, _)| id).collect();
        lists = vec![best_first(near), by_words];
    }
    let found = fuse(&lists).into_iter().take(query.limit).filter_map(|(id, score)| {
        let (fact, similarity) = facts.remove(&id)?;
        Some(FoundFact { fact, similarity, score })
    });
    RecalledFacts { facts: found.collect(), unembedded }
}

/// Equal ones stay in their order.
fn best_first(mut scored: Vec<(f64, DocumentId)>) -> Vec<DocumentId> {
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, id)| id).collect()
}

/// The cosine of the vector of a hit and that of the question, as the parts of its score tell it.
fn cosine(hit: &Hit<Document>, recalled: &Recalled<Document>, weight: f64) -> Option<f32> {
    let (without, explained) = recalled.unembedded.zip(recalled.explained)?;
    // What holds no word is a hit by its vector alone.
    if hit.parts.meaning == 0.0 && hit.parts.words > 0.0 && without > 0 {
        return None;
    }
    let share = (hit.parts.meaning * explained.together_with_meaning / weight).clamp(0.0, 1.0);
    let (least, greatest) = (explained.least_cosine, explained.greatest_cosine);
    // Without what the way there and back adds.
    let cosine = least + share * (greatest - least);
    Some(((cosine * 1e6).round() / 1e6) as f32)
}

#[cfg(test)]
mod tests {
    use memory_core::{Explained, Parts, Timestamp};

    use super::super::{AgentId, EntityId};
    use super::*;

    /// A room whose facts have these cosines, and hold a word or not.
    fn room(name: &str, facts: &[(&str, f64, bool)], unembedded: usize) -> Recalled<Document> {
        let (least, greatest) = facts.iter().fold((f64::MAX, f64::MIN), |(least, greatest), (_, cosine, _)| {
            (least.min(*cosine), greatest.max(*cosine))
        });
        let agent = AgentId::parse("a").expect("valid");
        let provider = std::sync::Arc::new(memory_core::InMemory::new());
        let records = Records::new(provider, agent);
        let hits = facts.iter().map(|(text, cosine, has_word)| {
            let (of, ana) = (RoomId::parse(name).expect("valid"), EntityId::parse("ana").expect("valid"));
            let write = records.facts().write(&NewFact::new(of, ana.clone(), ana, *text, Timestamp::MIN));
            let write = write.expect("a fact");
            let id = write.id.clone().expect("an id");
            let share = if greatest > least { (cosine - least) / (greatest - least) } else { 1.0 };
            let words = if *has_word { 0.5 } else { 0.0 };
            let parts = Parts { words, meaning: 1.2 * share / 1.7, ..Parts::default() };
            Hit {
                score: parts.sum(),
                parts,
                record: write.apply(&id, None, Timestamp::MIN).expect("a document"),
                before: Vec::new(),
                after: Vec::new(),
                terms: None,
            }
        });
        let explained = Explained {
            least_cosine: least,
            greatest_cosine: greatest,
            together_with_meaning: 1.7,
            ..Explained::default()
        };
        Recalled {
            hits: hits.collect(),
            examined: facts.len() + unembedded,
            complete: true,
            unembedded: Some(unembedded),
            explained: Some(explained),
        }
    }

    fn found(rooms: Vec<Recalled<Document>>, query: &FactQuery) -> Vec<(String, Option<f32>)> {
        fused(rooms, query, 1.2).facts.into_iter().map(|found| (found.fact.text, found.similarity)).collect()
    }

    #[test]
    fn the_best_of_a_room_that_has_nothing_to_say_is_behind_those_of_another() {
        let near = room("near", &[("tea", 0.9, false), ("coffee", 0.8, false)], 0);
        let far = room("far", &[("cat", 0.1, false), ("dog", 0.05, false), ("cow", 0.0, false)], 0);
        let texts: Vec<_> = found(vec![far, near], &FactQuery::new("?")).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["tea", "coffee", "cat", "dog", "cow"]);
    }

    #[test]
    fn a_threshold_takes_what_holds_a_word_or_is_near() {
        let of = |unembedded| room("r", &[("tea", 0.9, false), ("cat", 0.0, false), ("dog", -0.5, true)], unembedded);
        let texts = |threshold: Option<f32>| -> Vec<_> {
            let query = FactQuery { threshold, ..FactQuery::new("?") };
            found(vec![of(0)], &query).into_iter().map(|(text, _)| text).collect()
        };
        assert_eq!(texts(None), ["tea", "cat", "dog"]);
        assert_eq!(texts(Some(0.0)), ["tea", "cat", "dog"], "zero is a threshold");
        assert_eq!(texts(Some(0.1)), ["tea", "dog"]);
        let similar: Vec<_> = found(vec![of(0)], &FactQuery::new("?")).into_iter().map(|(_, cosine)| cosine).collect();
        assert!(similar.iter().zip([0.9, 0.0, -0.5]).all(|(one, other)| (one.expect("known") - other).abs() < 1e-6));
        assert_eq!(found(vec![of(1)], &FactQuery::new("?"))[2], ("dog".to_owned(), None), "it may have no vector");
    }
}
