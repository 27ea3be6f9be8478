//! The collections, their indexes and the words of the ledger: how they are made, migrated, looked at and removed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Inspection, Ledger, Result, TextIndex, Timestamp};
use migrations::{Applied, Report, Step, Target};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use mongodb::options::IndexOptions;

use crate::config::MongoConfig;
use crate::connection::{Connections, MongoSession, Rows};
use crate::error::{DUPLICATE_KEY, check, code, native};
use crate::row::{found, memory_id, memory_words, number};
use crate::statements::by_id;

/// The refusal of a server that is no member of a replica set, with the way out.
const STANDALONE: &str = "the server is standalone, so it has no transactions: restart it with `mongod --replSet rs0` and run \
                          `mongosh --eval 'rs.initiate()'` once, which make it a replica set of one node";
/// The `_id` of the lock.
const LOCK: &str = "lock";
/// When a lock whose owner is gone is free again, in milliseconds.
const LEASE: i64 = 10_000;
/// How long to wait before asking for the lock again.
const PAUSE: Duration = Duration::from_millis(20);
/// What `create` answers where the collection is there.
const EXISTS: i32 = 48;
/// The index on the words of the ledger; it is there when every row has its words.
const WORDS: &str = "words";
/// How many rows get their words by one command.
const SLICE: usize = 64;

/// Creates or migrates the collections, as `init` does, and tells which steps that took.
pub async fn migrate(config: &MongoConfig) -> Result<Report> {
    with_session(config, run).await
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing database stays missing.
pub async fn plan(config: &MongoConfig) -> Result<Report> {
    with_session(config, async |session| {
        migrations::plan(&mut MongoTarget::new(session), migrations::mongo(), &[]).await
    })
    .await
}

/// Removes the database with everything in it, for ever. Nothing happens when there is none.
pub async fn remove(config: &MongoConfig) -> Result<()> {
    with_session(config, async |session| session.on.database.drop().await.map_err(native)).await
}

/// Tells which collections and indexes are missing, how many bytes they take in their files (which follow within a minute), and
/// what time it is at the server; changes nothing.
pub async fn inspect(config: &MongoConfig) -> Result<Inspection> {
    with_session(config, look).await
}

/// Prepares the namespace for a provider.
pub(crate) async fn set_up(session: &MongoSession, text_index: TextIndex) -> Result<()> {
    let work = async || {
        run(session).await?;
        set_up_ledger_text(session, text_index).await
    };
    session.retry(work).await
}

/// The version of the schema that is in place.
pub(crate) async fn version(session: &MongoSession) -> Result<u32> {
    let applied = MongoTarget::new(session).applied().await?;
    Ok(applied.iter().map(|step| step.version).max().unwrap_or_default())
}

/// Runs work that can be repeated, over connections of its own.
async fn with_session<T>(config: &MongoConfig, work: impl AsyncFn(&MongoSession) -> Result<T>) -> Result<T> {
    let connections = Arc::new(Connections::new(config).await?);
    let session = connections.session();
    let result = session.retry(|| work(&session)).await;
    connections.close().await;
    result
}

async fn run(session: &MongoSession) -> Result<Report> {
    check_topology(session).await?;
    migrations::migrate(&mut MongoTarget::new(session), migrations::mongo(), &[]).await
}

/// Refuses a server that has no transactions.
async fn check_topology(session: &MongoSession) -> Result<()> {
    let answer = session.on.database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let is_router = answer.get_str("msg").is_ok_and(|message| message == "isdbgrid");
    if is_router || answer.contains_key("setName") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, STANDALONE))
}

/// MongoDB as a target of the migrations crate.
///
/// The commands of a step can be repeated, so a step whose end was never reached is simply taken again: an entry is written
/// when its step is complete. The lock is a lease, and a step that outlives it does no harm.
struct MongoTarget<'s> {
    session: &'s MongoSession,
    bookkeeping: &'s Rows,
}

impl<'s> MongoTarget<'s> {
    fn new(session: &'s MongoSession) -> Self {
        Self { session, bookkeeping: &session.on.primary.bookkeeping }
    }

    /// Whether the lock is ours now.
    async fn take_lock(&self) -> Result<bool> {
        let until = doc! { "$set": { "owner": &self.session.on.owner, "until": { "$add": ["$$NOW", LEASE] } } };
        let take = self
            .bookkeeping
            .update_one(doc! { "_id": LOCK, "owner": &self.session.on.owner }, vec![until])
            .upsert(true);
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
        while !self.take_lock().await? {
            tokio::time::sleep(PAUSE).await;
            self.session.check_deadline()?;
        }
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let mut steps = self.bookkeeping.find(doc! { "_id": { "$type": "long" } }).await.map_err(native)?;
        let mut applied = Vec::new();
        while steps.advance().await.map_err(native)? {
            let step = steps.current();
            let unreadable = |_| Error::new(ErrorKind::SchemaMismatch, "the list of applied steps can't be read");
            let text = |name| step.get_str(name).map(str::to_owned).map_err(unreadable);
            applied.push(Applied {
                version: step.get_i64("_id").ok().and_then(|id| id.try_into().ok()).unwrap_or(u32::MAX),
                name: text("name")?,
                checksum: text("checksum")?,
                complete: true,
            });
        }
        Ok(applied)
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        for mut command in commands(step)? {
            command.insert("writeConcern", doc! { "w": "majority" });
            match self.session.on.database.run_command(command).await.map_err(native) {
                Err(error) if code(&error) != Some(EXISTS) => return Err(error),
                _ => {}
            }
        }
        let id = doc! { "_id": i64::from(step.version) };
        let entry = doc! { "$setOnInsert": { "name": step.name, "checksum": step.checksum() } };
        self.bookkeeping.update_one(id, entry).upsert(true).await.map(drop).map_err(native)
    }

    async fn unlock(&mut self) -> Result<()> {
        let lock = doc! { "_id": LOCK, "owner": &self.session.on.owner };
        self.bookkeeping.delete_one(lock).await.map(drop).map_err(native)
    }
}

/// What a step has the server do.
fn commands(step: &Step) -> Result<Vec<Document>> {
    serde_json::from_str(step.text)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "the step is not JSON").with_source(error))
}

async fn look(session: &MongoSession) -> Result<Inspection> {
    let database = &session.on.database;
    let answer = database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let server_time = answer.get_datetime("localTime").ok().map(|time| Timestamp::from_millis(time.timestamp_millis()));
    let present = database.list_collection_names().await.map_err(native)?;
    let mut missing = Vec::new();
    let steps = migrations::mongo().iter().map(commands).collect::<Result<Vec<_>>>()?;
    for command in steps.concat() {
        let name = command.get_str("create").or_else(|_| command.get_str("createIndexes")).unwrap_or_default();
        if !present.iter().any(|present| present == name) {
            // Its indexes are missing with it.
            if command.contains_key("create") {
                missing.push(name.to_owned());
            }
            continue;
        }
        let Ok(indexes) = command.get_array("indexes") else { continue };
        let present = database.collection::<Document>(name).list_index_names().await.map_err(native)?;
        let names = indexes.iter().filter_map(|index| index.as_document()?.get_str("name").ok());
        let absent = names.filter(|index| !present.iter().any(|present| present == index));
        missing.extend(absent.map(|index| format!("{name}.{index}")));
    }
    let stats = database.run_command(doc! { "dbStats": 1 }).await.map_err(native)?;
    // A count comes in whichever type has room for it.
    let size = |size: &Bson| size.as_i64().or(size.as_i32().map(i64::from)).or(size.as_f64().map(|size| size as i64));
    let bytes = stats.get("totalSize").and_then(size).and_then(|size| size.try_into().ok());
    Ok(Inspection::new(missing, server_time.transpose()?, bytes))
}

/// Learns whether the words of the ledger are indexed, and indexes those of the whole ledger if that is wanted and nobody
/// did it before.
async fn set_up_ledger_text(session: &MongoSession, text_index: TextIndex) -> Result<()> {
    let (memories, is_begun) = (&session.on.primary.memories, is_begun(session).await?);
    let is_wanted = text_index == TextIndex::All;
    if is_wanted && !is_begun {
        begin(session).await?;
    }
    if is_wanted || is_begun {
        session.on.learn_of_ledger_text();
    }
    if !is_wanted || memories.list_index_names().await.map_err(native)?.iter().any(|name| name == WORDS) {
        return Ok(());
    }
    while index_old_rows(session).await? {}
    let options = IndexOptions::builder().name(WORDS.to_owned()).build();
    let index = IndexModel::builder().keys(doc! { "words": 1 }).options(options).build();
    memories.create_index(index).await.map(drop).map_err(native)
}

/// Whether the server refuses rows without words.
async fn is_begun(session: &MongoSession) -> Result<bool> {
    let list = session.on.database.list_collections().filter(doc! { "name": session.on.primary.memories.name() });
    let mut collections = list.await.map_err(native)?;
    let is_there = collections.advance().await.map_err(native)?;
    let options = is_there.then(|| collections.current().get_document("options").ok()).flatten();
    Ok(options.is_some_and(|options| matches!(options.get("validator"), Ok(Some(_)))))
}

/// Makes the server refuse rows without words, so that those who don't know of the index learn of it. Waits for the stores
/// that are on their way.
async fn begin(session: &MongoSession) -> Result<()> {
    let command = doc! {
        "collMod": session.on.primary.memories.name(),
        "validator": { "words": { "$exists": true } },
        // Rows that have none yet can still be updated.
        "validationLevel": "moderate",
        "writeConcern": { "w": "majority" },
    };
    session.on.database.run_command(command).await.map(drop).map_err(native)
}

/// Gives words to the rows without, and tells whether there were any.
async fn index_old_rows(session: &MongoSession) -> Result<bool> {
    let memories = &session.on.primary.memories;
    let mut rows = memories.find(doc! { "words": { "$exists": false } }).await.map_err(native)?;
    let mut found = false;
    loop {
        let mut updates = Vec::with_capacity(SLICE);
        while updates.len() < SLICE && rows.advance().await.map_err(native)? {
            updates.push(words_of(rows.current())?);
        }
        if updates.is_empty() {
            return Ok(found);
        }
        found = true;
        let command = doc! {
            "update": memories.name(),
            "updates": updates,
            "ordered": false,
            "writeConcern": { "w": "majority", "j": true },
        };
        check(&session.on.database.run_command(command).await.map_err(native)?)?;
    }
}

/// The update that gives a row its words. A row that can't be read has none.
fn words_of(row: &RawDocument) -> Result<Document> {
    let words = found::<Ledger>(row).map(|found| memory_words(&found.record)).unwrap_or_default();
    let mut unchanged = by_id(memory_id(row, "_id")?);
    unchanged.insert("words", doc! { "$exists": false });
    if let Ok(revision) = number(row, "revision") {
        unchanged.insert("revision", revision);
    }
    Ok(doc! { "q": unchanged, "u": { "$set": { "words": words } } })
}
