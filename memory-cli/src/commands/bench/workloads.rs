//! The workloads, one after the other, on one provider.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use conformance::workload::{self, BATCH, Ledger, QUESTION};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use memory_core::{
    ChangeKind, Context, Cursor, Embedding, MAX_LIMIT, MAX_VECTORS, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery,
    NewMemory, Precision, Recall, Record, Result, Revision, SpaceId, Vector, VectorModel, Watch, Watched,
};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::meter::{Latencies, Limits, Measured, measure};

/// The number of concurrent batches while the ledger is loaded.
const LOADING: usize = 4;
/// One in this many loaded memories is read and updated later.
const SAMPLE: usize = 100;
/// The interval of stores during the watch workload: 1,000 per second.
const BETWEEN_STORES: Duration = Duration::from_millis(1);
/// The space that holds half of the ledger.
const DENSE: &str = "plugin-discord-dense";
/// The space that holds a thousandth of the ledger.
const MEDIUM: &str = "plugin-discord-medium";

/// The space above those of memories with vectors.
const VECTORS: &str = "plugin-discord-vectors";
/// The dimensions of a vector, as those of small models.
const WIDTH: usize = 384;
/// The number of different question vectors.
const QUESTIONS: usize = 64;
/// The number of memories in a room.
const TURNS: usize = 20;
/// The seed of the vectors.
const SEED: u64 = 42;

/// Runs the workloads on a provider, and collects the results.
pub(super) struct Workloads {
    provider: Arc<dyn MemoryProvider>,
    ledger: Ledger,
    clients: usize,
    limits: Limits,
    measured: Vec<Measured>,
    /// The number of the next row that is not stored yet.
    fresh: usize,
}

/// The facts about a loaded ledger.
pub(super) struct Loaded {
    /// The bytes of all texts.
    pub(super) texts: usize,
    /// The number of memories under [`DENSE`].
    dense: usize,
    sample: Arc<[MemoryId]>,
}

impl Workloads {
    pub(super) fn new(provider: Arc<dyn MemoryProvider>, ledger: Ledger, clients: usize, limits: Limits) -> Self {
        Self { provider, ledger, clients, limits, measured: Vec::new(), fresh: ledger.rows }
    }

    pub(super) fn measured(self) -> Vec<Measured> {
        self.measured
    }

    pub(super) async fn load(&mut self) -> anyhow::Result<Loaded> {
        let bar = ProgressBar::new(self.ledger.rows as u64);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len}, {per_sec}, {eta} left") {
            bar.set_style(style);
        }
        let (mut latencies, mut sample, start) = (Latencies::new()?, Vec::new(), Instant::now());
        let (mut texts, mut dense) = (0, 0);
        let batches = stream::iter(self.ledger.batches()).map(|batch| {
            texts += batch.iter().map(workload::size).sum::<usize>();
            dense += batch.iter().filter(|row| is_under_dense(row)).count();
            let provider = &self.provider;
            async move {
                let start = Instant::now();
                provider.store_many(batch).await.map(|ids| (ids, start.elapsed()))
            }
        });
        let mut batches = batches.buffer_unordered(LOADING);
        while let Some((ids, taken)) = batches.try_next().await? {
            latencies.add(taken);
            bar.inc(ids.len() as u64);
            sample.extend(ids.into_iter().step_by(SAMPLE));
        }
        drop(batches);
        bar.finish_and_clear();
        let rows = self.ledger.rows as u64;
        self.measured.push(latencies.measured("load in batches of 1,000", LOADING, rows, start.elapsed()));
        Ok(Loaded { texts, dense, sample: sample.into() })
    }

    /// Recalls the newest 50 of each scope, and the best 50 for a question in words.
    pub(super) async fn recall(&mut self) -> anyhow::Result<()> {
        for question in self.ledger.questions() {
            self.query(question.name, 1, question.query.clone()).await?;
            if question.name == "under, dense" {
                self.query(question.name, self.clients, question.query).await?;
            }
        }
        let query = MemoryQuery::builder().under(MEDIUM).build()?;
        let (provider, recall) = (Arc::clone(&self.provider), Arc::new(Recall::new(QUESTION, query)?));
        let ask = move |_| {
            let (provider, recall) = (Arc::clone(&provider), Arc::clone(&recall));
            async move { provider.recall(&recall).await.map(drop) }
        };
        self.run("a question under medium", 1, 1, ask).await
    }

    /// Recalls the best 50 for a vector, in scopes of these sizes beside the whole ledger.
    pub(super) async fn recall_by_vector(&mut self, sizes: &[u64]) -> anyhow::Result<()> {
        let model = VectorModel::new("random", WIDTH, Precision::Compact)?;
        let mut random = SEED;
        for size in sizes {
            let space = format!("{VECTORS}-{size}");
            self.load_vectors(&space, *size, &model, &mut random).await?;
            let questions = (0..QUESTIONS).map(|_| vector(&mut random)).collect::<Result<Vec<_>>>()?;
            let query = MemoryQuery::builder().under(&space).build()?;
            let ask = |words: &str| -> Result<_> {
                let (provider, recall) = (Arc::clone(&self.provider), Recall::new(words, query.clone())?);
                let questions: Arc<[_]> = questions.clone().into();
                Ok(move |turn: u64| {
                    let vector = questions[turn as usize % questions.len()].clone();
                    let (provider, recall) = (Arc::clone(&provider), recall.clone().by_vector(vector));
                    async move { provider.recall(&recall).await.map(drop) }
                })
            };
            let (alone, with_words) = (ask("")?, ask(QUESTION)?);
            self.run(&format!("a vector under {size}"), 1, 1, alone).await?;
            self.run(&format!("a question and a vector under {size}"), 1, 1, with_words).await?;
        }
        Ok(())
    }

    /// Stores and embeds memories in spaces below a space.
    async fn load_vectors(
        &mut self,
        space: &str,
        size: u64,
        model: &VectorModel,
        random: &mut u64,
    ) -> anyhow::Result<()> {
        self.provider.set_vector_model(model).await?;
        let (mut latencies, mut taken) = (Latencies::new()?, Duration::ZERO);
        let first = self.fresh;
        self.fresh += size as usize;
        let places: Vec<_> = (first..self.fresh).collect();
        for places in places.chunks(MAX_VECTORS) {
            let row = |place: &usize| -> Result<_> {
                let mut memory = self.ledger.row(*place);
                // A room has as many turns as a conversation.
                memory.space_id = SpaceId::parse(format!("{space}-r{}-m{place}", place / TURNS))?;
                Ok(memory)
            };
            let ids = self.provider.store_many(places.iter().map(row).collect::<Result<_>>()?).await?;
            let mut embedding = |id: MemoryId| -> Result<_> {
                Ok(Embedding { record: id.into(), revision: Revision::FIRST, vector: vector(random)?, texts: None })
            };
            let embeddings = ids.into_iter().map(&mut embedding).collect::<Result<Vec<_>>>()?;
            let begun = Instant::now();
            let kept = self.provider.embed(model, embeddings).await?;
            latencies.add(begun.elapsed());
            taken += begun.elapsed();
            if kept.contains(&false) {
                bail!("a vector of a memory that was just stored is not kept");
            }
        }
        self.measured.push(latencies.measured(&format!("embed {size} in batches of 1,000"), 1, size, taken));
        Ok(())
    }

    /// Recalls the newest 50 of each scope once, with a provider that was just opened on cold caches.
    pub(super) async fn recall_cold(
        &mut self,
        open: impl AsyncFn() -> anyhow::Result<Arc<dyn MemoryProvider>>,
    ) -> anyhow::Result<()> {
        for question in self.ledger.questions() {
            let provider = open().await?;
            let (mut latencies, start) = (Latencies::new()?, Instant::now());
            provider.query(&question.query).await?;
            let taken = start.elapsed();
            provider.shutdown().await?;
            latencies.add(taken);
            self.measured.push(latencies.measured(&format!("{}, cold", question.name), 1, 1, taken));
        }
        Ok(())
    }

    /// Walks half of the ledger page by page, and compares the second page, the first with a cursor, with one at the end.
    pub(super) async fn walk(&mut self, loaded: &Loaded) -> anyhow::Result<()> {
        let query = |limit: usize, cursor: Option<&Cursor>| {
            let query = MemoryQuery::builder().under(DENSE).limit(limit);
            cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor)).build()
        };
        // So that a small ledger has several pages, too.
        let limit = (self.ledger.rows / 20).min(MAX_LIMIT);
        let (mut cursors, mut found) = ([None, None], 0);
        loop {
            let page = self.provider.query(&query(limit, cursors[1].as_ref())?).await?;
            found += page.memories.len();
            let Some(next) = page.next else { break };
            cursors.rotate_left(1);
            cursors[1] = Some(next);
        }
        if found != loaded.dense {
            bail!("a walk found {found} memories where there are {}", loaded.dense);
        }
        let second = self.provider.query(&query(50, None)?).await?.next;
        self.query("walk under dense, second page", 1, query(50, second.as_ref())?).await?;
        // The cursor before the last one is followed by a whole page.
        self.query("walk under dense, a last page", 1, query(50, cursors[0].as_ref())?).await
    }

    pub(super) async fn write(&mut self, loaded: &Loaded) -> anyhow::Result<()> {
        let (sample, provider) = (Arc::clone(&loaded.sample), Arc::clone(&self.provider));
        let get = move |turn| {
            let (id, provider) = (pick(&sample, turn), Arc::clone(&provider));
            async move { provider.get(id).await.map(drop) }
        };
        self.run("get", 1, 1, get).await?;
        let (sample, provider) = (Arc::clone(&loaded.sample), Arc::clone(&self.provider));
        let update = move |turn| {
            let (id, provider) = (pick(&sample, turn), Arc::clone(&provider));
            async move {
                let context = Context::parse(r#"{"answer":"forty-two"}"#)?;
                provider.update(id, MemoryPatch::new().set_context(context)).await.map(drop)
            }
        };
        self.run("update", 1, 1, update).await?;
        for clients in [1, self.clients] {
            let (ledger, provider, first) = (self.ledger, Arc::clone(&self.provider), self.fresh_rows(1));
            let store = move |turn| {
                let (row, provider) = (ledger.row(first + turn as usize), Arc::clone(&provider));
                async move { provider.store(row).await.map(drop) }
            };
            self.run("store", clients, 1, store).await?;
        }
        let (ledger, provider, first) = (self.ledger, Arc::clone(&self.provider), self.fresh_rows(BATCH));
        let store_many = move |turn| {
            let first = first + turn as usize * BATCH;
            let rows: Vec<_> = (first..first + BATCH).map(|place| ledger.row(place)).collect();
            let provider = Arc::clone(&provider);
            async move { provider.store_many(rows).await.map(drop) }
        };
        self.run("store_many of 1,000", 1, BATCH, store_many).await
    }

    /// Measures the time from the call of a store until the watch of another handle reports it, including the store itself.
    pub(super) async fn watch(&mut self, watching: &dyn MemoryProvider) -> anyhow::Result<()> {
        let mut changes = watching.watch(&Watch::new(Watched::Memories, MemoryQuery::builder().all())?).await?;
        changes.next().await.context("the watch has ended")??;
        let (start, first) = (Instant::now(), self.fresh_rows(1));
        let mut storing = tokio::spawn(store_by_the_clock(Arc::clone(&self.provider), self.ledger, first, self.limits));
        let (mut called, mut told) = (None, HashMap::new());
        while called.as_ref().is_none_or(|called: &HashMap<_, _>| told.len() < called.len()) {
            tokio::select! {
                stored = &mut storing, if called.is_none() => called = Some(stored??),
                change = changes.next() => {
                    if let ChangeKind::Stored(Record::Memory(memory)) = change.context("the watch has ended")??.kind {
                        told.insert(memory.id, Instant::now());
                    }
                }
            }
        }
        let (taken, called) = (start.elapsed(), called.unwrap_or_default());
        let mut latencies = Latencies::new()?;
        for (id, at) in &called {
            let told = told.get(id).context("a memory was stored and not told")?;
            latencies.add(told.saturating_duration_since(*at));
        }
        let count = called.len() as u64;
        self.measured.push(latencies.measured("a store, until a watch tells of it", 1, count, taken));
        Ok(())
    }

    async fn query(&mut self, name: &str, clients: usize, query: MemoryQuery) -> anyhow::Result<()> {
        let (provider, query) = (Arc::clone(&self.provider), Arc::new(query));
        let ask = move |_| {
            let (provider, query) = (Arc::clone(&provider), Arc::clone(&query));
            async move { provider.query(&query).await.map(drop) }
        };
        self.run(name, clients, 1, ask).await
    }

    /// Measures operations, each on `memories` memories.
    async fn run<O, F>(&mut self, name: &str, clients: usize, memories: usize, operation: O) -> anyhow::Result<()>
    where
        O: Fn(u64) -> F + Send + Sync + 'static,
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let bar = ProgressBar::new_spinner().with_message(name.to_owned());
        bar.tick();
        let measured = measure(name, clients, self.limits, memories as u64, operation).await;
        bar.finish_and_clear();
        self.measured.push(measured?);
        Ok(())
    }

    /// Reserves the rows of a workload that takes `in_each` rows per operation, and returns the first.
    fn fresh_rows(&mut self, in_each: usize) -> usize {
        let first = self.fresh;
        self.fresh += self.limits.operations as usize * in_each;
        first
    }
}

/// Starts a store every millisecond, whether or not the earlier ones have ended, and returns when each was called.
async fn store_by_the_clock(
    provider: Arc<dyn MemoryProvider>,
    ledger: Ledger,
    first: usize,
    limits: Limits,
) -> anyhow::Result<HashMap<MemoryId, Instant>> {
    let (start, mut clock, mut stores) = (Instant::now(), interval(BETWEEN_STORES), JoinSet::new());
    for turn in 0..limits.operations as usize {
        if start.elapsed() >= limits.time {
            break;
        }
        let (provider, row) = (Arc::clone(&provider), ledger.row(first + turn));
        clock.tick().await;
        let called = Instant::now();
        stores.spawn(async move { provider.store(row).await.map(|id| (id, called)) });
    }
    let mut called = HashMap::new();
    while let Some(stored) = stores.join_next().await {
        let (id, at) = stored??;
        called.insert(id, at);
    }
    Ok(called)
}

fn is_under_dense(row: &NewMemory) -> bool {
    row.space_id.as_str().strip_prefix(DENSE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the next pseudo-random direction.
fn vector(random: &mut u64) -> Result<Vector> {
    let numbers: Vec<f32> = (0..WIDTH).map(|_| number(random)).collect();
    Vector::new(&numbers)
}

/// Returns a pseudo-random number from -1 to 1.
fn number(random: &mut u64) -> f32 {
    // The generator of Knuth's MMIX; its high bits are the better ones.
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}

/// Picks the sampled memories in turn.
fn pick(sample: &[MemoryId], turn: u64) -> MemoryId {
    sample[turn as usize % sample.len()]
}
