//! Runs calls that examine records: light ones, and heavy ones with a permit (L8).

use std::sync::Arc;
use std::time::Instant;

use super::living::{LivingWork, View};
use super::open::{Open, Shared};
use crate::engine::gate::record_rows;
use crate::engine::heavy::Permit;
use crate::engine::pages::{self, Asked};
use crate::engine::spaces::AskedSpaces;
use crate::engine::watch::Watching;
use crate::engine::{Access, Engine};
use crate::{Collection, DocumentPage, DocumentQuery, MemoryPage, MemoryQuery, Result, SpaceLevel, SpaceQuery};

/// Maximum number of records that a call examines without a permit (L8).
const MAX_LIGHT_EXAMINED: u64 = 1_000;

/// How a call examines records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) view: View,
    /// The deadline of the call.
    pub(super) until: Instant,
    /// Whether it takes a permit.
    pub(super) is_heavy: bool,
    /// Whether documents are indexed by place.
    pub(super) has_places: bool,
}

impl Look {
    /// A light call that begins now, with the index by place.
    pub(super) fn new<E: Engine>(open: &Open<E>, view: impl Into<View>) -> Self {
        Self { view: view.into(), until: open.until(), is_heavy: false, has_places: true }
    }

    pub(super) fn heavy(mut self, is_heavy: bool) -> Self {
        self.is_heavy = is_heavy;
        self
    }

    pub(super) fn watching(&self) -> Watching {
        Watching::new(self.until, (!self.is_heavy).then_some(MAX_LIGHT_EXAMINED))
    }
}

impl<E: Engine> Shared<E> {
    /// Takes a permit if the call needs one (L8).
    pub(super) async fn permit(&self, is_heavy: bool) -> Result<Option<Arc<Permit>>> {
        if is_heavy { self.gate.permit().await.map(|permit| Some(Arc::new(permit))) } else { Ok(None) }
    }

    /// Returns a page of memories.
    pub(super) async fn memories(&self, view: impl Into<View>, query: &MemoryQuery) -> Result<MemoryPage> {
        let open = self.ready().await?;
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(pages::memories(reader, asked));
        let how = Look::new(&open, view).heavy(query.is_heavy());
        self.look(&open, how, query, work).await
    }

    /// Returns a page of documents.
    pub(super) async fn documents(&self, view: impl Into<View>, query: &DocumentQuery) -> Result<DocumentPage> {
        let open = self.ready().await?;
        let has_places = open.has_document_places().await;
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(pages::documents(reader, asked));
        let how = Look { has_places, ..Look::new(&open, view).heavy(query.is_heavy()) };
        self.look(&open, how, query, work).await
    }

    /// Returns the levels of a query of spaces. A light call that has examined too many records starts over with a
    /// permit (L8).
    pub(super) async fn list(
        &self,
        open: &Arc<Open<E>>,
        of: Option<&Collection>,
        query: &SpaceQuery,
        work: LivingWork<E::Session, AskedSpaces, Vec<SpaceLevel>>,
    ) -> Result<Vec<SpaceLevel>> {
        let mut how = Look::new(open, Access::Read).heavy(query.is_heavy());
        loop {
            let (permit, watching) = (self.permit(how.is_heavy).await?, how.watching());
            let asked =
                AskedSpaces { query: query.clone(), key: open.key.clone(), watch: watching.watch(), of: of.cloned() };
            let levels = open.run_watched(permit, &watching, how.view, asked, work).await;
            if !watching.is_spent() {
                record_rows(levels.iter().flatten().map(|level| level.spaces.len()).sum());
                return levels;
            }
            how.is_heavy = true;
        }
    }

    /// Runs a query. A light call that has examined too many records starts over with a permit (L8).
    pub(super) async fn look<Q, T>(
        &self,
        open: &Arc<Open<E>>,
        mut how: Look,
        question: &Q,
        work: LivingWork<E::Session, Asked<Q>, T>,
    ) -> Result<T>
    where
        Q: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        loop {
            let watching = how.watching();
            let found = self.look_once(open, how, &watching, question, work).await;
            if !watching.is_spent() {
                return found;
            }
            how.is_heavy = true;
        }
    }

    /// Runs a query once, light or heavy. If the watch is spent, the result must be discarded.
    pub(super) async fn look_once<Q, T>(
        &self,
        open: &Arc<Open<E>>,
        Look { view, is_heavy, has_places, .. }: Look,
        watching: &Watching,
        question: &Q,
        work: LivingWork<E::Session, Asked<Q>, T>,
    ) -> Result<T>
    where
        Q: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = self.permit(is_heavy).await?;
        let asked = Asked { query: question.clone(), key: open.key.clone(), watch: watching.watch(), has_places };
        open.run_watched(permit, watching, view, asked, work).await
    }
}
