//! The shared workloads on MongoDB, beside the driver doing the same work on the same collections.
//!
//! `cargo bench -p memory-mongo` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million, and with
//! `MEMORY_BENCH_PARTS=recall` (or `store`, `import`, `update`; several with commas) only that. At the end comes a table of medians and
//! their ratios, which are what counts: figures of one machine in one run.

mod bare;

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::server::TestServer;
use conformance::workload::{Ledger, Ratios, RowOrder, SpaceForm};
use criterion::Criterion;
use futures::future::join_all;
use memory_core::{Context, MemoryId, MemoryPatch, MemoryProvider, NewMemory};
use memory_mongo::{MongoConfig, MongoMemory};
use tokio::runtime::Runtime;

use crate::bare::Bare;

fn main() {
    let server = match TestServer::mongo() {
        Ok(server) => server,
        Err(missing) => return eprintln!("{missing}"),
    };
    let criterion = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(300));
    let mut bench = Bench {
        criterion: criterion.measurement_time(Duration::from_secs(1)).configure_from_args(),
        runtime: Runtime::new().expect("a runtime"),
        server,
        ratios: Ratios::default(),
    };
    let variable = |name| std::env::var(name).ok();
    let rows = variable("MEMORY_BENCH_ROWS").and_then(|rows| rows.parse().ok()).unwrap_or(10_000);
    let parts = variable("MEMORY_BENCH_PARTS").unwrap_or_else(|| "store,import,update,recall".to_owned());
    let wants = |part| parts.split(',').any(|wanted| wanted == part);
    if wants("store") {
        bench.store();
    }
    if wants("import") {
        bench.import(rows);
    }
    if wants("update") {
        bench.update_and_get();
    }
    if wants("recall") {
        for form in [SpaceForm::Plain, SpaceForm::WithUuid] {
            for order in RowOrder::ALL {
                bench.recall(Ledger { rows, order, form });
            }
        }
    }
    bench.criterion.final_summary();
    println!("\nRecall from {rows} rows.\n\n{}", bench.ratios.table());
}

struct Bench {
    criterion: Criterion,
    runtime: Runtime,
    server: TestServer,
    ratios: Ratios,
}

impl Bench {
    fn store(&mut self) {
        let (ours, bare) = self.pair("store");
        let mut next = fresh_rows();
        let bare_one_by_one = async |rows: Vec<NewMemory>| {
            for row in &rows {
                bare.store(row).await;
            }
        };
        let one_by_one = async |rows: Vec<NewMemory>| {
            for row in rows {
                ours.store(row).await.expect("stores");
            }
        };
        self.compare("store, one after the other", || next(100), bare_one_by_one, one_by_one);
        let bare_tasks = async |rows: Vec<NewMemory>| {
            let share = |rows: Vec<NewMemory>| {
                let bare = Arc::clone(&bare);
                tokio::spawn(async move {
                    for row in &rows {
                        bare.store(row).await;
                    }
                })
            };
            join_all(shares(rows).into_iter().map(share)).await.into_iter().for_each(|task| task.expect("a task"));
        };
        let tasks = async |rows: Vec<NewMemory>| {
            let share = |rows: Vec<NewMemory>| {
                let ours = Arc::clone(&ours);
                tokio::spawn(async move {
                    for row in rows {
                        ours.store(row).await.expect("stores");
                    }
                })
            };
            join_all(shares(rows).into_iter().map(share)).await.into_iter().for_each(|task| task.expect("a task"));
        };
        self.compare("64 concurrent stores", || next(3_200), bare_tasks, tasks);
        let bare_batch = async |rows: Vec<NewMemory>| bare.store_all(&rows).await;
        let batch = async |rows: Vec<NewMemory>| drop(ours.store_many(rows).await.expect("stores"));
        self.compare("store_many of 1,000", || next(1_000), bare_batch, batch);
        self.remove("store");
    }

    fn import(&mut self, rows: usize) {
        for order in RowOrder::ALL {
            let ledger = Ledger { order, ..Ledger::new(rows) };
            let (ours, bare) = self.pair("import");
            for batch in ledger.batches() {
                let count = batch.len() as u32;
                let start = Instant::now();
                self.runtime.block_on(bare.store_all(&batch));
                let alone = start.elapsed() / count;
                let start = Instant::now();
                self.runtime.block_on(ours.store_many(batch)).expect("stores");
                let name = format!("import, {order:?} in batches of 1,000");
                self.ratios.add(&name, alone, start.elapsed() / count);
            }
            self.remove("import");
        }
    }

    fn update_and_get(&mut self) {
        let (ours, bare) = self.pair("update");
        let (ids, bare_ids) = self.runtime.block_on(async {
            let rows = fresh_rows()(10_000);
            for rows in rows.chunks(1_000) {
                bare.store_all(rows).await;
            }
            (ours.store_many(rows).await.expect("stores"), bare.ids().await)
        });
        let context = Context::parse(r#"{"answer":"forty-two"}"#).expect("valid");
        let mut turn = ids.into_iter().zip(bare_ids).cycle();
        let mut some = |count: usize| turn.by_ref().take(count).collect::<Vec<(MemoryId, MemoryId)>>();
        let bare_update = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (_, id) in ids {
                bare.update(id, &context).await;
            }
        };
        let update = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (id, _) in ids {
                ours.update(id, MemoryPatch::new().set_context(context.clone())).await.expect("updates");
            }
        };
        self.compare("update", || some(100), bare_update, update);
        let bare_get = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (_, id) in ids {
                bare.get(id).await;
            }
        };
        let get = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (id, _) in ids {
                ours.get(id).await.expect("answers").expect("is there");
            }
        };
        self.compare("get", || some(500), bare_get, get);
        self.remove("update");
    }

    /// The newest 50 of each shape; the driver reads the same collection.
    fn recall(&mut self, ledger: Ledger) {
        const NAMESPACE: &str = "bench_recall";
        let (ours, bare) = self.runtime.block_on(async {
            let ours = open(self.server.url(), NAMESPACE).await;
            for batch in ledger.batches() {
                ours.store_many(batch).await.expect("stores");
            }
            (ours, Bare::open(self.server.url(), NAMESPACE).await)
        });
        for question in ledger.questions() {
            let name = format!("{}; {:?}, {:?}", question.name, ledger.order, ledger.form);
            let found = self.runtime.block_on(ours.query(&question.query)).expect("answers").memories;
            let expected = self.runtime.block_on(bare.answer(question.name));
            assert_eq!(found, expected, "the driver answers {name} differently");
            let ask = async |times: Vec<()>| {
                for () in times {
                    bare.answer(question.name).await;
                }
            };
            let query = async |times: Vec<()>| {
                for () in times {
                    ours.query(&question.query).await.expect("answers");
                }
            };
            // Once is enough for what takes a second.
            let times = if question.name.starts_with("prefix") { 1 } else { 10 };
            self.compare(&name, || vec![(); times], ask, query);
        }
        self.runtime.block_on(ours.shutdown()).expect("shuts down");
        self.runtime.block_on(bare.remove());
    }

    /// Runs both in turns, on input of the same kind, and keeps what each takes for one item.
    fn compare<I: Clone>(
        &mut self,
        name: &str,
        mut input: impl FnMut() -> Vec<I>,
        bare: impl AsyncFn(Vec<I>),
        ours: impl AsyncFn(Vec<I>),
    ) {
        let Self { criterion, runtime, ratios, .. } = self;
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let items = input();
                    let count = items.len() as u32;
                    let again = items.clone();
                    let start = Instant::now();
                    runtime.block_on(bare(again));
                    let alone = start.elapsed() / count;
                    let start = Instant::now();
                    runtime.block_on(ours(items));
                    let taken = start.elapsed() / count;
                    ratios.add(name, alone, taken);
                    total += taken;
                }
                total
            });
        });
    }

    /// A provider, and the driver on a database of the same kind.
    fn pair(&self, name: &str) -> (Arc<MongoMemory>, Arc<Bare>) {
        self.runtime.block_on(async {
            let bare = format!("bench_{name}_bare");
            open(self.server.url(), &bare).await.shutdown().await.expect("shuts down");
            let bare = Bare::open(self.server.url(), &bare).await;
            (open(self.server.url(), &format!("bench_{name}")).await, Arc::new(bare))
        })
    }

    fn remove(&self, name: &str) {
        self.runtime.block_on(async {
            for name in [format!("bench_{name}"), format!("bench_{name}_bare")] {
                Bare::open(self.server.url(), &name).await.remove().await;
            }
        });
    }
}

async fn open(url: &str, namespace: &str) -> Arc<MongoMemory> {
    let mut config = MongoConfig::from_url(url).expect("a configuration");
    config.namespace = namespace.to_owned();
    let provider = MongoMemory::open(config).expect("a provider");
    provider.init().await.expect("opens");
    Arc::new(provider)
}

/// Rows for 64 tasks.
fn shares(rows: Vec<NewMemory>) -> Vec<Vec<NewMemory>> {
    rows.chunks(rows.len().div_ceil(64)).map(<[NewMemory]>::to_vec).collect()
}

/// Rows that no earlier call gave.
fn fresh_rows() -> impl FnMut(usize) -> Vec<NewMemory> {
    let (ledger, mut places) = (Ledger::new(1_000_000), 0..);
    move |count| places.by_ref().take(count).map(|place| ledger.row(place)).collect()
}
