//! A question in one large scope, compared with SQLite's own ranking: `bm25()` of FTS5 over the same texts, the best
//! 50, in turns.
//!
//! `cargo bench -p agent-memory-sqlite --bench recall` asks 10,000 memories, with `MEMORY_BENCH_ROWS=1000000` a
//! million.

use std::time::{Duration, Instant};

use memory_core::{MemoryProvider, MemoryQuery, NewMemory, Recall, SpaceId, Timestamp, Trigger};
use memory_sqlite::SqliteMemory;
use rusqlite::Connection;
use tempfile::TempDir;

/// The number of memories that are stored at once.
const BATCH: usize = 1_000;
/// The number of different words in the texts; the first ones are the most frequent.
const WORDS: f64 = 30_000.0;
/// How many words a text has, and a question.
const LENGTHS: (usize, usize) = (22, 9);
/// How many questions are asked.
const QUESTIONS: u64 = 40;
/// How many answers each gives.
const BEST: usize = 50;

#[tokio::main]
async fn main() {
    let rows = std::env::var("MEMORY_BENCH_ROWS").map_or(10_000, |rows| rows.parse().expect("a number of rows"));
    let folder = TempDir::new().expect("a folder");
    let provider = SqliteMemory::open(folder.path().join("memory.db")).expect("a configuration");
    provider.init().await.expect("opens");
    let ranked = Connection::open(folder.path().join("ranked.db")).expect("opens");
    ranked.execute_batch("CREATE VIRTUAL TABLE texts USING fts5 (text)").expect("a table");
    let mut random = Random(1);
    for batch in 0..rows / BATCH {
        let texts: Vec<_> = (0..BATCH).map(|_| random.text(LENGTHS.0)).collect();
        let memory = |(place, text): (usize, &String)| {
            let number = batch * BATCH + place;
            let space = SpaceId::parse(format!("talk-{}-{number}", number / 20)).expect("a space");
            let trigger = Trigger::parse(&format!(r#"{{"text":"{text}"}}"#)).expect("a trigger");
            NewMemory::new(space, trigger, Timestamp::from_millis(number as i64 * 60_000).expect("a time"))
        };
        provider.store_many(texts.iter().enumerate().map(memory).collect()).await.expect("stores");
        ranked.execute_batch("BEGIN").expect("begins");
        for text in &texts {
            ranked.execute("INSERT INTO texts VALUES (?1)", [text]).expect("inserts");
        }
        ranked.execute_batch("COMMIT").expect("commits");
    }
    let mut answer = ranked
        .prepare("SELECT rowid, text FROM texts WHERE texts MATCH ?1 ORDER BY bm25(texts) LIMIT ?2")
        .expect("a statement");
    let (mut times, mut looked_at) = ((Vec::new(), Vec::new()), (0, true));
    for seed in 0..QUESTIONS {
        let question = Random((seed + 2).wrapping_mul(0x9e37_79b9_7f4a_7c15)).text(LENGTHS.1);
        let begun = Instant::now();
        let query = MemoryQuery::builder().under("talk").limit(BEST).build().expect("a query");
        let recalled = provider.recall(&Recall::new(&question, query).expect("a question")).await.expect("answers");
        times.0.push(begun.elapsed());
        looked_at = (recalled.examined, recalled.complete);
        let begun = Instant::now();
        let any = question.replace(' ', " OR ");
        let found = answer.query_map((any, BEST as i64), |row| row.get::<_, String>(1)).expect("answers");
        let found: Vec<_> = found.map(|text| text.expect("a text")).collect();
        assert_eq!(found.len(), BEST);
        times.1.push(begun.elapsed());
    }
    let (examined, complete) = looked_at;
    let [ours, theirs] = [&mut times.0, &mut times.1].map(|times| middle(times));
    println!("a question to {rows} memories of one scope, of which {examined} were looked at (complete: {complete})");
    println!("recall {ours:?}, bm25() {theirs:?}, {:.2} times", ours.as_secs_f64() / theirs.as_secs_f64());
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// Words of which few are frequent and most are rare, as in any language.
    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| format!("w{}", WORDS.powf(self.next()) as usize)).collect::<Vec<_>>().join(" ")
    }

    /// From 0 to 1 (xorshift64*).
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
