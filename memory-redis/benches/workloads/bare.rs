//! Bare commands on the keys of the provider, in one pipeline: the best that the same work can cost.

use std::cell::Cell;

use async_trait::async_trait;
use conformance::bench::Bare;
use memory_core::{
    Context, IdempotencyKey, Memory, MemoryId, Metadata, NewMemory, Revision, SpaceId, Status, Timestamp, Trigger,
};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, pipe};

/// The bytes of a row that are no text.
const ROW_OVERHEAD: usize = 25;
/// A byte that no step begins with.
const BEYOND: &str = "\u{10}";
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

    /// Whether the server still frees removed data.
    pub(crate) async fn is_freeing(&self) -> bool {
        let info = self.run::<Vec<String>>(pipe().cmd("INFO").arg("memory")).await.swap_remove(0);
        !info.lines().any(|line| line == "lazyfree_pending_objects:0")
    }

    async fn run<T: redis::FromRedisValue>(&self, pipeline: &Pipeline) -> T {
        pipeline.query_async(&mut self.connection.clone()).await.expect("answers")
    }

    fn exact(&self, ids: &mut Pipeline, space: &str) {
        let (path, last) = parted(space);
        self.newest(ids, &self.node(path), &format!("{last}\0"));
    }

    fn below(&self, ids: &mut Pipeline, path: &str) {
        self.newest(ids, &self.node(Some(path)), "");
    }

    /// The newest steps of a set that follow a head.
    fn newest(&self, ids: &mut Pipeline, set: &str, head: &str) {
        ids.cmd("ZREVRANGEBYLEX").arg(set).arg(format!("({head}{BEYOND}")).arg(format!("[{head}"));
        ids.arg("LIMIT").arg(0).arg(50);
    }

    fn under(&self, ids: &mut Pipeline, path: &str) {
        self.exact(ids, path);
        self.below(ids, path);
    }

    fn row(&self, id: MemoryId) -> Vec<u8> {
        [self.key("r:").as_bytes(), id.as_bytes()].concat()
    }

    fn node(&self, path: Option<&str>) -> String {
        self.key(&path.map_or_else(|| "n".to_owned(), |path| format!("n:{path}")))
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
        for row in rows {
            let memory = row.into_memory(MemoryId::generate());
            let (space, step) = (memory.space_id.as_str(), step(&memory));
            pipeline.cmd("SET").arg(self.row(memory.id)).arg(vec![b'x'; ROW_OVERHEAD + memory.size()]).ignore();
            pipeline.cmd("ZADD").arg(self.key("b:steps")).arg(0).arg(&step).ignore();
            for path in memory.space_id.ancestors() {
                pipeline.cmd("ZADD").arg(self.key(&format!("b:n:{path}"))).arg(0).arg(&step);
                // The node's entry for the path below it.
                let rest = &space[path.len()..];
                let end = rest[1..].find(['-', '/', ':']).map_or(rest.len(), |at| at + 2);
                match end == rest.len() {
                    true => pipeline.arg(0).arg([rest.as_bytes(), &[0], &step].concat()).ignore(),
                    false => pipeline.arg(0).arg(&rest[..end]).ignore(),
                };
            }
            if memory.status.is_open() {
                let entry = [memory.status.as_str().as_bytes(), &step].concat();
                pipeline.cmd("ZADD").arg(self.key("b:open")).arg(0).arg(entry).ignore();
            }
        }
        self.run::<()>(&pipeline).await;
    }

    /// Reads a row, and writes it again.
    async fn update(&self, id: MemoryId, _: &Context) {
        let row: Vec<u8> = self.run::<Vec<Vec<u8>>>(pipe().cmd("GET").arg(self.row(id))).await.swap_remove(0);
        let mut pipeline = pipe();
        pipeline.cmd("SET").arg(self.row(id)).arg(row).ignore();
        self.run::<()>(&pipeline).await;
    }

    async fn get(&self, id: MemoryId) {
        let row = self.run::<Vec<Vec<u8>>>(pipe().cmd("GET").arg(self.row(id))).await.swap_remove(0);
        memory(id, &row);
    }

    /// The ids of the newest 50 in the order of the contract, by the commands that one would write for this question by
    /// hand: one pipeline for the ids, and one command for the rows. `None` if bare commands can't answer it.
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
            "pending rows" => self.newest(&mut ids, &self.key("open"), "pending"),
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
            found.extend(part.iter().map(|step| time_and_id(step)));
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

/// Decodes a row that the provider has written.
fn memory(id: MemoryId, row: &[u8]) -> Memory {
    // After the form and the token.
    let rest = Cell::new(&row[9..]);
    let byte = || {
        let (first, behind) = rest.get().split_first().expect("a byte");
        rest.set(behind);
        *first
    };
    let number = || {
        let (mut number, mut place) = (0, 0);
        loop {
            let byte = byte();
            number |= i64::from(byte & 0x7f) << place;
            place += 7;
            if byte <= 0x7f {
                return number;
            }
        }
    };
    let time = |since_earliest: i64| Timestamp::from_millis(since_earliest + EARLIEST).expect("a time");
    let text = || {
        let length = number();
        let (text, behind) = rest.get().split_at((length - 1).max(0) as usize);
        rest.set(behind);
        (length > 0).then(|| std::str::from_utf8(text).expect("UTF-8"))
    };
    Memory {
        id,
        revision: Revision::new(number() as u64).expect("a revision"),
        created_at: time(number()),
        updated_at: Some(number()).filter(|more| *more > 0).map(|more| time(more - 1)),
        status: Status::ALL[usize::from(byte())],
        space_id: SpaceId::parse(text().expect("a space")).expect("a space"),
        metadata: Metadata::from_stored(text().expect("metadata")).expect("metadata"),
        idempotency_key: text().map(|key| IdempotencyKey::parse(key).expect("a key")),
        trigger: Trigger::from_stored(text().expect("a trigger")).expect("JSON"),
        context: text().map(|context| Context::from_stored(context).expect("JSON")),
        // No workload sets an expiry time.
        expires_at: None,
    }
}

/// The path above a path, and the rest of the path.
fn parted(path: &str) -> (Option<&str>, &str) {
    path.rfind(['-', '/', ':']).map_or((None, path), |at| (Some(&path[..at]), &path[at..]))
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
