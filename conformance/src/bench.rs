//! Runs the workloads on an engine and on its bare driver, on the same data.

use std::future::Ready;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use criterion::{Criterion, SamplingMode};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use memory_core::{
    Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentSelection, Documents, HistorySettings,
    MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, QueryBuilder, Recall, Revision, SpaceId,
    Timestamp,
};
use tokio::runtime::Runtime;

use crate::workload::{BATCH, Ledger, PAYLOAD, QUESTION, Ratios, RowOrder, SpaceForm, WORD, size};

/// How many tasks store concurrently.
const TASKS: usize = 64;
/// The size of a scope, in memories or documents, and the collections in which the scope lies alone and beside others.
const SCOPE: usize = 1_000;
const ALONE: &str = "alone";
const BESIDE: &str = "beside";
/// How many batches are in flight while a ledger is loaded.
const LOADING: usize = 4;

/// An engine to measure.
#[async_trait]
pub trait Engine {
    /// Opens and initialises a provider on an empty namespace with these history settings, and the bare driver on the same data.
    async fn open(&self, namespace: &str, history: HistorySettings) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>);
    /// The disk space that the namespace takes, in bytes, or that of the whole server if the engine reports nothing smaller.
    async fn size(&self, namespace: &str) -> u64;
    /// Removes everything that the namespace holds.
    async fn remove(&self, namespace: &str);
}

/// The driver of an engine, without the provider, on the tables and indexes of the provider: the lowest cost that the same work can have.
#[async_trait]
pub trait Bare: Send + Sync {
    /// Stores one memory.
    async fn store(&self, row: NewMemory);
    /// Stores a batch.
    async fn store_many(&self, rows: Vec<NewMemory>);
    /// Stores a whole ledger, in batches unless the engine has a faster way.
    async fn import(&self, ledger: Ledger) {
        stream::iter(ledger.batches()).for_each_concurrent(LOADING, |batch| self.store_many(batch)).await;
    }
    /// Flushes earlier writes to disk, so that none is in progress while reads are measured.
    async fn settle(&self) {}
    /// Sets the context of a memory.
    async fn update(&self, id: MemoryId, context: &Context);
    /// Reads one memory.
    async fn get(&self, id: MemoryId);
    /// Answers a question of the workload by the best statement that one would write for it by hand, and returns the ids; `None` if there
    /// is no such statement.
    async fn answer(&self, question: &str) -> Option<Vec<MemoryId>>;
}

/// Measures an engine, and prints a table of the medians and of their ratios. Only the ratios are comparable: the figures are those of one
/// machine in one run.
///
/// Queries and recalls are measured on 10,000 rows, or on `MEMORY_BENCH_ROWS`; 0 skips them. Documents are looked for
/// beside as many others, or beside `MEMORY_BENCH_DOCUMENTS`.
///
/// `MEMORY_BENCH_MINIMUM`, a ratio, turns this into a smoke test: it uses one ledger only, and panics if the provider is slower than that
/// ratio of the bare driver's speed.
pub fn run(engine: &dyn Engine) {
    let rows = variable("MEMORY_BENCH_ROWS").unwrap_or(10_000);
    let documents = variable("MEMORY_BENCH_DOCUMENTS").unwrap_or(rows);
    let minimum = variable::<f64>("MEMORY_BENCH_MINIMUM");
    let criterion = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200));
    let mut bench = Bench {
        criterion: criterion.measurement_time(Duration::from_secs(1)).configure_from_args(),
        runtime: Runtime::new().expect("a runtime"),
        ratios: Ratios::default(),
        loads: "| ledger | loaded, in batches of 1,000 | bytes per memory beyond its texts |\n|---|---|---|\n"
            .to_owned(),
        engine,
    };
    bench.writes();
    let forms = [SpaceForm::Plain, SpaceForm::WithUuid];
    let ledgers = forms.into_iter().flat_map(|form| RowOrder::ALL.map(|order| (form, order)));
    let wanted = if rows == 0 { 0 } else { minimum.map_or(usize::MAX, |_| 1) };
    for (form, order) in ledgers.take(wanted) {
        bench.recall(Ledger { order, form, ..Ledger::new(rows) });
    }
    if rows > 0 {
        bench.words(rows);
    }
    if documents > 0 {
        bench.documents(documents);
    }
    bench.criterion.final_summary();
    println!(
        "\nRecall from {rows} rows, texts beside as many others, documents beside {documents}.\n\n{}\n{}",
        bench.ratios.table(),
        bench.loads
    );
    if let Some(minimum) = minimum {
        let slow = bench.ratios.below(minimum);
        assert!(slow.is_empty(), "slower than {minimum} times the speed of the bare driver: {slow:?}");
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is not a valid number: {value}")))
}

struct Bench<'e> {
    criterion: Criterion,
    runtime: Runtime,
    ratios: Ratios,
    loads: String,
    engine: &'e dyn Engine,
}

impl Bench<'_> {
    fn writes(&mut self) {
        let namespace = "bench_writes";
        let (ours, bare) = self.runtime.block_on(self.engine.open(namespace, HistorySettings::default()));
        let (ledger, mut places) = (Ledger::new(1_000_000), 0..);
        let mut next = move |count| places.by_ref().take(count).map(|place| ledger.row(place)).collect::<Vec<_>>();

        let alone = async |rows| {
            for row in rows {
                bare.store(row).await;
            }
        };
        let one_by_one = async |rows| {
            for row in rows {
                ours.store(row).await.expect("stores");
            }
        };
        self.compare("store, one after the other", || next(200), Some(alone), one_by_one);

        let (bare_store, store) = (bare_store(&bare), store(&ours));
        let name = "store, 64 tasks at the same time";
        let alone = async |rows| at_the_same_time(rows, &bare_store).await;
        self.compare(name, || next(100 * TASKS), Some(alone), async |rows| at_the_same_time(rows, &store).await);

        let batch = async |rows| drop(ours.store_many(rows).await.expect("stores"));
        let alone = async |rows| bare.store_many(rows).await;
        self.compare("store_many of 1,000", || next(1_000), Some(alone), batch);

        let ids = self.runtime.block_on(ours.store_many(next(10_000))).expect("stores");
        let mut turn = ids.into_iter().cycle();
        let mut some = || turn.by_ref().take(200).collect::<Vec<_>>();
        let context = Context::parse(r#"{"answer":"forty-two"}"#).expect("valid");
        let alone = async |ids| {
            for id in ids {
                bare.update(id, &context).await;
            }
        };
        let update = async |ids| {
            for id in ids {
                ours.update(id, MemoryPatch::new().set_context(context.clone())).await.expect("updates");
            }
        };
        self.compare("update", &mut some, Some(alone), update);
        self.history(&*ours, &mut some, &mut next);
        let alone = async |ids| {
            for id in ids {
                bare.get(id).await;
            }
        };
        let get = async |ids| {
            for id in ids {
                ours.get(id).await.expect("answers").expect("is there");
            }
        };
        self.compare("get", &mut some, Some(alone), get);
        self.close(ours, namespace);
    }

    /// The cost of a history for an update. A provider that keeps none takes the place of the bare driver.
    fn history(
        &mut self,
        ours: &dyn MemoryProvider,
        some: &mut impl FnMut() -> Vec<MemoryId>,
        next: &mut impl FnMut(usize) -> Vec<NewMemory>,
    ) {
        let namespace = "bench_none";
        let none = HistorySettings { is_kept: Some(false), ..HistorySettings::default() };
        let (without, _bare) = self.runtime.block_on(self.engine.open(namespace, none));
        let ids = self.runtime.block_on(without.store_many(next(10_000))).expect("stores");
        let mut turn = ids.into_iter().cycle();
        // A task appends its next step to its chain.
        let count = AtomicUsize::new(0);
        let step = || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let chain = format!("[{}]", vec![r#"{"step":"search","output":"forty-two"}"#; 1 + number % 8].join(","));
            MemoryPatch::new().set_context(Context::parse(&chain).expect("valid"))
        };
        let mut pairs = || some().into_iter().zip(turn.by_ref().take(200).collect::<Vec<_>>()).collect::<Vec<_>>();
        let none = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (_, id) in ids {
                without.update(id, step()).await.expect("updates");
            }
        };
        let kept = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (id, _) in ids {
                ours.update(id, step()).await.expect("updates");
            }
        };
        self.compare("update, beside one that keeps no history", &mut pairs, Some(none), kept);
        self.close(without, namespace);
    }

    /// Queries of the newest 50 rows of each shape.
    fn recall(&mut self, ledger: Ledger) {
        let namespace = format!("bench_{:?}_{:?}", ledger.order, ledger.form).to_lowercase();
        let (ours, bare) = self.runtime.block_on(self.engine.open(&namespace, HistorySettings::default()));
        self.load(ledger, &namespace, &*ours);
        self.runtime.block_on(bare.settle());
        for question in ledger.questions() {
            let name = format!("{}; {:?}, {:?}", question.name, ledger.order, ledger.form);
            let found = self.runtime.block_on(ours.query(&question.query)).expect("answers").memories;
            let query = async |times| {
                for () in times {
                    ours.query(&question.query).await.expect("answers");
                }
            };
            // Slow queries run once.
            let times = if question.name.starts_with("prefix") { 1 } else { 20 };
            // No statement of a database knows what a word is (T1).
            let is_bare = question.query.text().is_none();
            let expected = if is_bare { self.runtime.block_on(bare.answer(question.name)) } else { None };
            let found: Vec<_> = found.iter().map(|memory| memory.id).collect();
            assert!(expected.as_ref().is_none_or(|ids| *ids == found), "the bare driver answers {name} differently");
            let alone = async |times| {
                for () in times {
                    bare.answer(question.name).await;
                }
            };
            self.compare(&name, || vec![(); times], expected.map(|_| alone), query);
        }
        self.close(ours, &namespace);
    }

    /// The cost of a text and of a question in a scope of memories: in a ledger without others, which takes the place of the bare driver,
    /// and beside `others` other memories.
    fn words(&mut self, others: usize) {
        let (ledger, namespaces) = (Ledger::new(others), ["bench_words_alone", "bench_words_beside"]);
        let [alone, beside] = namespaces
            .map(|namespace| self.runtime.block_on(self.engine.open(namespace, HistorySettings::default())).0);
        let scope = (0..SCOPE).map(|number| {
            let mut row = ledger.row(number * others.div_ceil(SCOPE));
            row.space_id = space("scope", number);
            row
        });
        let scope: Vec<_> = scope.collect();
        self.runtime.block_on(async {
            for ours in [&alone, &beside] {
                ours.store_many(scope.clone()).await.expect("stores");
            }
            let store = async |batch| drop(beside.store_many(batch).await.expect("stores"));
            stream::iter(ledger.batches()).for_each_concurrent(LOADING, store).await;
        });
        // One word that fills a page of 50 early, and one that no row has, for which all of the scope is read.
        for (name, text) in [("a word of every eighth", WORD), ("a word of none", "zebra")] {
            let query = MemoryQuery::builder().under("scope").text(text).build().expect("a query");
            let ask = async |ours: &Arc<dyn MemoryProvider>, times: Vec<()>| {
                for () in times {
                    ours.query(&query).await.expect("answers");
                }
            };
            let name = format!("text: {name} in a scope, alone and beside others");
            let bare = async |times| ask(&alone, times).await;
            self.compare(&name, || vec![(); 20], Some(bare), async |times| ask(&beside, times).await);
        }
        let scoped = |limit| MemoryQuery::builder().under("scope").limit(limit).build().expect("a query");
        let recall = async |ours: &Arc<dyn MemoryProvider>| {
            let recall = Recall::new(QUESTION, scoped(10)).expect("a question");
            ours.recall(&recall).await.expect("answers");
        };
        // One at a time, so that the slowest of them show.
        let name = "recall: a question to memories of a scope, alone and beside others";
        let bare = async |_: Vec<()>| recall(&alone).await;
        self.compare(name, || vec![()], Some(bare), async |_| recall(&beside).await);
        let name = "recall: a question to memories of a scope, beside reading all of it";
        let reading = async |_: Vec<()>| drop(beside.query(&scoped(SCOPE)).await.expect("answers"));
        self.compare(name, || vec![()], Some(reading), async |_| recall(&beside).await);
        // A recall looks at no more than the newest memories of a large scope (R5).
        let all = MemoryQuery::builder().all().limit(10).build().expect("a query");
        let all = Recall::new(QUESTION, all).expect("a question");
        let recall = async |_: Vec<()>| drop(beside.recall(&all).await.expect("answers"));
        self.compare("recall: a question to all memories", || vec![()], None::<fn(Vec<()>) -> Ready<()>>, recall);
        for (ours, namespace) in [alone, beside].into_iter().zip(namespaces) {
            self.close(ours, namespace);
        }
    }

    /// The cost of a scope of documents: in a collection without others, which takes the place of the bare driver, and beside `others`
    /// other documents.
    fn documents(&mut self, others: usize) {
        let namespace = "bench_documents";
        let (ours, _) = self.runtime.block_on(self.engine.open(namespace, HistorySettings::default()));
        let (documents, handle) = (ours.documents(), self.runtime.handle().clone());
        let put = async |rows: Vec<Document>| drop(documents.restore(rows).await.expect("restores"));
        let scope = |name| (0..SCOPE).map(move |place| document(name, "scope", place, place * others.div_ceil(SCOPE)));
        handle.block_on(async {
            for name in [ALONE, BESIDE] {
                put(scope(name).collect()).await;
            }
            let batch = |batch: usize| {
                let places = batch * BATCH..others.min((batch + 1) * BATCH);
                put(places.map(|place| document(BESIDE, "elsewhere", SCOPE + place, place)).collect())
            };
            stream::iter(0..others.div_ceil(BATCH)).for_each_concurrent(LOADING, batch).await;
        });
        let scoped = |name| DocumentQuery::builder(Collection::parse(name).expect("a name")).under("scope");
        let rare = |name| scoped(name).filter_text("metadata.n = 7");
        let selection = |name| DocumentSelection::matching(rare(name)).expect("a selection");
        let page = async |query: QueryBuilder<Documents>, times: Vec<()>| {
            let query = query.build().expect("a query");
            for () in times {
                documents.query(&query).await.expect("answers");
            }
        };
        let preview = async |name, times: Vec<()>| {
            for () in times {
                selection(name).preview(&*documents, SCOPE).await.expect("answers");
            }
        };
        let recall = async |name, times: Vec<()>| {
            let query = scoped(name).limit(10).build().expect("a query");
            let recall = Recall::new("Which words are about topic7?", query).expect("a question");
            for () in times {
                documents.recall(&recall).await.expect("answers");
            }
        };
        let remove = async |name, _: Vec<()>| drop(documents.remove(&selection(name), SCOPE).await.expect("removes"));

        let name = "documents: newest 50 of a scope, alone and beside others";
        let alone = async |times| page(scoped(ALONE), times).await;
        self.compare(name, || vec![(); 20], Some(alone), async |times| page(scoped(BESIDE), times).await);
        let name = "documents: a filter in a scope, alone and beside others";
        let alone = async |times| page(rare(ALONE), times).await;
        self.compare(name, || vec![(); 20], Some(alone), async |times| page(rare(BESIDE), times).await);
        let text = |name| scoped(name).text("topic7");
        let name = "documents: a text in a scope, alone and beside others";
        let alone = async |times| page(text(ALONE), times).await;
        self.compare(name, || vec![(); 20], Some(alone), async |times| page(text(BESIDE), times).await);
        let name = "recall: a question in a scope, alone and beside others";
        let alone = async |times| recall(ALONE, times).await;
        self.compare(name, || vec![(); 20], Some(alone), async |times| recall(BESIDE, times).await);
        let name = "recall: a question in a scope, beside reading all of it";
        let reading = async |times| page(scoped(BESIDE).limit(SCOPE), times).await;
        self.compare(name, || vec![(); 20], Some(reading), async |times| recall(BESIDE, times).await);
        let name = "documents: a dry run in a scope, alone and beside others";
        let alone = async |times| preview(ALONE, times).await;
        self.compare(name, || vec![(); 20], Some(alone), async |times| preview(BESIDE, times).await);
        let name = "documents: a removal in a scope, alone and beside others";
        let alone = async |times| remove(ALONE, times).await;
        // Puts the documents again that the previous round has removed.
        let again = || {
            for name in [ALONE, BESIDE] {
                let removed = scope(name).filter(|document| selection(name).matches(document));
                handle.block_on(put(removed.collect()));
            }
            vec![()]
        };
        self.compare(name, again, Some(alone), async |times| remove(BESIDE, times).await);
        self.close(ours, namespace);
    }

    /// Stores a ledger. One with plain spaces is also stored by the bare driver, in a namespace of its own.
    fn load(&mut self, ledger: Ledger, namespace: &str, ours: &dyn MemoryProvider) {
        let before = self.runtime.block_on(self.engine.size(namespace));
        let start = Instant::now();
        let texts: usize = self.runtime.block_on(async {
            let batches = stream::iter(ledger.batches()).map(async |batch| {
                let texts: usize = batch.iter().map(size).sum();
                ours.store_many(batch).await.expect("stores");
                texts
            });
            batches.buffer_unordered(LOADING).fold(0, async |sum, texts| sum + texts).await
        });
        let taken = start.elapsed();
        let bytes = self.runtime.block_on(self.engine.size(namespace)).saturating_sub(before) as usize;
        let (rate, beyond) = (ledger.rows as f64 / taken.as_secs_f64(), bytes.saturating_sub(texts) / ledger.rows);
        self.loads += &format!("| {:?}, {:?} | {rate:.0} /s | {beyond} |\n", ledger.order, ledger.form);
        if ledger.form == SpaceForm::Plain {
            let namespace = "bench_import";
            let (idle, bare) = self.runtime.block_on(self.engine.open(namespace, HistorySettings::default()));
            let start = Instant::now();
            self.runtime.block_on(bare.import(ledger));
            let (name, rows) = (format!("import in batches of 1,000; {:?}", ledger.order), ledger.rows as u32);
            self.ratios.add(&name, Some(start.elapsed() / rows), taken / rows);
            self.close(idle, namespace);
        }
    }

    fn close(&self, ours: Arc<dyn MemoryProvider>, namespace: &str) {
        self.runtime.block_on(async {
            ours.shutdown().await.expect("shuts down");
            self.engine.remove(namespace).await;
        });
    }

    /// Runs both ways in turn on input of the same kind, and records the time of each per item.
    fn compare<I>(
        &mut self,
        name: &str,
        mut input: impl FnMut() -> Vec<I>,
        bare: Option<impl AsyncFn(Vec<I>)>,
        ours: impl AsyncFn(Vec<I>),
    ) {
        let Self { criterion, runtime, ratios, .. } = self;
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function("ours", |bencher| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let alone = bare.as_ref().map(|bare| {
                        let items = input();
                        let (count, start) = (items.len() as u32, Instant::now());
                        runtime.block_on(bare(items));
                        start.elapsed() / count
                    });
                    let items = input();
                    let (count, start) = (items.len() as u32, Instant::now());
                    runtime.block_on(ours(items));
                    let taken = start.elapsed() / count;
                    ratios.add(name, alone, taken);
                    total += taken;
                }
                total
            });
        });
        group.finish();
    }
}

/// A document below a path, with the createdAt of an index in time.
fn document(collection: &str, path: &str, number: usize, place: usize) -> Document {
    let metadata = format!(r#"{{"n":{}}}"#, number % 100);
    Document {
        id: DocumentId::parse(format!("{number:07}")).expect("an id"),
        collection: Collection::parse(collection).expect("a name"),
        space_id: space(path, number),
        content: Content::parse(format!("topic{} {}", number % 100, "words ".repeat(PAYLOAD / 6))).expect("a content"),
        metadata: Metadata::parse(&metadata).expect("metadata"),
        created_at: Timestamp::from_millis(place as i64).expect("a time"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

/// One of many spaces below a path.
fn space(path: &str, number: usize) -> SpaceId {
    SpaceId::parse(format!("{path}-{}-{number}", number % 10)).expect("a space")
}

/// Stores a row, callable from many tasks.
type Store = Arc<dyn Fn(NewMemory) -> BoxFuture<'static, ()> + Send + Sync>;

fn bare_store(bare: &Arc<dyn Bare>) -> Store {
    let bare = Arc::clone(bare);
    Arc::new(move |row| {
        let bare = Arc::clone(&bare);
        Box::pin(async move { bare.store(row).await })
    })
}

fn store(ours: &Arc<dyn MemoryProvider>) -> Store {
    let ours = Arc::clone(ours);
    Arc::new(move |row| {
        let ours = Arc::clone(&ours);
        Box::pin(async move {
            ours.store(row).await.expect("stores");
        })
    })
}

async fn at_the_same_time(rows: Vec<NewMemory>, store: &Store) {
    let shares = rows.chunks(rows.len() / TASKS).map(<[_]>::to_vec);
    let share = |share: Vec<NewMemory>| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for row in share {
                store(row).await;
            }
        })
    };
    for task in shares.map(share).collect::<Vec<_>>() {
        task.await.expect("a task that stores");
    }
}
