//! The collections, their indexes and the words of the ledger: how they are made, migrated, looked at and removed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use memory_core::engine::SHORT_BACKFILL;
use memory_core::{Backfill, Error, ErrorKind, Inspection, Ledger, Result, Revision, SpaceId, TextIndex, Timestamp};
use migrations::{Applied, PATHS, Report, Step, Target, WORDS, wanted};
use mongodb::Database;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::ReturnDocument;

use crate::config::MongoConfig;
use crate::connection::{Collections, Connections, MongoSession, PAUSE, Rows};
use crate::error::{DUPLICATE_KEY, check, code, native, native_write};
use crate::read::all;
use crate::row::{any_number, bson, document_paths, found, number, text, written};

/// The refusal of a server that is no member of a replica set, with the way out.
const STANDALONE: &str = "the server is standalone, so it has no transactions: restart it with `mongod --replSet rs0` and run \
                          `mongosh --eval 'rs.initiate()'` once, which make it a replica set of one node";
/// The `_id` of the lock.
const LOCK: &str = "lock";
/// The `_id` of what seals the cursors, and its field.
const SECRET: &str = "secret";
/// When a lock whose owner is gone is free again, in milliseconds.
const LEASE: i64 = 2_000;
/// What `create` answers where the collection is there.
const EXISTS: i32 = 48;
/// How many rows a slice of the backfill goes over.
const SLICE_ROWS: i64 = 500;
/// About how many bytes it reads, and writes as words: one command has at most 16 MiB.
const SLICE_BYTES: usize = 8 << 20;
/// How large a row may become, in bytes: the server takes 16 MiB, of which the other fields of the backfill need some.
const ROW: usize = (16 << 20) - 64;
/// How long a slice waits for the index when all rows have words; the next one goes on waiting.
const WAIT: Duration = Duration::from_millis(200);
/// So many records left are more than a call goes over that needs them.
const MANY: u64 = SHORT_BACKFILL + 1;

/// Creates or migrates the collections, as `init` does, and tells which steps that took.
pub async fn migrate(config: &MongoConfig) -> Result<Report> {
    with_session(config, set_up).await
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing database stays missing.
pub async fn plan(config: &MongoConfig) -> Result<Report> {
    let plan = async |session: &MongoSession, text_index| {
        migrations::plan(&mut MongoTarget(session), migrations::mongo(), wanted(text_index)).await
    };
    with_session(config, plan).await
}

/// Removes the database with everything in it, for ever. Nothing happens when there is none.
pub async fn remove(config: &MongoConfig) -> Result<()> {
    with_session(config, async |session, _| session.on.database.drop().await.map_err(native_write)).await
}

/// Tells which collections and indexes are missing, how many bytes they take in their files (which follow within a minute), and
/// what time it is at the server; changes nothing.
pub async fn inspect(config: &MongoConfig) -> Result<Inspection> {
    with_session(config, look).await
}

/// Creates or migrates the collections. Can be repeated.
pub(crate) async fn set_up(session: &MongoSession, text_index: TextIndex) -> Result<Report> {
    let answer = session.on.database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let is_router = answer.get_str("msg").is_ok_and(|message| message == "isdbgrid");
    if !is_router && !answer.contains_key("setName") {
        return Err(Error::new(ErrorKind::Unsupported, STANDALONE));
    }
    let mut target = MongoTarget(session);
    let report = migrations::migrate(&mut target, migrations::mongo(), wanted(text_index)).await?;
    // A program that was held up while it added a rule may have taken away others that it did not know: once both have recorded their
    // steps, one of them finds that out.
    let applied = target.applied().await?;
    for step in migrations::mongo().iter().filter(|step| applied.iter().any(|applied| applied.name == step.name)) {
        for command in commands(step)? {
            if !holds(&session.on.database, &command).await? {
                execute(session, &command).await?;
            }
        }
    }
    Ok(report)
}

/// What a backfill gives to rows that lack it. The step, the field and the index have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// The words of the ledger.
    Words,
    /// The places of documents.
    Paths,
}

impl Filled {
    fn by(step: &Step) -> Option<Self> {
        [Self::Words, Self::Paths].into_iter().find(|filled| filled.name() == step.name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Words => WORDS,
            Self::Paths => PATHS,
        }
    }

    fn rows(self, of: &Collections) -> &Rows {
        match self {
            Self::Words => &of.memories,
            Self::Paths => &of.documents,
        }
    }

    /// What a row gets. One that can't be read gets nothing that finds it.
    fn of(self, row: &RawDocument) -> Vec<Bson> {
        match self {
            Self::Words => {
                let words = found::<Ledger>(row).map(|found| found.record.words()).unwrap_or_default();
                words.into_iter().map(Bson::from).collect()
            }
            Self::Paths => {
                let space = text(row, "spaceId").and_then(SpaceId::parse);
                let paths = space.map(|space| document_paths(&space)).unwrap_or_default();
                paths.into_iter().map(Bson::from).collect()
            }
        }
    }
}

/// How far the backfills are that are not complete: that of the ledger's words, if they are wanted, and then that of the documents' places.
pub(crate) async fn pending(session: MongoSession) -> Result<Vec<Backfill>> {
    let mut pending = Vec::new();
    for (filled, entry) in incomplete(&session).await? {
        let (on, done) = (&session.on, u64::try_from(number(&entry, "done")?).unwrap_or_default());
        let behind = doc! { "_id": { "$gt": bson(&entry, "mark")? } };
        let left = filled.rows(&on.latest).count_documents(behind).limit(MANY).max_time(session.left()?);
        let mut total = done + left.await.map_err(native)?;
        // The index of many rows takes its time, also when all of them have what it is of.
        if total >= done + MANY || total >= MANY && on.indexing.try_lock().is_err() {
            let estimate = filled.rows(&on.primary).estimated_document_count().await.map_err(native)?;
            total = estimate.max(done + MANY);
        }
        pending.push(match filled {
            Filled::Words => Backfill::of_words(done, total),
            Filled::Paths => Backfill::of_places(done, total),
        });
    }
    Ok(pending)
}

/// Takes its next slice: fills some more rows, in the order of their ids. New rows need none, since the server takes none without.
pub(crate) async fn backfill(session: MongoSession) -> Result<()> {
    let Some((filled, entry)) = incomplete(&session).await?.into_iter().next() else { return Ok(()) };
    let (bookkeeping, mark) = (&session.on.primary.bookkeeping, bson(&entry, "mark")?);
    let Some((count, reached)) = fill_rows(&session, filled, &mark).await? else {
        if !index(&session, filled, WAIT).await? {
            return Ok(());
        }
        let complete = bookkeeping.update_one(doc! { "_id": filled.name() }, doc! { "$set": { "complete": true } });
        return complete.await.map(drop).map_err(native);
    };
    if mark == Bson::MinKey {
        // While few rows are filled. The server goes on with it by itself, and the last slices wait for its end.
        index(&session, filled, Duration::ZERO).await?;
    }
    // Of two programs that take the same slice, one counts it.
    let next = doc! { "$set": { "mark": reached }, "$inc": { "done": count } };
    bookkeeping.update_one(doc! { "_id": filled.name(), "mark": mark }, next).await.map(drop).map_err(native)
}

/// What seals the cursors: what was kept first.
pub(crate) async fn secret(session: &MongoSession, proposed: &str) -> Result<String> {
    let bookkeeping = &session.on.primary.bookkeeping;
    let mut kept = bookkeeping.find_one(doc! { "_id": SECRET }).await.map_err(native)?;
    if kept.is_none() {
        let keep =
            bookkeeping.find_one_and_update(doc! { "_id": SECRET }, doc! { "$setOnInsert": { SECRET: proposed } });
        kept = keep.upsert(true).return_document(ReturnDocument::After).await.map_err(native)?;
    }
    let kept = kept.as_ref().and_then(|kept| kept.get_str(SECRET).ok());
    kept.map(str::to_owned).ok_or_else(|| Error::corrupt("the key that seals cursors can't be read"))
}

/// The version of the schema that is in place.
pub(crate) async fn version(session: &MongoSession) -> Result<u32> {
    let applied = MongoTarget(session).applied().await?;
    Ok(applied.iter().map(|step| step.version).max().unwrap_or_default())
}

/// Runs work that can be repeated, over connections of its own.
async fn with_session<T>(config: &MongoConfig, work: impl AsyncFn(&MongoSession, TextIndex) -> Result<T>) -> Result<T> {
    let connections = Arc::new(Connections::new(config).await?);
    let session = connections.session();
    let result = session.retry(|| work(&session, config.text_index)).await;
    connections.close().await;
    result
}

/// MongoDB as a target of the migrations crate.
///
/// The commands of a step can be repeated, so a step whose end was never reached is simply taken again: an entry is written
/// when its step is complete. The lock is a lease, and a step that outlives it does no harm.
struct MongoTarget<'s>(&'s MongoSession);

impl MongoTarget<'_> {
    fn bookkeeping(&self) -> &Rows {
        &self.0.on.primary.bookkeeping
    }

    /// The lock while it is ours.
    fn own_lock(&self) -> Document {
        doc! { "_id": LOCK, "owner": &self.0.on.owner }
    }
}

#[async_trait]
impl Target for MongoTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        let until = doc! { "$set": { "until": { "$add": ["$$NOW", LEASE] } } };
        loop {
            let take = self.bookkeeping().update_one(self.own_lock(), vec![until.clone()]).upsert(true);
            match take.await.map_err(native) {
                Ok(_) => return Ok(()),
                Err(error) if code(&error) != Some(DUPLICATE_KEY) => return Err(error),
                Err(_) => self.0.pause(PAUSE).await?,
            }
            // Somebody else has it, and may be gone.
            let is_over = doc! { "_id": LOCK, "$expr": { "$lt": ["$until", "$$NOW"] } };
            self.bookkeeping().delete_one(is_over).await.map_err(native)?;
        }
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let applied = |step: &RawDocument| {
            let unreadable = |_| Error::new(ErrorKind::SchemaMismatch, "the list of applied steps can't be read");
            let text = |name| step.get_str(name).map(str::to_owned).map_err(unreadable);
            // The entries of version 1 have nothing else.
            let version = step.get_i64("version").or_else(|_| step.get_i64("_id"));
            Ok(Applied {
                version: version.ok().and_then(|version| version.try_into().ok()).unwrap_or(u32::MAX),
                name: text("name")?,
                checksum: text("checksum")?,
                complete: step.get_bool("complete").unwrap_or(true),
            })
        };
        all(self.0, self.bookkeeping().find(doc! { "checksum": { "$exists": true } }), applied).await
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        let (on, version, filled) = (&self.0.on, i64::from(step.version), Filled::by(step));
        // A program of version 1 has made the index when all rows had their words.
        let mut is_complete = match filled {
            Some(filled) => {
                let indexes = filled.rows(&on.primary).list_index_names().await.map_err(native)?;
                indexes.iter().any(|index| index == step.name)
            }
            None => true,
        };
        for command in commands(step)? {
            if let Some(filled) = filled.filter(|_| !is_complete && command.contains_key("createIndexes")) {
                // The backfill makes what goes over many rows. Where there are none, no row lacks anything behind the rule.
                is_complete = filled.rows(&on.latest).find_one(doc! {}).await.map_err(native)?.is_none();
                if !is_complete {
                    continue;
                }
            }
            execute(self.0, &command).await?;
        }
        let mut entry = doc! { "version": version, "name": step.name, "checksum": step.checksum() };
        if !is_complete {
            entry.extend(doc! { "complete": false, "mark": Bson::MinKey, "done": 0_i64 });
        }
        // By a long a program of version 1 learns that the database is newer: the first step of each version has one.
        let first = migrations::mongo().iter().find(|first| first.version == step.version);
        let id = if first == Some(step) { Bson::from(version) } else { step.name.into() };
        let insert = self.bookkeeping().update_one(doc! { "_id": id }, doc! { "$setOnInsert": entry }).upsert(true);
        insert.await.map(drop).map_err(native)
    }

    async fn unlock(&mut self) -> Result<()> {
        self.bookkeeping().delete_one(self.own_lock()).await.map(drop).map_err(native)
    }
}

fn commands(step: &Step) -> Result<Vec<Document>> {
    serde_json::from_str(step.text)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "the step is not JSON").with_source(error))
}

/// Has the server do one command of a step, until its rule is in place if it has one.
async fn execute(session: &MongoSession, command: &Document) -> Result<()> {
    let (database, mut whole) = (&session.on.database, command.clone());
    whole.insert("writeConcern", doc! { "w": "majority" });
    loop {
        if let Ok(rule) = command.get_document("validator").cloned().map(Bson::from) {
            let mut rules = rules(database, command).await?;
            if !rules.contains(&rule) {
                rules.push(rule);
            }
            whole.insert("validator", doc! { "$and": rules });
        }
        match database.run_command(whole.clone()).await.map_err(native) {
            Err(error) if code(&error) != Some(EXISTS) => return Err(error),
            _ if holds(database, command).await? => return Ok(()),
            // Another program that added a rule at the same time has taken this one away.
            _ => session.pause(PAUSE).await?,
        }
    }
}

/// Whether the rule that a command adds is in place.
async fn holds(database: &Database, command: &Document) -> Result<bool> {
    let Ok(rule) = command.get_document("validator") else { return Ok(true) };
    Ok(rules(database, command).await?.contains(&rule.clone().into()))
}

/// The rules of the collection that a command changes, which together are its validator.
async fn rules(database: &Database, command: &Document) -> Result<Vec<Bson>> {
    let collection = command.get_str("collMod").unwrap_or_default();
    let mut found = database.list_collections().filter(doc! { "name": collection }).await.map_err(native)?;
    let found = found.try_next().await.map_err(native)?;
    let validator = found.and_then(|collection| collection.options.validator).unwrap_or_default();
    Ok(match validator.get_array("$and") {
        Ok(rules) if validator.len() == 1 => rules.clone(),
        _ if validator.is_empty() => Vec::new(),
        _ => vec![validator.into()],
    })
}

async fn look(session: &MongoSession, text_index: TextIndex) -> Result<Inspection> {
    let database = &session.on.database;
    let answer = database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let server_time = answer.get_datetime("localTime").ok().map(|time| Timestamp::from_millis(time.timestamp_millis()));
    let present = database.list_collection_names().await.map_err(native)?;
    let mut missing = Vec::new();
    let steps = migrations::mongo().iter().filter(|step| step.is_taken(wanted(text_index))).map(commands);
    for command in steps.collect::<Result<Vec<_>>>()?.concat() {
        let Some((kind, Bson::String(name))) = command.iter().next() else { continue };
        match (kind.as_str(), present.contains(name)) {
            ("create", false) => missing.push(name.clone()),
            ("collMod", true) if !holds(database, &command).await? => {
                let validator = format!("{name}.validator");
                // Several steps add rules to one.
                if !missing.contains(&validator) {
                    missing.push(validator);
                }
            }
            // What a collection that is missing would have is missing with it.
            ("createIndexes", true) => {
                let present = database.collection::<Document>(name).list_index_names().await.map_err(native)?;
                let indexes = command.get_array("indexes").into_iter().flatten().filter_map(Bson::as_document);
                let names = indexes.filter_map(|index| index.get_str("name").ok());
                let absent = names.filter(|index| !present.iter().any(|present| present == index));
                missing.extend(absent.map(|index| format!("{name}.{index}")));
            }
            _ => {}
        }
    }
    let stats = database.run_command(doc! { "dbStats": 1 }).await.map_err(native)?;
    let bytes = stats.get("totalSize").and_then(any_number).and_then(|bytes| bytes.try_into().ok());
    Ok(Inspection::new(missing, server_time.transpose()?, bytes))
}

/// The backfills that have to go on, with their entries, in the order in which they are done.
async fn incomplete(session: &MongoSession) -> Result<Vec<(Filled, RawDocumentBuf)>> {
    let mut incomplete = Vec::new();
    let words = session.on.has_ledger_text().then_some(Filled::Words);
    for filled in words.into_iter().chain([Filled::Paths]) {
        let entry = session.on.latest.bookkeeping.find_one(doc! { "_id": filled.name(), "complete": false });
        let entry = entry.max_time(session.left()?).await.map_err(native)?;
        incomplete.extend(entry.map(|entry| (filled, entry)));
    }
    Ok(incomplete)
}

/// Makes the index on what a backfill fills in, or waits for whoever does. Tells whether it is there after this time, and goes on with it.
async fn index(session: &MongoSession, filled: Filled, wait: Duration) -> Result<bool> {
    let on = &session.on;
    let steps = migrations::mongo().iter().filter(|step| Filled::by(step) == Some(filled)).map(commands);
    let commands = steps.collect::<Result<Vec<_>>>()?.concat();
    let index = async {
        let (lock, session) = (Arc::clone(&on.indexing).lock_owned().await, on.session());
        let build = async move {
            for command in commands.iter().filter(|command| command.contains_key("createIndexes")) {
                execute(&session, command).await?;
            }
            drop(lock);
            Ok(true)
        };
        on.run(build).await
    };
    tokio::time::timeout(wait, index).await.unwrap_or(Ok(false))
}

/// Fills the next rows. Tells how many rows it went over, and the last of them; `None` where there are no more.
async fn fill_rows(session: &MongoSession, filled: Filled, mark: &Bson) -> Result<Option<(i64, Bson)>> {
    // What a majority has: what is lost with a primary is not passed over.
    let find = filled.rows(&session.on.latest).find(doc! { "_id": { "$gt": mark } }).sort(doc! { "_id": 1 });
    let find = find.limit(SLICE_ROWS).batch_size(SLICE_ROWS as u32).max_time(session.left()?);
    let mut rows = find.await.map_err(native)?;
    let (mut updates, mut size, mut count, mut reached) = (Vec::new(), 0, 0, None);
    while count < SLICE_ROWS {
        if !rows.advance().await.map_err(native)? {
            reached = None;
            break;
        }
        let row = rows.current();
        size += row.as_bytes().len();
        let mut update = None;
        // By a row whose revision can't be read the server can't tell who has written it.
        if matches!(row.get(filled.name()), Ok(None))
            && let Ok(revision) = number(row, "revision").and_then(|number| Revision::new(number as u64))
        {
            let mut values = filled.of(row);
            if row.as_bytes().len() + size_of(&values) > ROW {
                // One that has no room for its words is not found by any.
                values.clear();
            }
            size += size_of(&values);
            let set = doc! { "$set": { filled.name(): values, "written": written(revision) } };
            update = Some(doc! { "q": { "_id": bson(row, "_id")?, filled.name(): { "$exists": false } }, "u": set });
        }
        if size > SLICE_BYTES && count > 0 {
            break;
        }
        updates.extend(update);
        (count, reached) = (count + 1, Some(bson(row, "_id")?));
    }
    if !updates.is_empty() {
        let command = doc! {
            "update": filled.rows(&session.on.primary).name(),
            "updates": updates,
            "ordered": false,
            "writeConcern": { "w": "majority", "j": true },
            "maxTimeMS": session.left()?.as_millis() as i64,
        };
        check(&session.on.database.run_command(command).await.map_err(native)?)?;
    }
    Ok(reached.map(|reached| (count, reached)))
}

/// How many bytes values take in a row, numbers or texts. Each comes with its place, in digits, and seven bytes more.
fn size_of(values: &[Bson]) -> usize {
    let size = |value: &Bson| value.as_str().map_or(8, str::len);
    values.iter().enumerate().map(|(at, value)| size(value) + at.max(1).ilog10() as usize + 8).sum()
}
