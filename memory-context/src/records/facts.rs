//! Storing, changing and finding the facts of an agent.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use memory_core::filter::Field;
use memory_core::{
    Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Documents, Error, ErrorKind,
    Expect, Hit, Json, MemoryQuery, Metadata, QueryBuilder, Recall, RecallOptions, Recalled, Result, Weights,
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
/// The facts of each room have their own collection, so the cost of a search grows with the rooms that the audience may see, not with all
/// that the agent knows.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    records: &'a Records,
}

/// The most candidates of a room in a search.
const CANDIDATES: usize = 100;
/// How long a search waits for the vector of its question.
const PATIENCE: Duration = Duration::from_secs(5);
/// The label with the id of the fact that is to replace this one.
const SUCCESSOR: &str = "successor";
/// How long a claim keeps others from a fact, in ms: longer than the deadlines of the call that made it, which may have been cut off.
const CLAIM_HOLDS: i64 = 120_000;
/// How long a search for a prompt waits for the vector of its question: less than half of a provider's deadline.
const PROMPT_PATIENCE: Duration = Duration::from_secs(2);

impl Records {
    /// The facts that the agent knows.
    pub fn facts(&self) -> Facts<'_> {
        Facts { records: self }
    }
}

impl Facts<'_> {
    /// Stores a fact. If the same fact about the same subject is known in the room, ignoring case, white space and the last full stop, it
    /// is not stored again, even in concurrent calls.
    ///
    /// The call does not wait for the embedding model: a [`keeper`](crate::embedding::keeper), which follows the feed, makes the vector
    /// later.
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
                // The write that caused the conflict may not be readable yet, so both are tried again.
                if let Some(document) = self.records.documents().get(&collection, &id).await? {
                    return Ok(Remembered { fact: Fact::read(document)?, is_new: false });
                }
            }
        })
        .await
    }

    /// Replaces a fact, for example one that turned out to be wrong. The new fact is stored before the known one is removed, so a call that
    /// is cut off loses neither, and after its repetition only the new one is left.
    ///
    /// Fails with `Conflict` if somebody else has replaced or removed the known fact, or has begun to within the last two minutes. Then the
    /// new fact is not stored, unless it was known already: in that case the call succeeds.
    ///
    /// If the metadata of the known fact fill the 64 KiB of a document's labels, nothing keeps concurrent calls apart: all of them may
    /// succeed, and then each new fact stays.
    pub async fn replace(&self, known: &Fact, new: NewFact) -> Result<Remembered> {
        let (id, collection) = (self.id(&new)?, fact_collection(self.records.agent(), &new.room)?);
        if id == known.id {
            return self.remember(new).await;
        }
        // Checked first, since a claim would keep others from the fact though this call can't replace it.
        self.write(&new)?;
        if self.claim(known, &id).await? {
            let remembered = self.remember(new).await?;
            self.take(known).await?;
            return Ok(remembered);
        }
        match self.records.documents().get(&collection, &id).await? {
            Some(document) => Ok(Remembered { fact: Fact::read(document)?, is_new: false }),
            None => Err(Error::conflict("the fact was replaced or removed meanwhile")),
        }
    }

    /// Removes a fact. Fails with `NotFound` if it no longer exists, or if somebody else has begun to replace it within the last two
    /// minutes.
    pub async fn remove(&self, known: &Fact) -> Result<()> {
        let is_removed = self.claim(known, &known.id).await? && self.take(known).await?;
        if is_removed { Ok(()) } else { Err(absent("fact")) }
    }

    /// Labels a fact with the id of the fact that is to replace it, or with its own id if it is to be removed. Of concurrent calls with
    /// different ids one wins, before anything else is stored or removed. Returns whether the label has this id; `false` also if the fact
    /// does not exist. A fact whose metadata have no room for the label needs none, so that it can be changed at all; then no call keeps
    /// others out.
    async fn claim(&self, fact: &Fact, successor: &DocumentId) -> Result<bool> {
        let (documents, collection) = (self.records.documents(), fact_collection(self.records.agent(), &fact.room)?);
        within_deadline(async {
            loop {
                let Some(document) = documents.get(&collection, &fact.id).await? else { return Ok(false) };
                let mut labels = document.metadata.to_object();
                let label = Json::String(successor.to_string());
                let claimed = labels.insert(SUCCESSOR.to_owned(), label.clone());
                // A label with this id is written again, which keeps others out for the whole time from now on.
                if claimed.is_some_and(|claimed| claimed != label) && self.is_fresh(&document) {
                    return Ok(false);
                }
                let metadata = match Metadata::from_object(&labels) {
                    Err(error) if error.kind() == ErrorKind::TooLarge => return Ok(true),
                    metadata => metadata?,
                };
                let Document { id, space_id, content, created_at, revision, .. } = document;
                let write = DocumentWrite::new(collection.clone(), space_id, content, created_at).with_id(id);
                let write = write.with_metadata(metadata).expect(Expect::Revision(revision));
                match documents.put(write).await {
                    Ok(_) => return Ok(true),
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Whether the call that has claimed a fact may still be at work.
    fn is_fresh(&self, claimed: &Document) -> bool {
        let age = self.records.now().as_millis() - claimed.updated_at.unwrap_or(claimed.created_at).as_millis();
        age < CLAIM_HOLDS
    }

    /// Finds the fact with this text that became known in the audience's room. Only such a fact may be changed on behalf of the audience.
    /// Facts of other rooms may be shown, but are changed only in those rooms: a group can't undo what was said in private, and a direct
    /// conversation can't undo what a group knows. The text may have the form in which `FACTS` writes it, with the day in brackets. If
    /// several facts have this text, one about the audience's entity is preferred.
    pub async fn find(&self, audience: &Audience, text: &str) -> Result<Option<Fact>> {
        let text = text.trim_start_matches(['-', ' ']);
        let behind_the_day = text.strip_prefix('[').and_then(|text| text.split_once(']')).map(|(_, text)| text);
        let wanted: Vec<_> = [Some(text), behind_the_day].into_iter().flatten().map(normalised).collect();
        let mut found = self.of(std::slice::from_ref(&audience.room), usize::MAX).await?;
        found.retain(|fact| wanted.contains(&normalised(&fact.text)));
        found.sort_by_key(|fact| fact.subject != audience.entity);
        Ok(found.into_iter().next())
    }

    /// Returns the newest facts of the rooms that the audience may see ([`Rooms::readable`](super::Rooms::readable)), newest first.
    pub async fn newest(&self, audience: &Audience, limit: usize) -> Result<Vec<Fact>> {
        let mut facts = self.of_rooms(audience, limit).await?;
        facts.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        facts.truncate(limit);
        Ok(facts)
    }

    /// Returns the facts that answer a question best, from the rooms that the audience may see
    /// ([`Rooms::readable`](super::Rooms::readable)).
    ///
    /// Each room is searched by words and, with an embedder, by meaning (M3). The scores of different rooms are not comparable. So for
    /// several rooms, the ranking of all facts by meaning and the ranking by words (by the ranks within the rooms) are fused by reciprocal
    /// ranks. Words alone are searched if the embedder makes no vector of the question in time, or if the namespace has its vectors from
    /// another model.
    pub async fn recall(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        self.answers(audience, query, PATIENCE).await
    }

    /// Like [`recall`](Self::recall), but for a prompt, with a shorter wait for the vector.
    pub(crate) async fn recall_soon(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        self.answers(audience, query, PROMPT_PATIENCE).await
    }

    async fn answers(&self, audience: &Audience, query: &FactQuery, patience: Duration) -> Result<RecalledFacts> {
        if query.limit == 0 || query.text.trim().is_empty() {
            return Ok(RecalledFacts::default());
        }
        let rooms = self.records.rooms().readable(audience).await?;
        // The question is embedded once for all rooms. If that fails, all rooms are searched by words alone.
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

    /// Makes the vector of a question ahead of a [`recall`](Self::recall) with the same text, which then uses it or waits for this call.
    /// The vectors of the last 100 texts are cached. It does nothing without an embedder, or if the text is blank.
    pub async fn prepare(&self, text: &str) -> Result<()> {
        match self.records.asking(Duration::MAX).filter(|_| !text.trim().is_empty()) {
            Some(embedder) => embedder.vectors(&[question(text)?]).await.map(drop),
            None => Ok(()),
        }
    }

    /// The facts of the rooms that the audience may see, the newest of each room first.
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

    /// Removes a fact. Returns whether it existed. The id is a hash of the text, so a fact with another text is never removed by mistake.
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

/// Adds the filters of a search, all but its words.
fn asked_of(query: &FactQuery, builder: QueryBuilder<Documents>) -> QueryBuilder<Documents> {
    let subject = query.subject.iter().map(|subject| Field::metadata(["subject"]).eq(subject.as_str()));
    let kind = query.kind.iter().map(|kind| Field::metadata(["type"]).eq(kind.as_str()));
    subject.chain(kind).reduce(|one, other| one.and(other)).into_iter().fold(builder, QueryBuilder::filter)
}

/// The options for ranking facts: each fact is ranked by itself, without neighbours, unlike a turn of a conversation.
fn options() -> RecallOptions {
    let weights = Weights { window: 0, container: 0.0, question: 0.0, ..Weights::default() };
    RecallOptions { weights, explain: true, ..RecallOptions::default() }
}

/// Cuts a text to the length that a recall takes.
fn question(text: &str) -> Result<String> {
    Ok(about(text, &MemoryQuery::builder().all().build()?, &options())?.question().to_owned())
}

/// Merges the facts that were found in several rooms into one ranking.
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
        // The best fact of one room may be worse than all facts of another. Between rooms, cosines can be compared, but of the scores by
        // words only the ranks.
        let by_words = fuse(&words).into_iter().map(|(id, _)| id).collect();
        lists = vec![best_first(near), by_words];
    }
    let found = fuse(&lists).into_iter().take(query.limit).filter_map(|(id, score)| {
        let (fact, similarity) = facts.remove(&id)?;
        Some(FoundFact { fact, similarity, score })
    });
    RecalledFacts { facts: found.collect(), unembedded }
}

/// Sorts by score, highest first; a stable sort.
fn best_first(mut scored: Vec<(f64, DocumentId)>) -> Vec<DocumentId> {
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, id)| id).collect()
}

/// Computes the cosine of a hit's vector and the question's from the parts of its score.
fn cosine(hit: &Hit<Document>, recalled: &Recalled<Document>, weight: f64) -> Option<f32> {
    let (without, explained) = recalled.unembedded.zip(recalled.explained)?;
    // A fact without a word of the question can only have been found by its vector.
    if hit.parts.meaning == 0.0 && hit.parts.words > 0.0 && without > 0 {
        return None;
    }
    let share = (hit.parts.meaning * explained.together_with_meaning / weight).clamp(0.0, 1.0);
    let (least, greatest) = (explained.least_cosine, explained.greatest_cosine);
    // Rounds off the error of the conversion.
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
