//! The workloads on an engine, beside its bare driver doing the same work on the same data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use criterion::{Criterion, SamplingMode};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use memory_core::{Context, Memory, MemoryId, MemoryPatch, MemoryProvider, NewMemory};
use tokio::runtime::Runtime;

use crate::workload::{Ledger, Ratios, RowOrder, SpaceForm};

/// How many tasks store at the same time.
const TASKS: usize = 64;
/// How many batches are under way while a ledger is loaded.
const LOADING: usize = 4;

/// An engine to measure.
#[async_trait]
pub trait Engine {
    /// A provider over an empty namespace, with `init` called, and the bare driver on the same data.
    async fn open(&self, namespace: &str) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>);
    /// Removes what the namespace holds.
    async fn remove(&self, namespace: &str);
}

/// The driver of an engine, without the provider: the best that the same work can cost. What it writes, the provider finds.
#[async_trait]
pub trait Bare: Send + Sync {
    /// Stores one memory.
    async fn store(&self, row: NewMemory);
    /// Stores a batch.
    async fn store_many(&self, rows: Vec<NewMemory>);
    /// Sets the context of a memory.
    async fn update(&self, id: MemoryId, context: &Context);
    /// Reads one memory.
    async fn get(&self, id: MemoryId) -> Memory;
    /// The answer to a question of the workload, by the best statement that one would write for it by hand.
    async fn answer(&self, question: &str) -> Vec<Memory>;
    /// How many bytes the ledger takes, with its indexes.
    async fn size(&self) -> u64;
}

/// Measures an engine, and prints a table of the medians and their ratios, which are what counts: figures of one machine in
/// one run. Recalls from 10,000 rows, or from as many as `MEMORY_BENCH_ROWS` says; from none with 0.
pub fn run(engine: &dyn Engine) {
    let rows = std::env::var("MEMORY_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(10_000);
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
    if rows > 0 {
        for form in [SpaceForm::Plain, SpaceForm::WithUuid] {
            for order in RowOrder::ALL {
                bench.recall(Ledger { rows, order, form });
            }
        }
    }
    bench.criterion.final_summary();
    println!("\nRecall from {rows} rows.\n\n{}\n{}", bench.ratios.table(), bench.loads);
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
        let (ours, bare) = self.runtime.block_on(self.engine.open(namespace));
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
        self.compare("store, one after the other", || next(200), alone, one_by_one);

        let (bare_store, store) = (bare_store(&bare), store(&ours));
        let name = "store, 64 tasks at the same time";
        let alone = async |rows| at_the_same_time(rows, &bare_store).await;
        self.compare(name, || next(100 * TASKS), alone, async |rows| at_the_same_time(rows, &store).await);

        let batch = async |rows| drop(ours.store_many(rows).await.expect("stores"));
        self.compare("store_many of 1,000", || next(1_000), async |rows| bare.store_many(rows).await, batch);

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
        self.compare("update", &mut some, alone, update);
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
        self.compare("get", &mut some, alone, get);
        self.close(ours, namespace);
    }

    /// The newest 50 of each shape.
    fn recall(&mut self, ledger: Ledger) {
        let namespace = format!("bench_{:?}_{:?}", ledger.order, ledger.form).to_lowercase();
        let (ours, bare) = self.runtime.block_on(self.engine.open(&namespace));
        self.load(ledger, &*ours, &*bare);
        for question in ledger.questions() {
            let name = format!("{}; {:?}, {:?}", question.name, ledger.order, ledger.form);
            let found = self.runtime.block_on(ours.query(&question.query)).expect("answers").memories;
            let expected = self.runtime.block_on(bare.answer(question.name));
            assert!(found == expected, "the bare driver answers {name} differently");
            let alone = async |times| {
                for () in times {
                    bare.answer(question.name).await;
                }
            };
            let query = async |times| {
                for () in times {
                    ours.query(&question.query).await.expect("answers");
                }
            };
            // Once is enough for what takes long.
            let times = if question.name.starts_with("prefix") { 1 } else { 20 };
            self.compare(&name, || vec![(); times], alone, query);
        }
        self.close(ours, &namespace);
    }

    fn load(&mut self, ledger: Ledger, ours: &dyn MemoryProvider, bare: &dyn Bare) {
        let start = Instant::now();
        let texts: usize = self.runtime.block_on(async {
            let batches = stream::iter(ledger.batches()).map(async |batch| {
                let size = |row: &NewMemory| row.clone().into_memory(MemoryId::generate()).size();
                let texts: usize = batch.iter().map(size).sum();
                ours.store_many(batch).await.expect("stores");
                texts
            });
            batches.buffer_unordered(LOADING).fold(0, async |sum, texts| sum + texts).await
        });
        let rate = ledger.rows as f64 / start.elapsed().as_secs_f64();
        let size = self.runtime.block_on(bare.size()) as usize;
        let beyond = size.saturating_sub(texts) / ledger.rows;
        self.loads += &format!("| {:?}, {:?} | {rate:.0} /s | {beyond} |\n", ledger.order, ledger.form);
    }

    fn close(&self, ours: Arc<dyn MemoryProvider>, namespace: &str) {
        self.runtime.block_on(async {
            ours.shutdown().await.expect("shuts down");
            self.engine.remove(namespace).await;
        });
    }

    /// Runs both in turns, on input of the same kind, and keeps what each takes for one item.
    fn compare<I>(
        &mut self,
        name: &str,
        mut input: impl FnMut() -> Vec<I>,
        bare: impl AsyncFn(Vec<I>),
        ours: impl AsyncFn(Vec<I>),
    ) {
        let Self { criterion, runtime, ratios, .. } = self;
        let mut group = criterion.benchmark_group(name);
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function("ours", |bencher| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let items = input();
                    let count = items.len() as u32;
                    let start = Instant::now();
                    runtime.block_on(bare(items));
                    let alone = start.elapsed() / count;
                    let items = input();
                    let start = Instant::now();
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

/// How a row is stored, for many tasks.
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
