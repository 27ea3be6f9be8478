//! MongoDB as a target of the migrations crate.

use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, MemoryId, Result};
use migrations::{Applied, Migration, Report, Target};
use mongodb::bson::{Document, doc};
use mongodb::options::{ReadConcern, SelectionCriteria};
use mongodb::{Collection, options::CollectionOptions};

use crate::config::MongoConfig;
use crate::connection::{Call, Connections};
use crate::error::{DUPLICATE_KEY, code, native};

/// The collection that keeps what was applied, and the lock.
const BOOKKEEPING: &str = "schema_migrations";
/// The `_id` of the lock.
const LOCK: &str = "lock";
/// When a lock whose owner is gone is free again, in milliseconds.
const LEASE: i64 = 10_000;
/// How long to wait before asking for the lock again.
const PAUSE: Duration = Duration::from_millis(20);
/// What `create` answers where the collection is there.
const EXISTS: i32 = 48;

/// Creates or migrates the collections, as `init` does, and tells which steps that took.
pub async fn migrate(config: &MongoConfig) -> Result<Report> {
    with_connections(config, async |call| {
        call.check_topology().await?;
        run(&call).await
    })
    .await
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing database stays missing.
pub async fn plan(config: &MongoConfig) -> Result<Report> {
    with_connections(config, async |call| migrations::plan(&mut MongoTarget::new(&call), migrations::mongo()).await)
        .await
}

/// Removes the database with everything in it, for ever. Nothing happens when there is none.
pub async fn remove(config: &MongoConfig) -> Result<()> {
    with_connections(config, async |call| call.on.database.drop().await.map_err(native)).await
}

/// Migrates over the connections of a provider.
pub(crate) async fn run(call: &Call) -> Result<Report> {
    migrations::migrate(&mut MongoTarget::new(call), migrations::mongo()).await
}

/// The version of the schema that is in place.
pub(crate) async fn version(call: &Call) -> Result<u32> {
    let applied = MongoTarget::new(call).applied().await?;
    Ok(applied.iter().map(|step| step.version).max().unwrap_or_default())
}

pub(crate) async fn with_connections<T>(config: &MongoConfig, work: impl AsyncFnOnce(Call) -> Result<T>) -> Result<T> {
    let connections = std::sync::Arc::new(Connections::new(config).await?);
    let result = work(connections.call()).await;
    connections.close().await;
    result
}

/// The commands of a step can be repeated, so a step whose end was never reached is simply taken again: an entry is written
/// when its step is complete. The lock is a lease, and a step that outlives it does no harm.
struct MongoTarget<'c> {
    call: &'c Call,
    bookkeeping: Collection<Document>,
    owner: String,
}

impl<'c> MongoTarget<'c> {
    fn new(call: &'c Call) -> Self {
        let primary = SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary);
        let options = CollectionOptions::builder().read_concern(ReadConcern::local()).selection_criteria(primary);
        let bookkeeping = call.on.database.collection_with_options(BOOKKEEPING, options.build());
        Self { call, bookkeeping, owner: MemoryId::generate().to_string() }
    }

    /// Whether the lock is ours now.
    async fn take_lock(&self) -> Result<bool> {
        let until = doc! { "$set": { "owner": &self.owner, "until": { "$add": ["$$NOW", LEASE] } } };
        let take = self.bookkeeping.update_one(doc! { "_id": LOCK, "owner": &self.owner }, vec![until]).upsert(true);
        match take.await.map_err(native) {
            Ok(_) => Ok(true),
            // Somebody else has it, and may be gone.
            Err(error) if code(&error) == Some(DUPLICATE_KEY) => {
                let is_over = doc! { "_id": LOCK, "$expr": { "$lt": ["$until", "$$NOW"] } };
                self.bookkeeping.delete_one(is_over).await.map_err(native).map(|_| false)
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Target for MongoTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        while !self.call.retry_repeatable(|| self.take_lock()).await? {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let read = async || {
            let mut steps = self.bookkeeping.find(doc! { "_id": { "$type": "long" } }).await.map_err(native)?;
            let mut applied = Vec::new();
            while steps.advance().await.map_err(native)? {
                let step = steps.current();
                let text = |name| step.get_str(name).map(str::to_owned).map_err(|_| unreadable());
                applied.push(Applied {
                    version: step.get_i64("_id").ok().and_then(|id| id.try_into().ok()).unwrap_or(u32::MAX),
                    name: text("name")?,
                    checksum: text("checksum")?,
                    complete: true,
                });
            }
            Ok(applied)
        };
        self.call.retry(read).await
    }

    async fn apply(&mut self, migration: &Migration) -> Result<()> {
        for mut command in commands(migration)? {
            command.insert("writeConcern", doc! { "w": "majority" });
            let run = async || match self.call.on.database.run_command(command.clone()).await.map_err(native) {
                Err(error) if code(&error) != Some(EXISTS) => Err(error),
                _ => Ok(()),
            };
            self.call.retry_repeatable(run).await?;
        }
        let entry = doc! { "name": migration.name, "checksum": migration.checksum() };
        let keep = async || {
            let id = doc! { "_id": i64::from(migration.version) };
            self.bookkeeping.update_one(id, doc! { "$setOnInsert": &entry }).upsert(true).await.map_err(native)
        };
        self.call.retry_repeatable(keep).await.map(drop)
    }

    async fn unlock(&mut self) -> Result<()> {
        let release = async || {
            let lock = doc! { "_id": LOCK, "owner": &self.owner };
            self.bookkeeping.delete_one(lock).await.map_err(native)
        };
        self.call.retry_repeatable(release).await.map(drop)
    }
}

/// What a step has the server do.
pub(crate) fn commands(migration: &Migration) -> Result<Vec<Document>> {
    serde_json::from_str(migration.text)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "the step is not JSON").with_source(error))
}

fn unreadable() -> Error {
    Error::new(ErrorKind::SchemaMismatch, "the list of applied steps can't be read")
}
