//! How long another client waits at most while a large batch is stored.

use std::time::{Duration, Instant};

use conformance::bench::Engine;
use conformance::workload::Ledger;
use memory_core::{HistorySettings, MAX_BATCH, MAX_BATCH_BYTES, NewMemory, Timestamp, Trigger};
use tokio::runtime::Runtime;

use crate::Redis;

/// Prints a line for each of the heaviest batches.
pub(crate) fn run(redis: &Redis) {
    Runtime::new().expect("a runtime").block_on(async {
        let namespace = "bench_stall";
        let (ours, bare) = redis.open(namespace, HistorySettings::default()).await;
        for (name, batch) in [
            ("10,000 memories of a conversation", Ledger::new(MAX_BATCH).rows().collect()),
            ("10,000 memories with 32 boundaries each", (0..MAX_BATCH).map(deep).collect()),
            ("64 MiB in 16 memories", (0..16).map(|_| heavy()).collect::<Vec<_>>()),
        ] {
            let (mut worst, begun) = (Duration::ZERO, Instant::now());
            let store = ours.store_many(batch);
            let look = async {
                loop {
                    let start = Instant::now();
                    bare.answer("pending rows").await;
                    worst = worst.max(start.elapsed());
                }
            };
            tokio::select! {
                stored = store => drop(stored.expect("stores")),
                () = look => {}
            }
            let (taken, worst) = (begun.elapsed().as_millis(), worst.as_millis());
            println!("{name} in one call of {taken} ms: another client waits {worst} ms at most");
        }
        redis.remove(namespace).await;
    });
}

fn deep(place: usize) -> NewMemory {
    let path: Vec<_> = (0..31).map(|part| format!("{}", (place * 31 + part) % 1_000)).collect();
    event(&format!("a-{}", path.join("-")), r#""x""#)
}

fn heavy() -> NewMemory {
    event("a-b", &format!("\"{}\"", "x".repeat(MAX_BATCH_BYTES / 16 - 100)))
}

fn event(space: &str, trigger: &str) -> NewMemory {
    NewMemory::new(space.parse().expect("a space"), Trigger::parse(trigger).expect("valid"), Timestamp::MIN)
}
