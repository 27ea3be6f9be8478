//! sqlx alone, on the tables and indexes of the provider: the lowest possible cost of the same work.

use async_trait::async_trait;
use conformance::bench::Bare;
use memory_core::{
    Context, Memory, MemoryId, Metadata, NewMemory, Revision, SpaceId, Status, Timestamp, Trigger, path_hash,
};
use memory_postgres::PostgresConfig;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Postgres, Row};
use tokio::sync::{Mutex, OnceCell};
use uuid::Uuid;

const UPDATE: &str = "UPDATE memories SET context = $2, updated_at = 1, revision = revision + 1 WHERE id = $1";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, created_at, space_id, status, revision, updated_at, metadata, trigger, context FROM memories ",
            $rest
        )
    };
}
const BY_ID: &str = select!("WHERE id = $1");
const EXACT: &str = select!("WHERE space_id = $1 ORDER BY created_at DESC, id DESC LIMIT 50");
const UNDER: &str = concat!(
    "(",
    select!("WHERE path_3 = $1 ORDER BY created_at DESC, id DESC LIMIT $3"),
    ") UNION ALL (",
    select!("WHERE space_id = $2 ORDER BY created_at DESC, id DESC LIMIT $3"),
    ") ORDER BY created_at DESC, id DESC LIMIT $3"
);
const BELOW: &str = select!("WHERE path_4 = $1 ORDER BY created_at DESC, id DESC LIMIT 50");
// The schema of runtimes without a path index: the index on the space finds the rows, and all of them are sorted.
const PREFIX: &str =
    select!("WHERE space_id >= $1 AND space_id < $1 || '~' ORDER BY created_at DESC, id DESC LIMIT 50");
const PENDING: &str = select!(
    "WHERE status = 'pending' AND status IN ('pending', 'running') AND starts_with(space_id, $1)
     ORDER BY created_at DESC, id DESC LIMIT 50"
);

/// Separate connections to the schema of a provider.
pub(crate) struct BareSqlx {
    pool: PgPool,
    /// For sequential calls: the pool asks the server after each call whether the connection works.
    held: OnceCell<Mutex<PgConnection>>,
}

impl BareSqlx {
    /// A pool of the provider's size, with the same settings.
    pub(crate) fn connect(url: &str, config: &PostgresConfig) -> Self {
        let options: PgConnectOptions = url.parse().expect("the URL of a test server");
        let schema = config.namespace.as_str();
        let settings = [("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off")];
        let options = options.options(settings).options([("search_path", schema), ("agent_memory.writer", "9")]);
        let pool = PgPoolOptions::new().max_connections(config.pool_size.get()).test_before_acquire(false);
        Self { pool: pool.connect_lazy_with(options), held: OnceCell::new() }
    }

    async fn held(&self) -> &Mutex<PgConnection> {
        let connect = async || {
            let options = self.pool.connect_options();
            Mutex::new(PgConnection::connect_with(&options).await.expect("a connection"))
        };
        self.held.get_or_init(connect).await
    }

    async fn rows(&self, query: Query<'_, Postgres, PgArguments>) -> Vec<Memory> {
        query.fetch_all(&mut *self.held().await.lock().await).await.expect("rows").iter().map(memory).collect()
    }

    async fn under(&self, guild: &str, limit: i64) -> Vec<Memory> {
        let path = format!("plugin-discord-{guild}");
        self.rows(sqlx::query(UNDER).bind(path_hash(&path)).bind(path).bind(limit)).await
    }
}

#[async_trait]
impl Bare for BareSqlx {
    async fn store(&self, row: NewMemory) {
        let paths: Vec<_> = row.space_id.ancestors().map(path_hash).collect();
        let (columns, values) = (each(&paths, 1, "path_"), each(&paths, 8, "$"));
        let insert = format!(
            "INSERT INTO memories (id, created_at, revision, status, space_id, metadata, trigger, context{columns})
             VALUES ($1, $2, 1, $3, $4, $5, $6, $7{values})"
        );
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(Uuid::now_v7()).bind(row.created_at.as_millis());
        let insert = insert.bind(row.status.as_str()).bind(row.space_id.as_str()).bind(row.metadata.as_str());
        let insert = insert.bind(row.trigger.as_str()).bind(row.context.as_ref().map(Context::as_str));
        let insert = paths.into_iter().fold(insert, Query::bind);
        match self.held().await.try_lock() {
            Ok(mut held) => insert.execute(&mut *held).await,
            Err(_) => insert.execute(&self.pool).await,
        }
        .expect("stores");
    }

    async fn store_many(&self, rows: Vec<NewMemory>) {
        let mut paths: Vec<Vec<Option<i64>>> = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            for (depth, path) in row.space_id.ancestors().enumerate() {
                if depth == paths.len() {
                    paths.push(vec![None; rows.len()]);
                }
                paths[depth][number] = Some(path_hash(path));
            }
        }
        let (columns, values) = (each(&paths, 1, "path_"), each(&paths, 8, "$"));
        let insert = format!(
            "INSERT INTO memories (id, created_at, revision, status, space_id, metadata, trigger, context{columns})
             SELECT id, created_at, 1, status, space_id, metadata, trigger, context{columns}
             FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]{values})
                AS given (id, created_at, status, space_id, metadata, trigger, context{columns})"
        );
        let text = |text: fn(&NewMemory) -> &str| rows.iter().map(text).collect::<Vec<_>>();
        let contexts = rows.iter().map(|row| row.context.as_ref().map(Context::as_str)).collect::<Vec<_>>();
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(rows.iter().map(|_| Uuid::now_v7()).collect::<Vec<_>>());
        let insert = insert.bind(rows.iter().map(|row| row.created_at.as_millis()).collect::<Vec<_>>());
        let insert = insert.bind(text(|row| row.status.as_str())).bind(text(|row| row.space_id.as_str()));
        let insert = insert.bind(text(|row| row.metadata.as_str())).bind(text(|row| row.trigger.as_str()));
        let insert = paths.into_iter().fold(insert.bind(contexts), Query::bind);
        insert.execute(&self.pool).await.expect("stores");
    }

    async fn update(&self, id: MemoryId, context: &Context) {
        let update = sqlx::query(UPDATE).bind(Uuid::from_bytes(*id.as_bytes())).bind(context.as_str());
        update.execute(&mut *self.held().await.lock().await).await.expect("updates");
    }

    async fn get(&self, id: MemoryId) {
        let get = sqlx::query(BY_ID).bind(Uuid::from_bytes(*id.as_bytes()));
        memory(&get.fetch_one(&mut *self.held().await.lock().await).await.expect("is there"));
    }

    async fn answer(&self, question: &str) -> Option<Vec<MemoryId>> {
        let rows = match question {
            "exact, a room" => self.rows(sqlx::query(EXACT).bind("plugin-discord-room")).await,
            "exact, a parent above half" => self.rows(sqlx::query(EXACT).bind("plugin-discord-dense")).await,
            "under, dense" => self.under("dense", 50).await,
            "under, medium" => self.under("medium", 50).await,
            "under, sparse" => self.under("sparse", 50).await,
            "under, stale" => self.under("stale", 50).await,
            "filter under dense" => {
                let mut rows = self.under("dense", 500).await;
                rows.retain(|memory| memory.metadata.as_str().contains(r#""topic":"rust""#));
                rows.truncate(50);
                rows
            }
            "pending under dense" => self.rows(sqlx::query(PENDING).bind("plugin-discord-dense")).await,
            "pending rows" => self.rows(sqlx::query(PENDING).bind("")).await,
            "prefix, siblings" => self.rows(sqlx::query(PREFIX).bind("plugin-discord-g1")).await,
            "glob, a guild's channel" => self.rows(sqlx::query(BELOW).bind(path_hash("plugin-discord-g42-c7"))).await,
            other => panic!("no statement for {other}"),
        };
        Some(rows.iter().map(|memory| memory.id).collect())
    }
}

/// The rest of a list: a name for each path, numbered from `first` on.
fn each<T>(paths: &[T], first: usize, name: &str) -> String {
    (first..first + paths.len()).map(|number| format!(", {name}{number}")).collect()
}

fn memory(row: &PgRow) -> Memory {
    let time = |millis| Timestamp::from_millis(millis).expect("a time");
    Memory {
        id: MemoryId::from_bytes(row.get::<Uuid, _>(0).into_bytes()),
        created_at: time(row.get(1)),
        space_id: SpaceId::parse(row.get::<&str, _>(2)).expect("a space"),
        status: Status::parse(row.get::<&str, _>(3)).expect("a status"),
        revision: Revision::new(row.get::<i64, _>(4).cast_unsigned()).expect("a revision"),
        updated_at: row.get::<Option<i64>, _>(5).map(time),
        metadata: Metadata::from_stored(row.get(6)).expect("metadata"),
        trigger: Trigger::from_stored(row.get(7)).expect("JSON"),
        context: row.get::<Option<&str>, _>(8).map(|text| Context::from_stored(text).expect("JSON")),
        idempotency_key: None,
        expires_at: None,
    }
}
