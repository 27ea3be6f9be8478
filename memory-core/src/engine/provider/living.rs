//! Sessions in which expired records don't exist (X2).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::open::Open;
use crate::engine::feed::{FeedEnd, FeedPage, FeedPosition, Timeline};
use crate::engine::history::{HistoryRow, VersionEntry};
use crate::engine::load::COUNTERS;
use crate::engine::session::{
    Append, Appended, DocumentsFound, Embed, Erasing, Found, MemoriesFound, Put, Reader, Removal, Steps, Work, Writer,
};
use crate::engine::walk::{Mark, Place, Row, Visit, Walk};
use crate::engine::{Access, Engine};
use crate::expiry::Lifetimes;
use crate::page::{Head, Selects};
use crate::query::{Documents, Ledger};
use crate::{
    Collection, DocumentId, Error, ErrorKind, Memory, MemoryId, Outcome, RecordId, Result, Timestamp, Tombstone,
};

/// The work of a call in such a session; compare [`Work`].
pub(super) type LivingWork<S, A, T> = for<'v, 's> fn(&'s mut Living<'v, S>, &'s A) -> Steps<'s, T>;

/// How a call reads the storage.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    access: Access,
    /// Whether it also sees expired records, in order to erase them.
    is_all: bool,
}

impl View {
    pub(super) const fn of_all(access: Access) -> Self {
        Self { access, is_all: true }
    }
}

impl From<Access> for View {
    fn from(access: Access) -> Self {
        Self { access, is_all: false }
    }
}

/// A session that hides expired records.
pub(super) struct Living<'v, S> {
    session: &'v mut S,
    /// `None` if nothing is hidden.
    lifetimes: Option<&'v Lifetimes>,
    /// Expired records that were read by id, with the time of their expiry.
    hidden: HashMap<RecordId, Timestamp>,
    /// Expired documents that block a put.
    in_the_way: &'v Mutex<Vec<RecordId>>,
}

/// One attempt to run the work of a call.
struct Attempt<S, A, T> {
    argument: Arc<A>,
    work: LivingWork<S, A, T>,
    lifetimes: Option<Lifetimes>,
    in_the_way: Mutex<Vec<RecordId>>,
}

impl<E: Engine> Open<E> {
    /// Runs work in a session that hides expired records. If an expired document blocks a put, it is swept and the work
    /// starts over.
    pub(super) async fn in_session<A, T>(
        &self,
        view: View,
        until: Instant,
        argument: Arc<A>,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        loop {
            let lifetimes = if view.is_all { None } else { Some(self.lifetimes().await?) };
            let argument = Arc::clone(&argument);
            let attempt = Arc::new(Attempt { argument, work, lifetimes, in_the_way: Mutex::default() });
            let run: Work<E::Session, Attempt<E::Session, A, T>, T> = |session, attempt| {
                Box::pin(async move {
                    let _session = COUNTERS.sessions.count();
                    // An engine may run the work again.
                    attempt.in_the_way().clear();
                    let (lifetimes, in_the_way) = (attempt.lifetimes.as_ref(), &attempt.in_the_way);
                    let mut living = Living { session, lifetimes, hidden: HashMap::new(), in_the_way };
                    (attempt.work)(&mut living, &attempt.argument).await
                })
            };
            let done = self.engine.run(view.access, until, Arc::clone(&attempt), run).await;
            let in_the_way = std::mem::take(&mut *attempt.in_the_way());
            if done.is_ok() || in_the_way.is_empty() {
                return done;
            }
            // No work puts in more than one step, so nothing was done.
            self.expire(in_the_way, until).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        }
    }
}

impl<S, A, T> Attempt<S, A, T> {
    fn in_the_way(&self) -> MutexGuard<'_, Vec<RecordId>> {
        self.in_the_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Reader> Living<'_, S> {
    /// Fails if an expired document blocks a put: the storage has it, but the caller has not seen it.
    fn check_places(&self, puts: &[Put<'_, S::Version>]) -> Result<()> {
        let records = puts.iter().map(|put| put.after.into());
        let over: Vec<RecordId> = records.filter(|record| self.hidden.contains_key(record)).collect();
        if over.is_empty() {
            return Ok(());
        }
        self.in_the_way.lock().unwrap_or_else(PoisonError::into_inner).extend(over);
        Err(Error::new(
            ErrorKind::Unavailable,
            "an expired document has this id, and was not swept yet: try again later",
        )
        .retryable())
    }
}

impl<S: Reader> Reader for Living<'_, S> {
    type Version = S::Version;

    const PLACES: usize = S::PLACES;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<S::Version>> {
        let mut found = self.session.memories(ids).await?;
        let Some(lifetimes) = self.lifetimes else { return Ok(found) };
        let end = |memory: &Result<Found<Memory, S::Version>>| lifetimes.end_of_memory(&memory.as_ref().ok()?.record);
        let ended = found.iter().filter_map(|(id, memory)| Some((RecordId::from(*id), end(memory)?)));
        self.hidden.extend(ended);
        found.retain(|_, memory| end(memory).is_none());
        Ok(found)
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let Some(lifetimes) = self.lifetimes else { return self.session.walk_memories(walk, visit).await };
        let mut visit = |row: &dyn Row<Ledger>| visit(&LivingRow { row, lifetimes, is_memory: true });
        self.session.walk_memories(walk, &mut visit).await
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        self.session.siblings(of, prefix, after, most).await
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<S::Version>> {
        let mut found = self.session.documents(collection, ids).await?;
        let Some(lifetimes) = self.lifetimes else { return Ok(found) };
        found.retain(|document| {
            let Ok(Found { record, .. }) = document else { return true };
            let end = lifetimes.end_of_document(record);
            self.hidden.extend(end.map(|end| (record.into(), end)));
            end.is_none()
        });
        Ok(found)
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let Some(lifetimes) = self.lifetimes else { return self.session.walk_documents(collection, walk, visit).await };
        let mut visit = |row: &dyn Row<Documents>| visit(&LivingRow { row, lifetimes, is_memory: false });
        self.session.walk_documents(collection, walk, &mut visit).await
    }

    fn collections(
        &mut self,
        behind: Option<&Collection>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Collection>>> + Send {
        self.session.collections(behind, most)
    }

    fn newest_change(&mut self) -> impl Future<Output = Result<FeedEnd>> + Send {
        self.session.newest_change()
    }

    fn changes(&mut self, after: &FeedPosition, most: usize) -> impl Future<Output = Result<FeedPage>> + Send {
        self.session.changes(after, most)
    }

    fn timeline(&mut self) -> impl Future<Output = Result<Timeline>> + Send {
        self.session.timeline()
    }

    /// Empty for an expired record that was read before: its sweep also erases earlier records of the same id.
    async fn history(&mut self, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
        match self.hidden.contains_key(of) {
            true => Ok(Vec::new()),
            false => self.session.history(of, below, most).await,
        }
    }

    /// Also returns tombstones for expired records that were read before.
    async fn tombstones(&mut self, of: &[RecordId]) -> Result<Vec<Tombstone>> {
        let mut found = self.session.tombstones(of).await?;
        for (record, at) in of.iter().filter_map(|record| Some((record, self.hidden.get(record)?))) {
            let made = Tombstone::of_expiry(record.clone(), *at);
            match found.iter_mut().find(|tombstone| tombstone.record == *record) {
                Some(earlier) => *earlier = made.behind(earlier),
                None => found.push(made),
            }
        }
        Ok(found)
    }

    fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> impl Future<Output = Result<(Vec<Tombstone>, Option<Vec<u8>>)>> + Send {
        self.session.tombstones_behind(behind, most)
    }

    fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(Timestamp, RecordId)>>> + Send {
        self.session.expired(by, behind, most)
    }

    fn vectors(&mut self, of: &[RecordId]) -> impl Future<Output = Result<Vec<(RecordId, Vec<u8>)>>> + Send {
        self.session.vectors(of)
    }

    fn stored_at(&mut self, id: MemoryId) -> impl Future<Output = Result<Option<Timestamp>>> + Send {
        self.session.stored_at(id)
    }
}

impl<S: Writer> Writer for Living<'_, S> {
    fn append(&mut self, append: Append<'_>) -> impl Future<Output = Result<Vec<Appended>>> + Send {
        self.session.append(append)
    }

    fn replace(
        &mut self,
        before: &Found<Memory, S::Version>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> impl Future<Output = Result<bool>> + Send {
        self.session.replace(before, after, entry)
    }

    async fn put(&mut self, puts: &[Put<'_, S::Version>]) -> Result<bool> {
        self.check_places(puts)?;
        self.session.put(puts).await
    }

    fn put_new(&mut self, puts: &[Put<'_, S::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        self.session.put_new(puts)
    }

    fn remove(
        &mut self,
        collection: &Collection,
        removals: &[Removal<'_, S::Version>],
    ) -> impl Future<Output = Result<bool>> + Send {
        self.session.remove(collection, removals)
    }

    fn erase(&mut self, erasings: &[Erasing<'_, S::Version>]) -> impl Future<Output = Result<bool>> + Send {
        self.session.erase(erasings)
    }

    fn forget(&mut self, tombstones: &[Tombstone]) -> impl Future<Output = Result<()>> + Send {
        self.session.forget(tombstones)
    }

    fn embed(&mut self, embeds: &[Embed<'_, S::Version>]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        self.session.embed(embeds)
    }
}

/// A row whose head tells whether the record has expired.
struct LivingRow<'r, K: Selects> {
    row: &'r dyn Row<K>,
    lifetimes: &'r Lifetimes,
    is_memory: bool,
}

impl<K: Selects> Row<K> for LivingRow<'_, K> {
    fn head(&self) -> Result<Head<'_>> {
        let head = self.row.head()?;
        Ok(Head { is_over: self.lifetimes.end(&head, self.is_memory).is_some(), ..head })
    }

    fn read(&self, head: &Head<'_>) -> Result<K::Record> {
        self.row.read(head)
    }

    fn id(&self) -> String {
        self.row.id()
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        self.row.vector()
    }
}
