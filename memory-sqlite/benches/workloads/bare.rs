//! rusqlite alone, on the tables and indexes of the provider: the lowest possible cost of the same work.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use conformance::bench::Bare;
use conformance::workload::Ledger;
use memory_core::{
    Context, IdempotencyKey, Memory, MemoryId, Metadata, NewMemory, Revision, SpaceId, Status, Timestamp, Trigger,
};
use rusqlite::{CachedStatement, Connection, Row, params};

const INSERT: &str = "
    INSERT INTO memories (id, slot, space_id, status, trigger, context, updated_at, metadata, revision, idempotency_key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, 1, ?8)";
const INSERT_PATHS: &str = "INSERT INTO memory_paths (rowid, path) VALUES (?1, ?2)";
const UPDATE: &str = "UPDATE memories SET context = ?2, updated_at = 1, revision = revision + 1 WHERE id = ?1";
const SLOTS: &str = "SELECT rowid FROM memory_paths WHERE memory_paths MATCH ?1 ORDER BY rowid DESC";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, slot, space_id, status, trigger, context, updated_at, metadata, revision, idempotency_key
             FROM memories ",
            $rest
        )
    };
}
const BY_ID: &str = select!("WHERE id = ?1");
const BY_SLOT: &str = select!("WHERE slot = ?1 ORDER BY id DESC");
// The schema of runtimes without a path index: neither the space nor the time is indexed.
const BY_LIKE: &str = select!("WHERE space_id LIKE ?1 ORDER BY created_at DESC, id DESC LIMIT ?2");
const PENDING: &str =
    select!("WHERE status = 'pending' AND status IN ('pending', 'running') ORDER BY slot DESC, id DESC LIMIT ?2");

/// How long to wait before looking at the path index again.
const PAUSE: Duration = Duration::from_millis(500);

/// A connection on a file that a provider has made, for one task after the other.
pub(crate) struct BareRusqlite(Mutex<Connection>);

impl BareRusqlite {
    /// With the settings of the provider.
    pub(crate) fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("a database");
        connection.pragma_update(None, "journal_mode", "wal").expect("WAL");
        connection.pragma_update(None, "synchronous", "full").expect("FULL");
        connection.pragma_update(None, "cache_size", -8192).expect("a cache");
        connection.pragma_update(None, "wal_autocheckpoint", 4_000).expect("a log");
        connection.set_prepared_statement_cache_capacity(64);
        Self(Mutex::new(connection))
    }

    /// How many parts the path index has.
    fn parts(&self) -> i64 {
        let count = "SELECT count(DISTINCT segid) FROM memory_paths_idx";
        self.connection().prepare(count).query_row([], |row| row.get(0)).expect("a number")
    }

    fn connection(&self) -> Session<'_> {
        Session(self.0.lock().expect("nobody panicked"))
    }
}

#[async_trait]
impl Bare for BareRusqlite {
    async fn store(&self, row: NewMemory) {
        self.connection().store_all([row]);
    }

    async fn store_many(&self, rows: Vec<NewMemory>) {
        self.connection().store_all(rows);
    }

    /// In one transaction.
    async fn import(&self, ledger: Ledger) {
        self.connection().store_all(ledger.rows());
    }

    /// Waits until the provider has merged the path index, and brings all of the log into the file, too.
    async fn settle(&self) {
        while self.parts() > 1 {
            tokio::time::sleep(PAUSE).await;
        }
        let Session(connection) = self.connection();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
        let file = File::open(connection.path().expect("a file")).expect("opens");
        file.sync_all().expect("a disk that takes it");
    }

    async fn update(&self, id: MemoryId, context: &Context) {
        let connection = self.connection();
        connection.prepare(UPDATE).execute(params![id.as_bytes().as_slice(), context.as_str()]).expect("updates");
    }

    async fn get(&self, id: MemoryId) {
        let connection = self.connection();
        connection.prepare(BY_ID).query_row([id.as_bytes().as_slice()], |row| Ok(memory(row))).expect("is there");
    }

    async fn answer(&self, question: &str) -> Option<Vec<MemoryId>> {
        Some(self.connection().answer(question).iter().map(|memory| memory.id).collect())
    }
}

/// The connection, while one task has it.
struct Session<'b>(MutexGuard<'b, Connection>);

impl Session<'_> {
    /// One transaction for all rows.
    fn store_all(&self, rows: impl IntoIterator<Item = NewMemory>) {
        self.prepare("BEGIN IMMEDIATE").execute([]).expect("begins");
        rows.into_iter().for_each(|row| self.insert(&row));
        self.prepare("COMMIT").execute([]).expect("commits");
    }

    fn insert(&self, row: &NewMemory) {
        let (id, slot) = (MemoryId::generate(), row.created_at.as_millis() << 20);
        let parameters = params![
            id.as_bytes().as_slice(),
            slot,
            row.space_id.as_str(),
            row.status.as_str(),
            row.trigger.as_str(),
            row.context.as_ref().map(Context::as_str),
            row.metadata.as_str(),
            row.idempotency_key.as_ref().map(IdempotencyKey::as_str),
        ];
        self.prepare(INSERT).execute(parameters).expect("inserts");
        self.prepare(INSERT_PATHS).execute(params![slot, tokens(&row.space_id)]).expect("inserts");
    }

    fn answer(&self, question: &str) -> Vec<Memory> {
        let any = |_: &Memory| true;
        match question {
            "exact, a room" => self.newest("\"e2plugin-discord-room\"", any),
            "exact, a parent above half" => self.newest("\"e2plugin-discord-dense\"", any),
            "under, dense" => self.newest(&under("dense"), any),
            "under, medium" => self.newest(&under("medium"), any),
            "under, sparse" => self.newest(&under("sparse"), any),
            "under, stale" => self.newest(&under("stale"), any),
            "filter under dense" => {
                self.newest(&under("dense"), |memory| memory.metadata.as_str().contains(r#""topic":"rust""#))
            }
            "pending under dense" => {
                self.all(PENDING, "", i64::MAX, |memory| memory.space_id.as_str().starts_with("plugin-discord-dense"))
            }
            "pending rows" => self.all(PENDING, "", 50, any),
            // Without a path index there is no better query.
            "prefix, siblings" => self.all(BY_LIKE, "plugin-discord-g1%", 50, any),
            "glob, a guild's channel" => self.newest("\"u3plugin-discord-g42-c7\"", any),
            other => panic!("no statement for {other}"),
        }
    }

    fn newest(&self, tokens: &str, wanted: impl Fn(&Memory) -> bool) -> Vec<Memory> {
        let (mut slots, mut rows) = (self.prepare(SLOTS), self.prepare(BY_SLOT));
        let slots = slots.query_map([tokens], |row| row.get::<_, i64>(0)).expect("a query");
        let memories = slots.map(|slot| rows.query_row([slot.expect("a slot")], |row| Ok(memory(row))).expect("a row"));
        memories.filter(wanted).take(50).collect()
    }

    fn all(&self, sql: &str, pattern: &str, limit: i64, wanted: impl Fn(&Memory) -> bool) -> Vec<Memory> {
        let mut rows = self.prepare(sql);
        let rows = rows.query_map(params![pattern, limit], |row| Ok(memory(row))).expect("a query");
        rows.map(|row| row.expect("a row")).filter(wanted).take(50).collect()
    }

    fn prepare(&self, sql: &str) -> CachedStatement<'_> {
        self.0.prepare_cached(sql).expect("a statement")
    }
}

fn under(guild: &str) -> String {
    format!("\"e2plugin-discord-{guild}\" OR \"u2plugin-discord-{guild}\"")
}

/// The tokens of a space that needs no escapes.
fn tokens(space: &SpaceId) -> String {
    let mut tokens = format!("e{}{space}", depth(space.ancestors().count()));
    for (boundaries, ancestor) in space.ancestors().enumerate() {
        tokens += &format!(" u{}{ancestor}", depth(boundaries));
    }
    tokens
}

fn depth(boundaries: usize) -> char {
    char::from_digit(boundaries as u32, 33).expect("at most 32 boundaries")
}

fn memory(row: &Row<'_>) -> Memory {
    let text = |index| row.get_ref(index).and_then(|value| Ok(value.as_str()?)).expect("a text");
    Memory {
        id: MemoryId::from_bytes(row.get(0).expect("an id")),
        space_id: SpaceId::parse(text(2)).expect("a space"),
        trigger: Trigger::from_stored(text(4)).expect("JSON"),
        context: row
            .get::<_, Option<String>>(5)
            .expect("a context")
            .map(|text| Context::from_stored(&text).expect("JSON")),
        created_at: Timestamp::from_millis(row.get::<_, i64>(1).expect("a slot") >> 20).expect("a time"),
        updated_at: row
            .get::<_, Option<i64>>(6)
            .expect("a time")
            .map(|time| Timestamp::from_millis(time).expect("a time")),
        metadata: Metadata::from_stored(text(7)).expect("metadata"),
        status: Status::parse(text(3)).expect("a status"),
        revision: Revision::new(row.get::<_, i64>(8).expect("a revision") as u64).expect("a revision"),
        idempotency_key: None,
        expires_at: None,
    }
}
