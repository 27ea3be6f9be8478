//! The collections and their indexes: how they are created, migrated, inspected and removed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use memory_core::engine::{SHORT_BACKFILL, corrupt};
use memory_core::{Backfill, Blocks, Error, ErrorKind, HeldBack, Inspection, Result, Revision, SpaceId, Timestamp};
use migrations::{Applied, EXPIRY, Kind, NO_WORDS, PATHS, Report, Step, Target};
use mongodb::Database;
use mongodb::bson::{Bson, Document, RawDocument, doc};

use crate::config::MongoConfig;
use crate::connection::{Collections, Connections, MongoSession, PAUSE, Rows};
use crate::error::{DUPLICATE_KEY, check, code, native, native_write};
use crate::find::all;
use crate::row::{any_number, bson, document_paths, number, text, written};

/// The error for a server that is no member of a replica set, with the way out.
const STANDALONE: &str = "the server is standalone, so it has no transactions: restart it with `mongod --replSet rs0` and run \
                          `mongosh --eval 'rs.initiate()'` once, which make it a replica set of one node";
/// The `_id` of the lock.
const LOCK: &str = "lock";
/// The `_id` and the field of the key that seals cursors.
const SECRET: &str = "secret";
/// The `_id` and the field of the key that hashes tombstones.
const HASH_KEY: &str = "hashKey";
/// The `_id` and the field of the time at which the history begins.
const HISTORY_SINCE: &str = "historySince";
/// After how many milliseconds a lock whose owner is gone is free again.
const LEASE: i64 = 2_000;
/// The error code of `create` if the collection exists.
const EXISTS: i32 = 48;
/// The error code of `dropIndexes` if the index doesn't exist.
const NO_INDEX: i32 = 27;
/// The error code of `collMod` while an index of the collection is being built.
const BEING_BUILT: i32 = 12587;
/// How many rows a slice of a backfill covers at most.
const SLICE_ROWS: i64 = 500;
/// About how many bytes they have at most, unless it is a single row.
const SLICE_BYTES: usize = 8 << 20;
/// How long a slice waits for the index once all documents have paths; the next slice continues to wait.
const WAIT: Duration = Duration::from_millis(200);
/// The fraction of its remaining time that `init` waits for the indexes of expiry, as a divisor.
const PATIENCE: u32 = 3;
/// With at least this many records left, calls that need them don't finish the backfill themselves.
const MANY: u64 = SHORT_BACKFILL + 1;

/// Creates or migrates the collections, as `init` does, and returns the steps that this took.
pub async fn migrate(config: &MongoConfig) -> Result<Report> {
    with_session(config, set_up).await
}

/// Returns the steps that [`migrate`] would take. Changes nothing; a missing database stays missing.
pub async fn plan(config: &MongoConfig) -> Result<Report> {
    with_session(config, async |session| migrations::plan(&mut MongoTarget(session), migrations::mongo()).await).await
}

/// Removes the database and everything in it, permanently. Does nothing if it doesn't exist.
pub async fn remove(config: &MongoConfig) -> Result<()> {
    with_session(config, async |session| session.on.database.drop().await.map_err(native_write)).await
}

/// Returns the missing collections, indexes and validators, how many bytes the files take (updated within a minute),
/// the server's time, and what holds back the feed. Changes nothing.
pub async fn inspect(config: &MongoConfig) -> Result<Inspection> {
    with_session(config, look).await
}

/// Creates or migrates the collections. Can be repeated.
pub(crate) async fn set_up(session: &MongoSession) -> Result<Report> {
    let answer = session.on.database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let is_router = answer.get_str("msg").is_ok_and(|message| message == "isdbgrid");
    if !is_router && !answer.contains_key("setName") {
        return Err(Error::new(ErrorKind::Unsupported, STANDALONE));
    }
    let report = migrations::migrate(&mut MongoTarget(session), migrations::mongo()).await?;
    mend(session).await?;
    Ok(report)
}

/// Restores what another program has undone: a program that was held up while it added a rule may have removed rules
/// that it did not know, or restored a retired one. Called after a program's own steps, and again when the server
/// refuses a write. Returns whether anything was restored; a program older than the ledger restores nothing.
pub(crate) async fn mend(session: &MongoSession) -> Result<bool> {
    let applied = MongoTarget(session).applied().await?;
    let newest = migrations::mongo().iter().map(|step| step.version).max();
    let mut has_mended = false;
    if applied.iter().map(|step| step.version).max() > newest {
        return Ok(has_mended);
    }
    for step in taken().filter(|step| applied.iter().any(|applied| applied.name == step.name)) {
        for command in commands(step)? {
            if !holds(&session.on.database, &command).await? {
                alone(session, async || execute(session, &command).await).await?;
                has_mended = true;
            }
        }
    }
    Ok(has_mended)
}

/// Changes rules while no other program does: each program writes the rules that it has read and one more.
async fn alone(session: &MongoSession, change: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let mut target = MongoTarget(session);
    target.lock().await?;
    let changed = change().await;
    let unlocked = target.unlock().await;
    changed.and(unlocked)
}

/// The steps that apply to every ledger.
fn taken() -> impl Iterator<Item = &'static Step> {
    migrations::mongo().iter().filter(|step| step.is_taken())
}

/// What a backfill does to some collections. Its step has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// Adds paths to the documents that have none.
    Paths,
    /// Removes the words that older programs have left.
    NoWords,
    /// Waits for the indexes of expiry. To build them the server reads all rows, while programs run, and finds few that
    /// expire: that takes longer than `init` may, but needs no slices.
    Expiry,
}

impl Sweep {
    fn by(name: &str) -> Option<Self> {
        [Self::Paths, Self::NoWords, Self::Expiry].into_iter().find(|sweep| sweep.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Paths => PATHS,
            Self::NoWords => NO_WORDS,
            Self::Expiry => EXPIRY,
        }
    }

    /// The collections in the order in which the sweep goes over them.
    fn collections(self, of: &Collections) -> Vec<&Rows> {
        match self {
            Self::Paths => vec![&of.documents],
            Self::NoWords | Self::Expiry => vec![&of.memories, &of.documents],
        }
    }

    /// The update for a row that needs one. Another program that changed the row since it was read has made the same
    /// change.
    fn update(self, row: &RawDocument) -> Result<Option<Document>> {
        let (field, has_it) = match self {
            Self::Paths => (PATHS, false),
            Self::NoWords => ("words", true),
            Self::Expiry => return Ok(None),
        };
        // If the revision can't be read, the server can't tell which version wrote the row.
        let revision = number(row, "revision").and_then(|number| Revision::new(number as u64));
        let Ok(revision) = revision else { return Ok(None) };
        if matches!(row.get(field), Ok(None)) == has_it {
            return Ok(None);
        }
        let mut set = doc! { "written": written(revision) };
        let mut unset = Document::new();
        match self {
            Self::Paths => {
                // A document whose space can't be read gets no paths.
                let space = text(row, "spaceId").and_then(SpaceId::parse);
                set.insert(field, space.map(|space| document_paths(&space)).unwrap_or_default());
            }
            Self::NoWords | Self::Expiry => drop(unset.insert(field, "")),
        }
        let found = doc! { "_id": bson(row, "_id")?, field: { "$exists": has_it } };
        Ok(Some(doc! { "q": found, "u": { "$set": set, "$unset": unset } }))
    }

    /// Whether a step that has just begun is already complete: without rows, none needs an update under the step's
    /// rule, and building an index takes no time.
    async fn is_over(self, session: &MongoSession) -> Result<bool> {
        if self == Self::Paths {
            // The index was created while there were no documents.
            let indexes = session.on.primary.documents.list_index_names().await.map_err(native)?;
            if indexes.iter().any(|index| index == PATHS) {
                return Ok(true);
            }
        }
        for rows in self.collections(&session.on.latest) {
            if rows.find_one(doc! {}).await.map_err(native)?.is_some() {
                return match self {
                    // In a small ledger they are built at once.
                    Self::Expiry => index(session, self, session.left()? / PATIENCE).await,
                    _ => Ok(false),
                };
            }
        }
        Ok(true)
    }
}

/// The progress of an incomplete backfill, as the bookkeeping has it.
#[derive(Debug)]
struct Standing {
    sweep: Sweep,
    /// The current collection; `None` for the first one.
    within: Option<String>,
    /// The `_id` after which it continues.
    mark: Bson,
    done: u64,
}

impl Standing {
    /// `None` if the step is retired.
    fn read(entry: &RawDocument) -> Result<Option<Self>> {
        let Some(sweep) = Sweep::by(text(entry, "name")?) else { return Ok(None) };
        let within = entry.get_str("in").ok().map(str::to_owned);
        let done = u64::try_from(number(entry, "done")?).unwrap_or_default();
        Ok(Some(Self { sweep, within, mark: bson(entry, "mark")?, done }))
    }

    /// The collections left to go over, the first of them from after the mark; empty if the server does the work by
    /// itself.
    fn left<'c>(&self, of: &'c Collections) -> Vec<&'c Rows> {
        if self.sweep == Sweep::Expiry {
            return Vec::new();
        }
        let mut collections = self.sweep.collections(of);
        let at = collections.iter().position(|rows| Some(rows.name()) == self.within.as_deref());
        collections.split_off(at.unwrap_or_default())
    }

    /// Stores the progress after a slice. If two programs run the same slice, only one counts it.
    async fn note(&self, session: &MongoSession, now: Document, count: i64) -> Result<()> {
        let same = doc! { "name": self.sweep.name(), "in": &self.within, "mark": &self.mark };
        let next = doc! { "$set": now, "$inc": { "done": count } };
        session.on.primary.bookkeeping.update_one(same, next).await.map(drop).map_err(native)
    }
}

/// The incomplete backfills, in the order of their steps.
async fn incomplete(session: &MongoSession) -> Result<Vec<Standing>> {
    let entries = session.on.latest.bookkeeping.find(doc! { "complete": false }).sort(doc! { "version": 1 });
    Ok(all(session, entries, Standing::read).await?.into_iter().flatten().collect())
}

/// The progress of the incomplete backfills.
pub(crate) async fn pending(session: MongoSession) -> Result<Vec<Backfill>> {
    let (on, mut pending) = (&session.on, Vec::new());
    for standing in incomplete(&session).await? {
        let (sweep, done) = (standing.sweep, standing.done);
        let (mut left, mut mark) = (0, standing.mark.clone());
        for rows in standing.left(&on.latest) {
            let behind = rows.count_documents(doc! { "_id": { "$gt": mark } }).limit(MANY).max_time(session.left()?);
            left += behind.await.map_err(native)?;
            mark = Bson::MinKey;
        }
        let mut total = done + left;
        // Building the index over many rows takes time even when all of them have their paths.
        if sweep == Sweep::Expiry || left >= MANY || total >= MANY && on.indexing.try_lock().is_err() {
            let mut estimate = 0;
            for rows in sweep.collections(&on.primary) {
                estimate += rows.estimated_document_count().await.map_err(native)?;
            }
            total = estimate.max(done + MANY);
        }
        pending.push(match sweep {
            Sweep::Paths => Backfill::of_places(done, total),
            Sweep::NoWords => Backfill::of_no_words(done, total),
            // The server reports no progress of the build.
            Sweep::Expiry => Backfill::new("the index of what expires", done, total, Blocks::Nothing),
        });
    }
    Ok(pending)
}

/// Runs the next slice of the first incomplete backfill: some more rows, in the order of their ids. New rows need no
/// update, since the server accepts only those of this version.
pub(crate) async fn backfill(session: &MongoSession) -> Result<()> {
    let Some(standing) = incomplete(session).await?.into_iter().next() else { return Ok(()) };
    let left = standing.left(&session.on.latest);
    let slice = match left.first() {
        Some(rows) => go_over(session, standing.sweep, rows, &standing.mark).await?,
        None => Slice { count: 0, reached: None },
    };
    let now = match (slice.reached, left.get(1)) {
        (Some(reached), _) => {
            if standing.mark == Bson::MinKey {
                // Start the index while few rows have the field. The server continues building it by itself, and the
                // last slices wait for it.
                index(session, standing.sweep, Duration::ZERO).await?;
            }
            doc! { "mark": reached }
        }
        (None, Some(next)) => doc! { "in": next.name(), "mark": Bson::MinKey },
        (None, None) => {
            if !index(session, standing.sweep, WAIT).await? {
                return Ok(());
            }
            doc! { "complete": true }
        }
    };
    standing.note(session, now, slice.count).await
}

/// The key that seals cursors: the first one that was stored.
pub(crate) async fn secret(session: &MongoSession, proposed: &str) -> Result<String> {
    let kept = keep(session, SECRET, proposed.into()).await?;
    kept.as_str().map(str::to_owned).ok_or_else(|| Error::corrupt("the key that seals cursors can't be read"))
}

/// The key that hashes tombstones: the first one that was stored.
pub(crate) async fn hash_key(session: &MongoSession, proposed: &str) -> Result<String> {
    let kept = keep(session, HASH_KEY, proposed.into()).await?;
    kept.as_str().map(str::to_owned).ok_or_else(|| Error::corrupt("the key of tombstones can't be read"))
}

/// When the history begins, or `None` if there is none: the first value that was stored.
pub(crate) async fn history_since(session: &MongoSession, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
    let kept = keep(session, HISTORY_SINCE, proposed.map_or(Bson::Null, |time| time.as_millis().into())).await?;
    match kept {
        Bson::Null => Ok(None),
        Bson::Int64(millis) => Timestamp::from_millis(millis).map(Some).map_err(corrupt),
        _ => Err(Error::corrupt("the beginning of the history can't be read")),
    }
}

/// Stores a value in the bookkeeping unless one of that name exists, and returns the majority-committed one: what is
/// made with a key that is lost with a primary could never be read again.
async fn keep(session: &MongoSession, name: &str, proposed: Bson) -> Result<Bson> {
    let (on, same) = (&session.on, doc! { "_id": name });
    let proposed = doc! { "$setOnInsert": { name: proposed } };
    loop {
        let kept = on.latest.bookkeeping.find_one(same.clone()).max_time(session.left()?);
        if let Some(kept) = kept.await.map_err(native)? {
            return bson(&kept, name);
        }
        let keep = on.primary.bookkeeping.update_one(same.clone(), proposed.clone()).upsert(true);
        match keep.await.map_err(native) {
            Ok(kept) if kept.upserted_id.is_some() => {}
            Err(error) if code(&error) != Some(DUPLICATE_KEY) => return Err(error),
            // Another program has stored one, which is not majority-committed yet.
            _ => session.pause(PAUSE).await?,
        }
    }
}

/// Makes the database read-only, or writable again, through a rule that no row satisfies. A deletion is refused
/// too, because it updates each row first.
pub(crate) async fn set_read_only(session: &MongoSession, is_read_only: bool) -> Result<()> {
    alone(session, async || {
        for command in &fence() {
            match is_read_only {
                true => execute(session, command).await?,
                false => lift(session, command).await?,
            }
        }
        Ok(())
    })
    .await
}

/// Whether the database is read-only.
pub(crate) async fn is_read_only(session: &MongoSession) -> Result<bool> {
    for command in &fence() {
        if has_rule(&session.on.database, command).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The error for a write that a rule has refused: the server does not say which rule it was.
pub(crate) async fn refusal(session: &MongoSession, error: Error) -> Error {
    match is_read_only(session).await {
        Ok(true) => Error::read_only().with_outcome(error.outcome()),
        _ => error,
    }
}

async fn has_rule(database: &Database, command: &Document) -> Result<bool> {
    Ok(rules(database, command).await?.iter().any(|rule| Some(rule) == command.get("validator")))
}

fn fence() -> [Document; 2] {
    ["memories", "documents"].map(|collection| doc! { "collMod": collection, "validator": { "$expr": false } })
}

/// Removes the rule that a command adds.
async fn lift(session: &MongoSession, command: &Document) -> Result<()> {
    let database = &session.on.database;
    while has_rule(database, command).await? {
        let mut rules = rules(database, command).await?;
        rules.retain(|rule| Some(rule) != command.get("validator"));
        let mut whole = command.clone();
        whole.insert("validator", doc! { "$and": rules });
        whole.insert("writeConcern", doc! { "w": "majority" });
        whole.insert("maxTimeMS", session.left()?.as_millis() as i64);
        match database.run_command(whole).await.map_err(native) {
            Err(error) if code(&error) == Some(BEING_BUILT) => session.pause(PAUSE).await.map_err(|_| error)?,
            changed => drop(changed?),
        }
    }
    Ok(())
}

/// The version of the schema in place.
pub(crate) async fn version(session: &MongoSession) -> Result<u32> {
    let applied = MongoTarget(session).applied().await?;
    Ok(applied.iter().map(|step| step.version).max().unwrap_or_default())
}

/// Runs work that can be repeated, on connections of its own.
async fn with_session<T>(config: &MongoConfig, work: impl AsyncFn(&MongoSession) -> Result<T>) -> Result<T> {
    let connections = Arc::new(Connections::new(config).await?);
    let session = connections.session();
    let result = session.retry(|| work(&session)).await;
    connections.close().await;
    result
}

/// MongoDB as a target of the migrations crate.
///
/// The commands of a step can be repeated, so a step that was interrupted runs again: its entry is written after its
/// commands. The lock is a lease, and a step that outlives it does no harm.
struct MongoTarget<'s>(&'s MongoSession);

impl MongoTarget<'_> {
    fn bookkeeping(&self) -> &Rows {
        &self.0.on.primary.bookkeeping
    }

    /// The lock if these connections own it.
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
            // The entries of version 1 have no other version field.
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
        let version = i64::from(step.version);
        // Nobody continues the backfill of a retired step, or restores its rule.
        let retired: Vec<_> = retired().map(|step| step.name).collect();
        self.bookkeeping().delete_many(doc! { "name": { "$in": retired } }).await.map_err(native)?;
        let makes_index = |command: &Document| command.contains_key("createIndexes");
        let (indexes, others): (Vec<_>, Vec<_>) = commands(step)?.into_iter().partition(makes_index);
        for command in &others {
            execute(self.0, command).await?;
        }
        let is_complete = match Sweep::by(step.name) {
            Some(sweep) => sweep.is_over(self.0).await?,
            None => true,
        };
        // If there are many rows, the index is built during the backfill.
        for command in indexes.iter().filter(|_| is_complete) {
            execute(self.0, command).await?;
        }
        let mut entry = doc! { "version": version, "name": step.name, "checksum": step.checksum() };
        if !is_complete {
            entry.extend(doc! { "complete": false, "mark": Bson::MinKey, "done": 0_i64 });
        }
        // The first step of each version has a number as its `_id`, from which a program of version 1 learns that the
        // database is newer.
        let first = migrations::mongo().iter().find(|first| first.version == step.version);
        let id = if first == Some(step) { Bson::from(version) } else { step.name.into() };
        let insert = self.bookkeeping().update_one(doc! { "_id": id }, doc! { "$setOnInsert": entry }).upsert(true);
        insert.await.map(drop).map_err(native)
    }

    async fn unlock(&mut self) -> Result<()> {
        self.bookkeeping().delete_one(self.own_lock()).await.map(drop).map_err(native)
    }
}

/// The steps that are no longer taken. What is left of their rules is removed with the next rule that is added.
fn retired() -> impl Iterator<Item = &'static Step> {
    migrations::mongo().iter().filter(|step| step.kind == Kind::Retired)
}

fn commands(step: &Step) -> Result<Vec<Document>> {
    serde_json::from_str(step.text)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "the step is not JSON").with_source(error))
}

/// Runs one command of a step until its effect is in place.
async fn execute(session: &MongoSession, command: &Document) -> Result<()> {
    let (database, mut whole) = (&session.on.database, command.clone());
    whole.insert("writeConcern", doc! { "w": "majority" });
    loop {
        if let Ok(rule) = command.get_document("validator") {
            let rules = with_rule(command, rule, rules(database, command).await?)?;
            whole.insert("validator", doc! { "$and": rules });
            // The command waits for the transactions on the collection, and must not take effect after the deadline.
            whole.insert("maxTimeMS", session.left()?.as_millis() as i64);
        }
        match database.run_command(whole.clone()).await.map_err(native) {
            Err(error) if code(&error) == Some(BEING_BUILT) => session.pause(PAUSE).await.map_err(|_| error)?,
            Err(error) if !matches!(code(&error), Some(EXISTS | NO_INDEX)) => return Err(error),
            _ if holds(database, command).await? => return Ok(()),
            // Another program that added a rule at the same time has removed this one.
            _ => session.pause(PAUSE).await?,
        }
    }
}

/// Whether the rule that a command adds is in place, or the index that it drops is gone.
async fn holds(database: &Database, command: &Document) -> Result<bool> {
    if let Ok(rule) = command.get_document("validator") {
        let rules = rules(database, command).await?;
        return Ok(with_rule(command, rule, rules.clone())? == rules);
    }
    let (Ok(name), Ok(dropped)) = (command.get_str("dropIndexes"), command.get_str("index")) else { return Ok(true) };
    let indexes = database.collection::<Document>(name).list_index_names().await.map_err(native)?;
    Ok(!indexes.iter().any(|index| index == dropped))
}

/// The rules of a collection, with the one that a command adds and without those of retired steps.
fn with_rule(command: &Document, rule: &Document, mut rules: Vec<Bson>) -> Result<Vec<Bson>> {
    let retired = retired().map(commands).collect::<Result<Vec<_>>>()?.concat();
    let of_same = retired.iter().filter(|retired| retired.get("collMod") == command.get("collMod"));
    let retired: Vec<_> = of_same.filter_map(|retired| retired.get("validator")).collect();
    rules.retain(|rule| !retired.contains(&rule));
    let rule = rule.clone().into();
    if !rules.contains(&rule) {
        rules.push(rule);
    }
    Ok(rules)
}

/// The rules of the collection that a command changes; together they are its validator.
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

async fn look(session: &MongoSession) -> Result<Inspection> {
    let database = &session.on.database;
    let answer = database.run_command(doc! { "hello": 1 }).await.map_err(native)?;
    let server_time = answer.get_datetime("localTime").ok().map(|time| Timestamp::from_millis(time.timestamp_millis()));
    let present = database.list_collection_names().await.map_err(native)?;
    let mut missing = Vec::new();
    let commands = taken().map(commands).collect::<Result<Vec<_>>>()?.concat();
    for command in &commands {
        let Some((kind, Bson::String(name))) = command.iter().next() else { continue };
        match (kind.as_str(), present.contains(name)) {
            ("create", false) => missing.push(name.clone()),
            ("collMod", true) if !holds(database, command).await? => {
                let validator = format!("{name}.validator");
                // Several steps add rules to the same collection.
                if !missing.contains(&validator) {
                    missing.push(validator);
                }
            }
            // A missing collection is reported without its indexes and rules.
            ("createIndexes", true) => {
                let present = database.collection::<Document>(name).list_index_names().await.map_err(native)?;
                let indexes = command.get_array("indexes").into_iter().flatten().filter_map(Bson::as_document);
                let names = indexes.filter_map(|index| index.get_str("name").ok());
                let has = |command: &Document, field: &str, text: &str| {
                    command.get_str(field).is_ok_and(|found| found == text)
                };
                let drops = |drop: &Document, index: &str| has(drop, "dropIndexes", name) && has(drop, "index", index);
                let kept = names.filter(|index| !commands.iter().any(|command| drops(command, index)));
                let absent = kept.filter(|index| !present.iter().any(|present| present == index));
                missing.extend(absent.map(|index| format!("{name}.{index}")));
            }
            _ => {}
        }
    }
    let stats = database.run_command(doc! { "dbStats": 1 }).await.map_err(native)?;
    let bytes = stats.get("totalSize").and_then(any_number).and_then(|bytes| bytes.try_into().ok());
    Ok(Inspection::new(missing, server_time.transpose()?, bytes).with_held_back(held_back(&answer)))
}

/// What holds back the feed, which delivers only majority-committed writes. `None` if the majority is less than a
/// second behind the primary.
fn held_back(hello: &Document) -> Option<HeldBack> {
    let last_write = hello.get_document("lastWrite").ok()?;
    let time = |name| last_write.get_datetime(name).ok().map(|time| time.timestamp_millis());
    let lag = u64::try_from(time("lastWriteDate")? - time("majorityWriteDate")?).ok().filter(|lag| *lag > 0)?;
    let by = "a majority of the replica set, which lacks the last writes of the primary";
    Some(HeldBack::new(by, Some(Duration::from_millis(lag))))
}

/// Creates the indexes of a backfill's step, if it has any, or waits for the program that does. Returns whether they
/// exist after this time; the build continues in any case.
async fn index(session: &MongoSession, sweep: Sweep, wait: Duration) -> Result<bool> {
    let on = &session.on;
    let steps = taken().filter(|step| step.name == sweep.name()).map(commands);
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

/// A slice of rows that a backfill went over.
struct Slice {
    count: i64,
    /// The last of them; `None` if no more follow.
    reached: Option<Bson>,
}

/// Goes over the next rows of a collection.
async fn go_over(session: &MongoSession, sweep: Sweep, rows: &Rows, mark: &Bson) -> Result<Slice> {
    // Only majority-committed rows, so that the mark can't pass rows that are lost with a primary.
    let find = rows.find(doc! { "_id": { "$gt": mark } }).sort(doc! { "_id": 1 });
    let find = find.limit(SLICE_ROWS).batch_size(SLICE_ROWS as u32).max_time(session.left()?);
    let mut found = find.await.map_err(native)?;
    let (mut slice, mut updates, mut size) = (Slice { count: 0, reached: None }, Vec::new(), 0);
    while slice.count < SLICE_ROWS {
        if !found.advance().await.map_err(native)? {
            slice.reached = None;
            break;
        }
        let row = found.current();
        size += row.as_bytes().len();
        if size > SLICE_BYTES && slice.count > 0 {
            break;
        }
        updates.extend(sweep.update(row)?);
        slice = Slice { count: slice.count + 1, reached: Some(bson(row, "_id")?) };
    }
    if !updates.is_empty() {
        let command = doc! {
            "update": rows.name(),
            "updates": updates,
            "ordered": false,
            "writeConcern": { "w": "majority", "j": true },
            "maxTimeMS": session.left()?.as_millis() as i64,
        };
        check(&session.on.database.run_command(command).await.map_err(native)?)?;
    }
    Ok(slice)
}
