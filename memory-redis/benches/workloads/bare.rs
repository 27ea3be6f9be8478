//! Bare commands on the keys of the provider, in one pipeline: the best that the same work can cost.

use async_trait::async_trait;
use conformance::bench::Bare;
use memory_core::{
    Context, IdempotencyKey, Memory, MemoryId, Metadata, NewMemory, Revision, SpaceId, Status, Timestamp, Trigger,
};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, pipe};

/// The bytes of a row that are no text.
const ROW_OVERHEAD: usize = 54;
const EARLIEST: i64 = -8_640_000_000_000;

/// A connection, and the keys of a namespace.
pub(crate) struct BareRedis {
    connection: MultiplexedConnection,
    prefix: String,
}

impl BareRedis {
    pub(crate) async fn open(url: &str, namespace: &str) -> Self {
        let client = Client::open(url).expect("a URL");
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection");
        Self { connection, prefix: format!("{{{namespace}}}:") }
    }

    /// Whether the server still frees what was removed.
    pub(crate) async fn is_freeing(&self) -> bool {
        let info = self.run::<Vec<String>>(pipe().cmd("INFO").arg("memory")).await.swap_remove(0);
        !info.lines().any(|line| line == "lazyfree_pending_objects:0")
    }

    async fn run<T: redis::FromRedisValue>(&self, pipeline: &Pipeline) -> T {
        pipeline.query_async(&mut self.connection.clone()).await.expect("answers")
    }

    fn exact(&self, ids: &mut Pipeline, space: &str) {
        ids.cmd("ZREVRANGEBYLEX").arg(self.key("spaces")).arg(format!("({space}\u{1}")).arg(format!("[{space}\0"));
        ids.arg("LIMIT").arg(0).arg(50);
    }

    /// The newest 64 of a path are never in chunks.
    fn below(&self, ids: &mut Pipeline, path: &str) {
        ids.cmd("ZREVRANGE").arg(self.key(&format!("p:{path}"))).arg(0).arg(49);
    }

    fn under(&self, ids: &mut Pipeline, path: &str) {
        self.exact(ids, path);
        self.below(ids, path);
    }

    fn row(&self, id: MemoryId) -> Vec<u8> {
        [self.key("m:").as_bytes(), id.as_bytes()].concat()
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

#[async_trait]
impl Bare for BareRedis {
    /// The row, and an entry in each sorted set, in one transaction: all or none.
    async fn store(&self, row: NewMemory) {
        self.store_many(vec![row]).await;
    }

    async fn store_many(&self, rows: Vec<NewMemory>) {
        let mut pipeline = pipe();
        pipeline.atomic();
        // The provider would have to move what is added to its own sets into chunks.
        let set = |name: &str| self.key(&format!("b:{name}"));
        for row in rows {
            let memory = row.into_memory(MemoryId::generate());
            let (id, time) = (memory.id.as_bytes(), memory.created_at.as_millis());
            pipeline.cmd("SET").arg(self.row(memory.id)).arg(vec![b'x'; ROW_OVERHEAD + memory.size()]).ignore();
            pipeline.cmd("ZADD").arg(set("time")).arg(time).arg(id).ignore();
            let step = step(&memory);
            let in_space = [memory.space_id.as_str().as_bytes(), &[0], &step].concat();
            pipeline.cmd("ZADD").arg(set("spaces")).arg(0).arg(in_space).ignore();
            for path in memory.space_id.ancestors() {
                pipeline.cmd("ZADD").arg(set(&format!("p:{path}"))).arg(0).arg(&step).ignore();
            }
            if memory.status.is_open() {
                pipeline.cmd("ZADD").arg(set(memory.status.as_str())).arg(time).arg(id).ignore();
            }
        }
        self.run::<()>(&pipeline).await;
    }

    /// Reads a row, and writes it again.
    async fn update(&self, id: MemoryId, _: &Context) {
        let row: Vec<u8> = self.run::<Vec<Vec<u8>>>(pipe().cmd("GET").arg(self.row(id))).await.swap_remove(0);
        let mut pipeline = pipe();
        pipeline.cmd("SET").arg(self.row(id)).arg(row).ignore();
        for status in ["pending", "running"] {
            pipeline.cmd("ZREM").arg(self.key(status)).arg(id.as_bytes()).ignore();
        }
        self.run::<()>(&pipeline).await;
    }

    async fn get(&self, id: MemoryId) {
        let row = self.run::<Vec<Vec<u8>>>(pipe().cmd("GET").arg(self.row(id))).await.swap_remove(0);
        memory(id, &row);
    }

    /// The ids of the newest 50 in the order of the contract, by the commands that one would write for this question by hand:
    /// one pipeline for the ids, and one command for the rows. `None` where bare commands have no answer.
    async fn answer(&self, question: &str) -> Option<Vec<MemoryId>> {
        let mut ids = pipe();
        match question {
            "exact, a room" => self.exact(&mut ids, "plugin-discord-room"),
            "exact, a parent above half" => self.exact(&mut ids, "plugin-discord-dense"),
            "under, dense" => self.under(&mut ids, "plugin-discord-dense"),
            "under, medium" => self.under(&mut ids, "plugin-discord-medium"),
            "under, sparse" => self.under(&mut ids, "plugin-discord-sparse"),
            "under, stale" => self.under(&mut ids, "plugin-discord-stale"),
            "glob, a guild's channel" => self.below(&mut ids, "plugin-discord-g42-c7"),
            "pending rows" => drop(ids.cmd("ZREVRANGE").arg(self.key("pending")).arg(0).arg(49).arg("WITHSCORES")),
            "prefix, siblings" => {
                self.below(&mut ids, "plugin-discord-g1");
                for last in 0..10 {
                    self.below(&mut ids, &format!("plugin-discord-g1{last}"));
                }
            }
            _ => return None,
        }
        let mut found: Vec<(i64, Vec<u8>)> = Vec::new();
        for part in self.run::<Vec<Vec<Vec<u8>>>>(&ids).await {
            let is_by_score = part.len() >= 2 && part[0].len() == 16;
            match is_by_score {
                true => found.extend(part.chunks_exact(2).map(|pair| (score(&pair[1]), pair[0].clone()))),
                false => found.extend(part.iter().map(|step| time_and_id(step))),
            }
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        found.truncate(50);
        let ids = found.iter().map(|(_, id)| MemoryId::from_bytes(id.as_slice().try_into().expect("an id")));
        let ids: Vec<_> = ids.collect();
        if ids.is_empty() {
            return Some(ids);
        }
        let keys: Vec<_> = ids.iter().map(|id| self.row(*id)).collect();
        let rows = self.run::<Vec<Vec<Vec<u8>>>>(pipe().cmd("MGET").arg(keys)).await.swap_remove(0);
        let memories: Vec<_> = ids.iter().zip(&rows).map(|(id, row)| memory(*id, row)).collect();
        Some(memories.iter().map(|memory| memory.id).collect())
    }
}

/// What the provider has written.
fn memory(id: MemoryId, row: &[u8]) -> Memory {
    let number = |at: usize| i64::from_be_bytes(row[at..at + 8].try_into().expect("eight bytes"));
    let time = |millis| Timestamp::from_millis(millis).expect("a time");
    let (facts, mut rest) = row.split_at(34);
    let mut text = || {
        let (length, behind) = rest.split_first_chunk().expect("a length");
        let length = u32::from_be_bytes(*length);
        let (text, behind) = behind.split_at(if length == u32::MAX { 0 } else { length as usize });
        rest = behind;
        (length < u32::MAX).then(|| std::str::from_utf8(text).expect("UTF-8"))
    };
    Memory {
        id,
        revision: Revision::new(number(9) as u64).expect("a revision"),
        created_at: time(number(17)),
        updated_at: Some(number(25)).filter(|millis| *millis != i64::MIN).map(time),
        status: Status::ALL[usize::from(facts[33])],
        space_id: SpaceId::parse(text().expect("a space")).expect("a space"),
        metadata: Metadata::from_stored(text().expect("metadata")).expect("metadata"),
        idempotency_key: text().map(|key| IdempotencyKey::parse(key).expect("a key")),
        trigger: Trigger::from_stored(text().expect("a trigger")).expect("JSON"),
        context: text().map(|context| Context::from_stored(context).expect("JSON")),
    }
}

fn step(memory: &Memory) -> Vec<u8> {
    let time = (memory.created_at.as_millis() - EARLIEST).to_be_bytes();
    [&time[2..], memory.id.as_bytes()].concat()
}

fn time_and_id(step: &[u8]) -> (i64, Vec<u8>) {
    let (rest, id) = step.split_at(step.len() - 16);
    let time = rest[rest.len() - 6..].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
    (time + EARLIEST, id.to_vec())
}

fn score(text: &[u8]) -> i64 {
    String::from_utf8_lossy(text).parse().expect("a time")
}
