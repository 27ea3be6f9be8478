//! The engine: life cycle, health, and sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::engine::{Access, Engine, FeedPosition, Provider, Work, corrupt};
use memory_core::{Backfill, Durability, Error, Health, MemoryProvider, Result, Timestamp};
use redis::{InfoDict, Pipeline};

use crate::config::RedisConfig;
use crate::connection::{Connections, LONG, RedisSession, command};
use crate::feed;
use crate::schema;
use crate::statements::{Call, HASH_KEY, Lua, NO_HISTORY, RETENTION, SCHEMA, SECRET, SINCE, VECTOR_MODEL};

/// Agent memory in a namespace of a Redis server or cluster.
///
/// Open it by a URL or a [`RedisConfig`], call [`init`](memory_core::MemoryProvider::init), and hold it as
/// `Arc<dyn MemoryProvider>`. Clones share the connections.
pub type RedisMemory = Provider<RedisEngine>;

/// Opens a [`RedisMemory`] as a [`MemoryProvider`] object, for a program that chooses its engine at run time. The
/// generic provider is compiled in this crate, so the program need not compile it.
///
/// `InvalidInput` if the configuration is not valid.
pub fn open(config: RedisConfig) -> Result<Arc<dyn MemoryProvider>> {
    Ok(Arc::new(RedisMemory::open(config)?))
}

/// Interval at which the feed is checked for writes of other programs while a watch is open.
const LOOK: Duration = Duration::from_millis(50);
/// How long a slice of a backfill is resent.
const SLICE_PATIENCE: Duration = Duration::from_secs(1);

/// The engine of [`RedisMemory`].
#[derive(Debug)]
pub struct RedisEngine {
    connections: Arc<Connections>,
}

impl Engine for RedisEngine {
    const NAME: &'static str = "redis";
    // The server executes nothing else meanwhile, so batches are small.
    const BATCH: Option<(usize, usize)> = Some((256, 1 << 20));
    const RESTORE: (usize, usize) = (500, 4 << 20);
    const HISTORY: bool = true;
    const ERASES: bool = true;
    const VECTORS: bool = true;

    type Config = RedisConfig;
    type Session = RedisSession;

    async fn open(config: &RedisConfig) -> Result<Self> {
        let connections = Arc::new(Connections::new(config)?);
        connections.retry(|| schema::run(&connections)).await?;
        Ok(Self { connections })
    }

    async fn pending(&self) -> Result<Vec<Backfill>> {
        RedisSession::new(&self.connections, Instant::now()).pending().await
    }

    async fn backfill(&self) -> Result<()> {
        // A slice is short, and so is the time for which a moving slot refuses it.
        RedisSession::new(&self.connections, Instant::now() + SLICE_PATIENCE).backfill().await
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        self.agreed(SECRET, proposed).await
    }

    async fn history_since(&self, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let proposed = proposed.map_or_else(|| NO_HISTORY.to_owned(), |time| time.as_millis().to_string());
        let since = self.agreed(SINCE, &proposed).await?;
        if since == NO_HISTORY {
            return Ok(None);
        }
        let millis = since.parse().map_err(|_| Error::corrupt("the beginning of the history is no time"))?;
        Timestamp::from_millis(millis).map(Some).map_err(corrupt)
    }

    async fn hash_key(&self, proposed: &str) -> Result<String> {
        self.agreed(HASH_KEY, proposed).await
    }

    async fn retention(&self) -> Result<Option<String>> {
        self.text(RETENTION).await
    }

    async fn set_retention(&self, rules: &str) -> Result<()> {
        self.set_text(RETENTION, rules).await
    }

    async fn vector_model(&self) -> Result<Option<String>> {
        self.text(VECTOR_MODEL).await
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        self.set_text(VECTOR_MODEL, model).await
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        schema::set_read_only(&self.connections, is_read_only).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        schema::is_read_only(&self.connections).await
    }

    async fn close(&self) -> Result<()> {
        self.connections.close().await;
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let mut commands = Pipeline::new();
        commands.cmd("HLEN").arg(self.connections.keys.of(SCHEMA)).cmd("INFO");
        let (schema_version, info): (u32, InfoDict) = self.connections.read_as(&commands).await?;
        let latency = start.elapsed();
        // Often denied, which is not an error. One setting at a time, as servers before 7.0 require, and only those
        // that are needed: settings include passwords.
        let mut commands = Pipeline::new();
        for setting in ["appendfsync", "no-appendfsync-on-rewrite"] {
            commands.cmd("CONFIG").arg("GET").arg(setting);
        }
        let settings = self.connections.read_as::<Vec<HashMap<String, String>>>(&commands).await.ok();
        let settings = settings.map(|each| each.into_iter().flatten().collect());
        let version: Option<String> = info.get("valkey_version").or_else(|| info.get("redis_version"));
        let durability = self.durability(&info, settings.as_ref());
        Ok(Health::new(Self::NAME, version.unwrap_or_default(), schema_version, latency, durability))
    }

    async fn run<A, T>(
        &self,
        access: Access,
        until: Instant,
        argument: Arc<A>,
        work: Work<RedisSession, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        // Always on the primary, which has the latest data.
        let is_confirmed = matches!(access, Access::ReadConfirmed | Access::Write);
        if !is_confirmed || self.connections.config.wait.is_none() {
            return work(&mut RedisSession::new(&self.connections, until), &argument).await;
        }
        let mut session = RedisSession::confirmed(&self.connections, until).await?;
        let done = work(&mut session, &argument).await;
        session.settled(done).await
    }

    async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        while Instant::now() < until {
            let grown = self.connections.grown.notified();
            if feed::last(&self.connections).await?.as_ref() != Some(after) {
                break;
            }
            // After the pause the feed is checked in any case.
            let _ = tokio::time::timeout(LOOK, grown).await;
        }
        Ok(())
    }

    fn is_temporary(&self, error: &Error) -> bool {
        self.connections.is_temporary(error)
    }
}

impl RedisEngine {
    /// Returns the text of a key, after setting it to `proposed` unless it is set.
    async fn agreed(&self, name: &str, proposed: &str) -> Result<String> {
        let key = self.connections.keys.of(name);
        let kept = command("GET", &[&key]);
        // While the slot moves, an existing key can be read, but a missing one can't be written.
        if let Some(kept) = self.connections.read_one(&kept).await? {
            return Ok(kept);
        }
        let keep = command("SET", &[&key, proposed.as_bytes(), b"NX"]);
        self.connections.write(keep, Instant::now()).await?;
        self.connections.read_one(&kept).await
    }

    /// Returns the text of a key that an operator sets.
    async fn text(&self, name: &str) -> Result<Option<String>> {
        self.connections.read_one(&command("GET", &[&self.connections.keys.of(name)])).await
    }

    async fn set_text(&self, name: &str, text: &str) -> Result<()> {
        let keys = &self.connections.keys;
        let pieces = text.as_bytes().chunks(LONG - 1);
        let mut call = Call::new(Lua::SetText, keys).key(keys.of(name)).arg(pieces.len().to_string());
        for piece in pieces {
            call = call.arg(piece);
        }
        self.connections.write(call.into_pipeline(), Instant::now()).await.map(drop)
    }

    fn durability(&self, info: &InfoDict, settings: Option<&HashMap<String, String>>) -> Durability {
        let is =
            |name: &str, value: &str| settings.is_some_and(|all| all.get(name).is_some_and(|found| found == value));
        let policy = info.get::<String>("maxmemory_policy").unwrap_or_default();
        // The other policies evict only keys with a time to live. The only such key of a namespace is a copy of the
        // feed, which an erasure can make again.
        let can_evict = policy.starts_with("allkeys") && info.get("maxmemory") != Some(0_u64);
        let replicas = info.get::<u32>("connected_slaves").unwrap_or_default();
        let waited_for = self.connections.config.wait.map_or(0, |wait| wait.replicas.get());
        // A replica that is disconnected right now may still take over.
        let is_behind = self.connections.fails_over() && waited_for < replicas.max(1);
        let is_flushed = settings.is_none() || is("appendfsync", "always");
        let is_put_off = is("no-appendfsync-on-rewrite", "yes");
        // The first risk that applies is reported, with its bound.
        let risks = [
            (can_evict, "maxmemory-policy lets the server drop keys", None),
            (info.get("aof_enabled") == Some(0_u64), "appendonly is off", None),
            (is_behind, "a failover loses what its replica has not got yet: set wait_replicas to all of them", None),
            (is("appendfsync", "everysec"), "appendfsync is everysec", Some(Duration::from_secs(1))),
            (!is_flushed, "appendfsync leaves flushing to the system", None),
            (is_put_off, "no-appendfsync-on-rewrite leaves the log unflushed while it is rewritten", None),
        ];
        let unknown = |reason: &str| Durability::Unknown { reason: reason.to_owned() };
        match risks.into_iter().find(|(applies, ..)| *applies) {
            Some((_, reason, bound)) => Durability::AtRisk { reason: reason.to_owned(), bound },
            None if settings.is_none() => unknown("the server does not tell its configuration"),
            None if waited_for < replicas => {
                unknown("a replica may take over the address of the server: set wait_replicas to all of them")
            }
            None => Durability::Durable,
        }
    }
}
