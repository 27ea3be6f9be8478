//! The shared workloads on Redis, beside bare commands that do the same reads and writes.
//!
//! `cargo bench -p memory-redis` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million. An argument picks
//! the parts whose name has it: `store`, `import`, `update`, `recall`, `stall`. At the end comes a table of medians and their
//! ratios, which are what counts: figures of one machine in one run. The server is that of this machine and keeps nothing on
//! disk, so that no flush hides what the commands cost.

mod bare;

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::server::redis::LocalRedis;
use conformance::workload::{Ledger, Ratios, RowOrder, SpaceForm};
use memory_core::{
    Context, MAX_BATCH, MAX_BATCH_BYTES, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Trigger,
};
use memory_redis::{RedisConfig, RedisMemory};
use tokio::runtime::Runtime;

use crate::bare::Bare;

/// How often each of the two ways is measured, in turns.
const SAMPLES: usize = 15;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let rows = std::env::var("MEMORY_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(10_000);
    let server = LocalRedis::start().expect("a server");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut bench = Bench { url: server.url(), filter, ratios: Ratios::default(), remarks: Vec::new() };
        bench.store().await;
        bench.import(rows).await;
        bench.update_and_get().await;
        for form in [SpaceForm::Plain, SpaceForm::WithUuid] {
            for order in RowOrder::ALL {
                bench.recall(Ledger { rows, order, form }).await;
            }
        }
        bench.stall().await;
        println!("\nRecall from {rows} rows.\n\n{}", bench.ratios.table());
        bench.remarks.iter().for_each(|remark| println!("{remark}"));
    });
}

struct Bench {
    url: String,
    filter: String,
    ratios: Ratios,
    remarks: Vec<String>,
}

impl Bench {
    async fn store(&mut self) {
        if !self.wants("store") {
            return;
        }
        let (ours, bare) = self.pair().await;
        let mut next = fresh_rows();
        self.compare(
            "store, one after the other",
            || next(500),
            async |rows| {
                for row in rows {
                    bare.store(row).await;
                }
            },
            async |rows| {
                for row in rows {
                    ours.store(row.clone()).await.expect("stores");
                }
            },
        )
        .await;
        self.compare(
            "64 concurrent stores",
            || next(6_400),
            async |rows| concurrently(rows, &bare, async |bare, row| bare.store(&row).await).await,
            async |rows| {
                let store = async |ours: &Arc<RedisMemory>, row| {
                    ours.store(row).await.expect("stores");
                };
                concurrently(rows, &ours, store).await;
            },
        )
        .await;
        self.compare(
            "store_many of 1,000",
            || next(1_000),
            async |rows| bare.store_all(rows).await,
            async |rows| {
                ours.store_many(rows.to_vec()).await.expect("stores");
            },
        )
        .await;
    }

    async fn import(&mut self, rows: usize) {
        for order in RowOrder::ALL {
            let name = format!("import, {order:?} in batches of 1,000");
            if !self.wants(&name) {
                continue;
            }
            let ledger = Ledger { order, ..Ledger::new(rows) };
            let (ours, bare) = self.pair().await;
            let (mut alone, mut taken) = (Duration::ZERO, Duration::ZERO);
            for batch in ledger.batches() {
                let start = Instant::now();
                bare.store_all(&batch).await;
                alone += start.elapsed();
                let start = Instant::now();
                ours.store_many(batch).await.expect("stores");
                taken += start.elapsed();
            }
            self.ratios.add(&name, alone / rows as u32, taken / rows as u32);
        }
    }

    async fn update_and_get(&mut self) {
        if !self.wants("update and get") {
            return;
        }
        let (ours, bare) = self.pair().await;
        let ids = ours.store_many(fresh_rows()(MAX_BATCH)).await.expect("stores");
        let context = Context::parse(r#"{"answer":"forty-two"}"#).expect("valid");
        let mut turn = ids.into_iter().cycle();
        let mut some = |count: usize| turn.by_ref().take(count).collect::<Vec<MemoryId>>();
        self.compare(
            "update",
            || some(500),
            async |ids| {
                for id in ids {
                    bare.update(*id).await;
                }
            },
            async |ids| {
                for id in ids {
                    ours.update(*id, MemoryPatch::new().set_context(context.clone())).await.expect("updates");
                }
            },
        )
        .await;
        self.compare(
            "get",
            || some(500),
            async |ids| {
                for id in ids {
                    bare.get(*id).await;
                }
            },
            async |ids| {
                for id in ids {
                    ours.get(*id).await.expect("answers").expect("is there");
                }
            },
        )
        .await;
    }

    /// The newest 50 of each shape, and how much memory the rows take.
    async fn recall(&mut self, ledger: Ledger) {
        let part = format!("recall {:?} {:?}", ledger.order, ledger.form);
        if !self.wants(&part) {
            return;
        }
        let (ours, bare) = self.pair().await;
        bare.flush().await;
        let ours = {
            drop(ours);
            open(&self.url, "bench").await
        };
        let before = bare.used_memory().await;
        let mut payload = 0;
        for batch in ledger.batches() {
            payload += batch.iter().map(|row| row.clone().into_memory(MemoryId::generate()).size()).sum::<usize>();
            ours.store_many(batch).await.expect("stores");
        }
        let beyond = (bare.used_memory().await - before).saturating_sub(payload) / ledger.rows;
        self.remarks.push(format!("{part}: {beyond} bytes per memory beyond its payload"));
        let bare = Bare::open(&self.url, "bench").await;
        for question in ledger.questions() {
            let name = format!("{}; {:?}, {:?}", question.name, ledger.order, ledger.form);
            let found = ours.query(&question.query).await.expect("answers").memories;
            let query: &MemoryQuery = &question.query;
            let ask = async |times: &[()]| {
                for () in times {
                    ours.query(query).await.expect("answers");
                }
            };
            match bare.answer(question.name).await {
                Some(ids) => {
                    let found: Vec<_> = found.iter().map(|memory| memory.id).collect();
                    assert_eq!(found, ids, "bare commands answer {name} differently");
                    let bare = async |times: &[()]| {
                        for () in times {
                            bare.answer(question.name).await.expect("an answer");
                        }
                    };
                    self.compare(&name, || vec![(); 50], bare, ask).await;
                }
                None => {
                    let start = Instant::now();
                    ask(&[(); 50]).await;
                    self.remarks.push(format!("{name}: {:.1} µs", start.elapsed().as_secs_f64() * 1e6 / 50.0));
                }
            }
        }
    }

    /// How long another client waits at most while a large batch is stored.
    async fn stall(&mut self) {
        if !self.wants("stall") {
            return;
        }
        let (ours, bare) = self.pair().await;
        let deep = |place: i64| {
            let path: Vec<_> = (0..31).map(|part| format!("{}", (place * 31 + part) % 1_000)).collect();
            event(&format!("a-{}", path.join("-")), r#""x""#.to_owned())
        };
        let heavy = |_| event("a-b", format!("\"{}\"", "x".repeat(MAX_BATCH_BYTES / 16 - 100)));
        for (name, batch) in [
            ("10,000 memories of a conversation", fresh_rows()(MAX_BATCH)),
            ("10,000 memories with 32 boundaries each", (0..MAX_BATCH as i64).map(deep).collect()),
            ("64 MiB in 16 memories", (0..16).map(heavy).collect()),
        ] {
            let start = Instant::now();
            let store = ours.store_many(batch);
            let mut worst = Duration::ZERO;
            let look = async {
                loop {
                    let start = Instant::now();
                    bare.used_memory().await;
                    worst = worst.max(start.elapsed());
                }
            };
            tokio::select! {
                stored = store => drop(stored.expect("stores")),
                () = look => {}
            }
            let millis = |time: Duration| time.as_secs_f64() * 1e3;
            let (worst, taken) = (millis(worst), millis(start.elapsed()));
            self.remarks
                .push(format!("{name} in one call of {taken:.0} ms: another client waits {worst:.0} ms at most"));
        }
    }

    /// Runs both in turns, on input of the same kind, and keeps what each takes for one item.
    async fn compare<I>(
        &mut self,
        name: &str,
        mut input: impl FnMut() -> Vec<I>,
        bare: impl AsyncFn(&[I]),
        ours: impl AsyncFn(&[I]),
    ) {
        for sample in 0..=SAMPLES {
            let items = input();
            let start = Instant::now();
            bare(&items).await;
            let alone = start.elapsed() / items.len() as u32;
            let items = input();
            let start = Instant::now();
            ours(&items).await;
            // The first turn warms up.
            if sample > 0 {
                self.ratios.add(name, alone, start.elapsed() / items.len() as u32);
            }
        }
    }

    fn wants(&self, part: &str) -> bool {
        part.contains(&self.filter)
    }

    /// A provider and bare commands, each in a namespace of its own.
    async fn pair(&self) -> (Arc<RedisMemory>, Bare) {
        let bare = Bare::open(&self.url, "bare").await;
        bare.flush().await;
        (open(&self.url, "ours").await, bare)
    }
}

async fn open(url: &str, namespace: &str) -> Arc<RedisMemory> {
    let mut config = RedisConfig::from_url(url).expect("the URL of a test server");
    config.namespace = namespace.to_owned();
    let provider = RedisMemory::open(config).expect("a configuration");
    provider.init().await.expect("opens");
    Arc::new(provider)
}

/// In 64 tasks.
async fn concurrently<S, F>(rows: &[NewMemory], store: &S, one: F)
where
    S: Clone + Send + 'static,
    F: AsyncFn(&S, NewMemory),
{
    let local = |share: &[NewMemory]| {
        let (store, share) = (store.clone(), share.to_vec());
        let one = &one;
        async move {
            for row in share {
                one(&store, row).await;
            }
        }
    };
    futures::future::join_all(rows.chunks(rows.len().div_ceil(64)).map(local)).await;
}

fn event(space: &str, trigger: String) -> NewMemory {
    let (space, trigger) = (space.parse().expect("a space"), Trigger::parse(&trigger).expect("valid"));
    NewMemory::new(space, trigger, memory_core::Timestamp::MIN)
}

/// Rows that no earlier call gave.
fn fresh_rows() -> impl FnMut(usize) -> Vec<NewMemory> {
    let (ledger, mut places) = (Ledger::new(1_000_000), 0..);
    move |count| places.by_ref().take(count).map(|place| ledger.row(place)).collect()
}
