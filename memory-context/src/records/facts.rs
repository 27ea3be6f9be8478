//! The facts of an agent: one way in, and the ways to find them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use memory_core::filter::Field;
use memory_core::{
    Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Documents, Error, ErrorKind,
    Expect, MAX_TEXT, Outcome, QueryBuilder, RecallOptions, Result, Weights,
};
use tokio::time::timeout;

use super::fact::normalised;
use super::layout::{document_id, fact_collection, is_fact_collection, room_space};
use super::pending::Pending;
use super::question::about;
use super::table::{AT_ONCE, absent};
use super::{Audience, Fact, FactQuery, FoundFact, NewFact, RecalledFacts, Records, Remembered, RoomId};
use crate::deadline::within_deadline;
use crate::documents;
use crate::embedding::{Embedder, Questions, Vector, Vectors, embed, fuse, nearest};

/// The facts that an agent knows; see [`Records::facts`].
///
/// Those of each room have a collection of their own, and so have their vectors: a question costs what the rooms that it may
/// look into hold, whatever else the agent knows.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    records: &'a Records,
}

/// Of how many places by words and by meaning a fusion is made.
const CANDIDATES: usize = 100;
/// How many texts go to the embedder at once.
const BATCH: usize = 64;
/// How long a prompt waits for the vector of a question: less than half of what a provider has.
const EMBEDDER_PATIENCE: Duration = Duration::from_secs(2);

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
    /// With an embedder its vector is made later, by [`embed_pending`](Self::embed_pending); that it is to be made is kept
    /// first, so it is not forgotten when the process ends.
    pub async fn remember(&self, new: NewFact) -> Result<Remembered> {
        let id = self.id(&new)?;
        let collection = fact_collection(self.records.agent(), &new.room)?;
        if let Some(document) = self.records.documents().get(&collection, &id).await? {
            return Ok(Remembered { fact: Fact::read(document)?, is_new: false });
        }
        let write = self.write(&new)?;
        let has_embedder = self.records.embedder().is_some();
        let is_marked_before = has_embedder && !Pending::of(self.records)?.add(&id, &new.room).await?;
        let remembered = within_deadline(async {
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
        .await?;
        // Upkeep may have taken an older mark away, as it found no fact of it yet. Without one the fact is found by its words.
        if is_marked_before && let Err(error) = Pending::of(self.records)?.add(&id, &new.room).await {
            tracing::warn!(%error, "a fact that was kept can't be marked for its vector");
        }
        Ok(remembered)
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

    /// Takes a fact away, with its vector. `NotFound` when it is gone.
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
        let mut found = self.of(std::slice::from_ref(&audience.room), usize::MAX, |query| query).await?;
        found.retain(|fact| wanted.contains(&normalised(&fact.text)));
        found.sort_by_key(|fact| fact.subject != audience.entity);
        Ok(found.into_iter().next())
    }

    /// The newest facts of the rooms of which something may be shown in the audience's room, newest first.
    pub async fn newest(&self, audience: &Audience, limit: usize) -> Result<Vec<Fact>> {
        let mut facts = self.of_rooms(audience, limit, |query| query).await?;
        facts.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        facts.truncate(limit);
        Ok(facts)
    }

    /// The facts that answer a question best, of the rooms of which something may be shown in the audience's room.
    ///
    /// They are ranked by meaning, where there are vectors, and by words, and the two rankings are fused by reciprocal ranks:
    /// what either finds is found. Whatever does not come into question is left out before it is ranked.
    ///
    /// `SchemaMismatch` when there are vectors of another model: see [`embed_again`](Self::embed_again). Otherwise what
    /// the embedder or the engine answers.
    pub async fn recall(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        self.answers(audience, query, async |questions, text| questions.vector(text).await.map(Some)).await
    }

    /// The same, but by words alone where the embedder makes no vector of the question in good time.
    pub(crate) async fn recall_or_by_words(&self, audience: &Audience, query: &FactQuery) -> Result<RecalledFacts> {
        let vector = async |questions: &Questions, text: String| {
            let late =
                |_| Err(Error::new(ErrorKind::Timeout, "the embedder made no vector of the question in good time"));
            let vector = timeout(EMBEDDER_PATIENCE, questions.vector(text)).await.unwrap_or_else(late);
            Ok(vector.inspect_err(|error| tracing::warn!(%error, "facts are found by their words alone")).ok())
        };
        self.answers(audience, query, vector).await
    }

    /// What answers a question, with the vector that is made of it.
    async fn answers(
        &self,
        audience: &Audience,
        query: &FactQuery,
        vector: impl AsyncFnOnce(&Questions, String) -> Result<Option<Vector>>,
    ) -> Result<RecalledFacts> {
        let asked_of = |builder: QueryBuilder<Documents>| {
            let subject = query.subject.iter().map(|subject| Field::metadata(["subject"]).eq(subject.as_str()));
            let kind = query.kind.iter().map(|kind| Field::metadata(["type"]).eq(kind.as_str()));
            subject.chain(kind).reduce(|one, other| one.and(other)).into_iter().fold(builder, QueryBuilder::filter)
        };
        let rooms = self.records.rooms().readable(audience).await?;
        let facts = self.of(&rooms, usize::MAX, asked_of).await?;
        let facts: BTreeMap<_, _> = facts.into_iter().map(|fact| (fact.id.clone(), fact)).collect();
        if facts.is_empty() || query.limit == 0 || query.text.trim().is_empty() {
            return Ok(RecalledFacts::default());
        }
        let by_words = self.by_words(&rooms, &query.text, asked_of).await?;
        let asked = match self.records.questions() {
            Some(questions) => vector(questions, embeddable(&query.text)).await?,
            None => None,
        };
        let (by_meaning, unembedded) = self.by_meaning(&rooms, query, asked, &facts).await?;
        let similarity: BTreeMap<_, _> = by_meaning.iter().cloned().collect();
        let by_meaning = by_meaning.into_iter().map(|(id, _)| id).collect();
        let found = fuse(&[by_meaning, by_words]).into_iter().filter_map(|(id, score)| {
            let similarity = similarity.get(&id).copied();
            facts.get(&id).map(|fact| FoundFact { fact: fact.clone(), similarity, score })
        });
        Ok(RecalledFacts { facts: found.take(query.limit).collect(), unembedded })
    }

    /// Asks for the vector of a question before it is put, so that a [`recall`](Self::recall) of the same text waits for this call
    /// instead of one of its own: those of the last hundred texts are kept. Nothing to do without an embedder, and for a blank
    /// text.
    pub async fn prepare(&self, text: &str) -> Result<()> {
        match self.records.questions().filter(|_| !text.trim().is_empty()) {
            Some(questions) => questions.vector(embeddable(text)).await.map(drop),
            None => Ok(()),
        }
    }

    /// Makes the vectors that are still to be made, the oldest first, of so many facts at most; tells how many were made. Call
    /// it after facts were kept, and after a start: what an error or the end of the process leaves undone, a later call does.
    ///
    /// A fact that the embedder refuses is logged and tried again after an hour, behind the others. `Unsupported` without an embedder.
    pub async fn embed_pending(&self, limit: usize) -> Result<usize> {
        let (embedder, pending) = (self.embedder()?, Pending::of(self.records)?);
        let mut facts = Vec::new();
        for mark in pending.oldest(limit).await? {
            let collection = fact_collection(self.records.agent(), &mark.room)?;
            match self.records.documents().get(&collection, &mark.id).await? {
                Some(fact) => facts.push((mark.room, fact)),
                // It was never kept, or is removed.
                None if mark.is_settled => {
                    pending.remove(&mark.id).await?;
                    // It may have been kept since, before it was marked anew.
                    if self.records.documents().get(&collection, &mark.id).await?.is_some() {
                        pending.add(&mark.id, &mark.room).await?;
                    }
                }
                None => {}
            }
        }
        let mut made = 0;
        for some in facts.chunks(BATCH) {
            let texts: Vec<_> = some.iter().map(|(_, fact)| embeddable(fact.content.as_str())).collect();
            for ((room, fact), vector) in some.iter().zip(embed_each(embedder.as_ref(), &texts).await?) {
                match vector {
                    Ok(vector) => {
                        let vectors = Vectors::of(self.records.documents(), &fact.collection)?;
                        vectors.put(fact, embedder.as_ref(), &vector, self.records.now()).await?;
                        pending.remove(&fact.id).await?;
                        made += 1;
                    }
                    Err(error) => {
                        tracing::warn!(id = %fact.id, %error, "a fact has no vector yet");
                        pending.postpone(&fact.id, room).await?;
                    }
                }
            }
        }
        Ok(made)
    }

    /// Marks each fact of the agent that has no vector of the present embedder, for [`embed_pending`](Self::embed_pending);
    /// tells how many were marked. For the change to another model, and for facts that were kept without an embedder. Looks at
    /// all facts.
    ///
    /// `Unsupported` without an embedder.
    pub async fn embed_again(&self) -> Result<usize> {
        let (embedder, pending) = (self.embedder()?, Pending::of(self.records)?);
        let mut marked = 0;
        for collection in self.records.documents().collections().await? {
            if !is_fact_collection(&collection) {
                continue;
            }
            let facts = self.in_collection(&collection, usize::MAX, |query| query).await?;
            let known = Vectors::of(self.records.documents(), &collection)?.known(embedder.as_ref()).await?;
            let known: BTreeSet<_> = known.into_iter().collect();
            for fact in facts {
                // Another agent's have other collections.
                let is_own = collection == fact_collection(self.records.agent(), &fact.room)?;
                if is_own && !known.contains(&fact.id) {
                    marked += usize::from(pending.add(&fact.id, &fact.room).await?);
                }
            }
        }
        Ok(marked)
    }

    /// The facts by the words of a text, best first. Scores are those of a room, and do not compare between rooms: places do.
    async fn by_words(
        &self,
        rooms: &[RoomId],
        text: &str,
        asked_of: impl Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents> + Copy,
    ) -> Result<Vec<DocumentId>> {
        let of_rooms = stream::iter(rooms.to_vec()).map(|room| async move {
            let collection = fact_collection(self.records.agent(), &room)?;
            let query = asked_of(DocumentQuery::builder(collection).all()).limit(CANDIDATES);
            // A fact stands for itself, unlike a turn of a conversation.
            let weights = Weights { window: 0, container: 0.0, question: 0.0, ..Weights::default() };
            let options = RecallOptions { weights, ..RecallOptions::default() };
            let recalled = self.records.documents().recall(&about(text, &query.build()?, &options)?).await?;
            Ok::<_, Error>(recalled.hits.into_iter().map(|hit| hit.record.id).collect::<Vec<_>>())
        });
        let lists: Vec<_> = of_rooms.buffered(AT_ONCE).try_collect().await?;
        Ok(fuse(&lists).into_iter().map(|(id, _)| id).take(CANDIDATES).collect())
    }

    /// The facts by their meaning, best first, and how many have no vector.
    async fn by_meaning(
        &self,
        rooms: &[RoomId],
        query: &FactQuery,
        asked: Option<Vector>,
        facts: &BTreeMap<DocumentId, Fact>,
    ) -> Result<(Vec<(DocumentId, f32)>, usize)> {
        let Some((asked, embedder)) = asked.zip(self.records.embedder()) else { return Ok((Vec::new(), facts.len())) };
        let of_rooms = stream::iter(rooms.to_vec()).map(|room| async move {
            let collection = fact_collection(self.records.agent(), &room)?;
            Vectors::of(self.records.documents(), &collection)?.all(embedder.as_ref()).await
        });
        let vectors: Vec<_> = of_rooms.buffered(AT_ONCE).try_collect().await?;
        let mut candidates: Vec<_> = vectors.into_iter().flatten().collect();
        // One whose fact is not asked for, or is gone, must not take the place of another.
        candidates.retain(|(id, _)| facts.contains_key(id));
        let unembedded = facts.len() - candidates.len();
        Ok((nearest(&asked, candidates, query.threshold, CANDIDATES), unembedded))
    }

    /// The facts of the rooms of which something may be shown, each room's newest first.
    async fn of_rooms(
        &self,
        audience: &Audience,
        limit: usize,
        asked_of: impl Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents> + Copy,
    ) -> Result<Vec<Fact>> {
        let rooms = self.records.rooms().readable(audience).await?;
        self.of(&rooms, limit, asked_of).await
    }

    async fn of(
        &self,
        rooms: &[RoomId],
        limit: usize,
        asked_of: impl Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents> + Copy,
    ) -> Result<Vec<Fact>> {
        let of_rooms = stream::iter(rooms.to_vec()).map(|room| async move {
            let collection = fact_collection(self.records.agent(), &room)?;
            self.in_collection(&collection, limit, asked_of).await
        });
        let facts: Vec<_> = of_rooms.buffered(AT_ONCE).try_collect().await?;
        Ok(facts.into_iter().flatten().collect())
    }

    async fn in_collection(
        &self,
        collection: &Collection,
        limit: usize,
        asked_of: impl Fn(QueryBuilder<Documents>) -> QueryBuilder<Documents>,
    ) -> Result<Vec<Fact>> {
        let query = asked_of(DocumentQuery::builder(collection.clone()).all());
        documents::find(self.records.documents().as_ref(), query, limit, Fact::read).await
    }

    /// Takes a fact away; tells whether it was there. What a fact says is part of its id, so it is the one that is meant.
    async fn take(&self, fact: &Fact) -> Result<bool> {
        let collection = fact_collection(self.records.agent(), &fact.room)?;
        let selection = DocumentSelection::ids(collection.clone(), [fact.id.clone()])?;
        let was_there = !self.records.documents().remove(&selection, 1).await?.is_empty();
        // A vector without a fact is not looked at.
        let removed = Vectors::of(self.records.documents(), &collection)?.remove(&fact.id).await;
        removed
            .map(|()| was_there)
            .map_err(|error| if was_there { error.with_outcome(Outcome::Unknown) } else { error })
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

    fn embedder(&self) -> Result<&Arc<dyn Embedder>> {
        let message = "nothing makes vectors: the records have no embedder";
        self.records.embedder().ok_or_else(|| Error::new(ErrorKind::Unsupported, message))
    }
}

/// The vectors of texts. When the embedder refuses them together, each is tried by itself, so that one keeps no other waiting.
async fn embed_each(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Result<Vector>>> {
    let is_refusal =
        |error: &Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::Unexpected);
    match embed(embedder, texts).await {
        Ok(vectors) => return Ok(vectors.into_iter().map(Ok).collect()),
        Err(error) if is_refusal(&error) => {}
        Err(error) => return Err(error),
    }
    let mut each = Vec::with_capacity(texts.len());
    for text in texts {
        match embed(embedder, std::slice::from_ref(text)).await {
            Ok(vectors) => each.extend(vectors.into_iter().map(Ok)),
            Err(error) if is_refusal(&error) => each.push(Err(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(each)
}

/// As much of the beginning of a text as goes into a vector.
fn embeddable(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
