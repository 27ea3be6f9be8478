//! The shared workloads on SQLite, beside rusqlite doing the same work on the same tables.
//!
//! `cargo bench -p memory-sqlite` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million. At the end comes a
//! table of medians and their ratios, which are what counts: figures of one machine in one run.

mod bare;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::workload::{Ledger, Ratios, RowOrder, SpaceForm};
use criterion::Criterion;
use memory_core::{Context, MemoryId, MemoryPatch, MemoryProvider, NewMemory};
use memory_sqlite::SqliteMemory;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bare::Bare;

fn main() {
    let criterion = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(300));
    let mut bench = Bench {
        criterion: criterion.measurement_time(Duration::from_secs(1)).configure_from_args(),
        runtime: Runtime::new().expect("a runtime"),
        folder: TempDir::new().expect("a folder"),
        ratios: Ratios::default(),
    };
    let rows = std::env::var("MEMORY_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(10_000);
    bench.store();
    bench.import(rows);
    bench.update_and_get();
    for form in [SpaceForm::Plain, SpaceForm::WithUuid] {
        for order in RowOrder::ALL {
            bench.recall(Ledger { rows, order, form });
        }
    }
    bench.criterion.final_summary();
    println!("\nRecall from {rows} rows.\n\n{}", bench.ratios.table());
}

struct Bench {
    criterion: Criterion,
    runtime: Runtime,
    folder: TempDir,
    ratios: Ratios,
}

impl Bench {
    fn store(&mut self) {
        let (ours, bare) = self.pair("store");
        let mut next = fresh_rows();
        let one_by_one = |rows: &[NewMemory]| rows.iter().for_each(|row| bare.store_all(std::slice::from_ref(row)));
        let sequential = async |rows: Vec<NewMemory>| {
            for row in rows {
                ours.store(row).await.expect("stores");
            }
        };
        self.compare("store, one after the other", || next(200), one_by_one, sequential);
        let concurrent = async |rows: Vec<NewMemory>| {
            let mut rows = rows.into_iter().peekable();
            let mut tasks = Vec::new();
            while rows.peek().is_some() {
                let (ours, share) = (Arc::clone(&ours), rows.by_ref().take(100).collect::<Vec<_>>());
                tasks.push(tokio::spawn(async move {
                    for row in share {
                        ours.store(row).await.expect("stores");
                    }
                }));
            }
            for task in tasks {
                task.await.expect("a task that stores");
            }
        };
        self.compare("64 concurrent stores; bare one after the other", || next(6_400), one_by_one, concurrent);
        let batch = async |rows: Vec<NewMemory>| drop(ours.store_many(rows).await.expect("stores"));
        self.compare("store_many of 1,000; bare one transaction", || next(1_000), |rows| bare.store_all(rows), batch);
    }

    fn import(&mut self, rows: usize) {
        for order in RowOrder::ALL {
            let ledger = Ledger { order, ..Ledger::new(rows) };
            let (ours, bare) = self.pair(&format!("import-{order:?}"));
            let start = Instant::now();
            bare.begin();
            ledger.rows().for_each(|row| bare.insert(&row));
            bare.commit();
            let alone = start.elapsed();
            let start = Instant::now();
            self.runtime.block_on(async {
                for batch in ledger.batches() {
                    ours.store_many(batch).await.expect("stores");
                }
            });
            let name = format!("import, {order:?} in batches of 1,000; bare one transaction");
            self.ratios.add(&name, alone / rows as u32, start.elapsed() / rows as u32);
        }
    }

    fn update_and_get(&mut self) {
        let (ours, bare) = self.pair("update");
        let (ids, bare_ids) = {
            let mut next = fresh_rows();
            let rows = next(10_000);
            bare.store_all(&rows);
            (self.runtime.block_on(ours.store_many(rows)).expect("stores"), bare.ids())
        };
        let context = Context::parse(r#"{"answer":"forty-two"}"#).expect("valid");
        let mut turn = ids.into_iter().zip(bare_ids).cycle();
        let mut some = |count: usize| turn.by_ref().take(count).collect::<Vec<(MemoryId, MemoryId)>>();
        let update = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (id, _) in ids {
                ours.update(id, MemoryPatch::new().set_context(context.clone())).await.expect("updates");
            }
        };
        let bare_update = |ids: &[(MemoryId, MemoryId)]| ids.iter().for_each(|(_, id)| bare.update(*id, &context));
        self.compare("update", || some(200), bare_update, update);
        let get = async |ids: Vec<(MemoryId, MemoryId)>| {
            for (id, _) in ids {
                ours.get(id).await.expect("answers").expect("is there");
            }
        };
        let bare_get = |ids: &[(MemoryId, MemoryId)]| ids.iter().for_each(|(_, id)| drop(bare.get(*id)));
        self.compare("get", || some(1_000), bare_get, get);
    }

    /// The newest 50 of each shape; the bare driver reads the same file.
    fn recall(&mut self, ledger: Ledger) {
        let name = format!("recall-{:?}-{:?}", ledger.order, ledger.form);
        let file = self.file(&name);
        let ours = self.runtime.block_on(async {
            let ours = open(file.clone()).await;
            for batch in ledger.batches() {
                ours.store_many(batch).await.expect("stores");
            }
            ours
        });
        let bare = Bare::open(&file);
        bare.settle();
        for question in ledger.questions() {
            let name = format!("{}; {:?}, {:?}", question.name, ledger.order, ledger.form);
            let found = self.runtime.block_on(ours.query(&question.query)).expect("answers").memories;
            assert_eq!(found, bare.answer(question.name), "the bare driver answers {name} differently");
            let ask = |times: &[()]| times.iter().for_each(|()| drop(bare.answer(question.name)));
            let query = async |times: Vec<()>| {
                for () in times {
                    ours.query(&question.query).await.expect("answers");
                }
            };
            // Once is enough for what takes a second.
            let times = if question.name.starts_with("prefix") { 1 } else { 20 };
            self.compare(&name, || vec![(); times], ask, query);
        }
        self.runtime.block_on(ours.shutdown()).expect("shuts down");
        std::fs::remove_file(file).expect("a file");
    }

    /// Runs both in turns, on input of the same kind, and keeps what each takes for one item.
    fn compare<I>(
        &mut self,
        name: &str,
        mut input: impl FnMut() -> Vec<I>,
        mut bare: impl FnMut(&[I]),
        ours: impl AsyncFn(Vec<I>),
    ) {
        let Self { criterion, runtime, ratios, .. } = self;
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let items = input();
                    let count = items.len() as u32;
                    let start = Instant::now();
                    bare(&items);
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

    /// A provider, and the bare driver on a file of the same kind.
    fn pair(&self, name: &str) -> (Arc<SqliteMemory>, Bare) {
        let file = self.file(&format!("{name}-bare"));
        self.runtime.block_on(async { open(file.clone()).await.shutdown().await }).expect("shuts down");
        (self.runtime.block_on(open(self.file(name))), Bare::open(&file))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.db"))
    }
}

async fn open(file: PathBuf) -> Arc<SqliteMemory> {
    let provider = SqliteMemory::open(file).expect("a configuration");
    provider.init().await.expect("opens");
    Arc::new(provider)
}

/// Rows that no earlier call gave.
fn fresh_rows() -> impl FnMut(usize) -> Vec<NewMemory> {
    let (ledger, mut places) = (Ledger::new(1_000_000), 0..);
    move |count| places.by_ref().take(count).map(|place| ledger.row(place)).collect()
}
