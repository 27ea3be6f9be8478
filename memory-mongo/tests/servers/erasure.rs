//! What an erasure leaves, also while other programs write.

use std::time::Instant;

use conformance::server::Marks;
use memory_core::engine::{Access, Erasing, ErasingRecord, Writer};
use memory_core::{Reason, Tombstone};
use mongodb::bson::Binary;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;

use super::expiry::timeless;
use super::*;

/// Arguments of a server whose files are not compressed.
const UNCOMPRESSED: [&str; 6] = [
    "--wiredTigerCollectionBlockCompressor",
    "none",
    "--wiredTigerJournalCompressor",
    "none",
    "--wiredTigerIndexPrefixCompression",
    "false",
];

/// No row has a text, the name of a space, or a key of an erased record; and a watch that begins before everything
/// delivers only the erasures.
pub(crate) async fn nothing_is_left_of_what_is_erased() -> CaseResult {
    const SPACE: &str = "hidden-place";
    const KEY: &str = "a-key-of-somebody";
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let watch = Watch::new(Watched::Both(memory_core::Collections::All), MemoryQuery::builder().under("hidden"))?;
    let mut changes = provider.watch(&watch.clone().from(WatchFrom::Now)).await?;
    let token = changes.next().await.ok_or("it goes on")??.token;

    let keyed = || event(SPACE, 1).with_idempotency_key(IdempotencyKey::parse(KEY).expect("a key"));
    let id = provider.store(keyed()).await?;
    provider.update(id, MemoryPatch::new().set_context(Context::parse("\"changed\"")?)).await?;
    let written = || {
        let mut write = note("x");
        write.space_id = SpaceId::parse(SPACE).expect("a space");
        write
    };
    provider.documents().put(written()).await?;
    provider.documents().put(written()).await?;
    let both = [id.into(), RecordId::from((note("x").collection, DocumentId::parse("x")?))];
    assert_eq!(provider.erase(&Erasure::records(both.clone(), "why")?).await?.records, both);

    let database = admin(&server.url()).await?.client().database("agent_memory");
    let mut rows = 0;
    for name in database.list_collection_names().await? {
        let mut found = database.collection::<RawDocumentBuf>(&name).find(doc! {}).await?;
        while found.advance().await? {
            let row = found.current().as_bytes();
            for text in [SECRET, SPACE, KEY, "changed"] {
                assert!(!row.windows(text.len()).any(|part| part == text.as_bytes()), "{name} has {text}");
            }
            rows += usize::from(["memories", "idempotency_keys", "history", "tombstones"].contains(&name.as_str()));
        }
    }
    // The id of the memory, the mark, the first and the newest place of the document, and the tombstones.
    assert_eq!(rows, 6);

    let mut changes = provider.watch(&watch.from(token.into())).await?;
    let mut told = Vec::new();
    loop {
        match changes.next().await.ok_or("it goes on")??.kind {
            ChangeKind::Reached => break,
            ChangeKind::Progress => {}
            kind => told.push(kind),
        }
    }
    assert_eq!(told, both.map(ChangeKind::Erased));
    Ok(())
}

/// A member that is synced after the erasure gets nothing of what the server's files and log still have.
pub(crate) async fn a_new_member_has_nothing_of_what_was_erased() -> CaseResult {
    let mut server = LocalMongo::start_with(1, &UNCOMPRESSED)?;
    let (provider, marks) = (open(config(&server.url())).await?, Marks::random());
    let records = marks.write(&provider).await?;
    let flush = doc! { "fsync": 1 };
    admin(&server.url_of(0)).await?.run_command(flush.clone()).await?;
    marks.check_there(server.folder(0))?;
    let erasure = Erasure::records(records.clone(), "why")?;
    assert_eq!(provider.erase(&erasure).await?.records.len(), records.len());

    let new = server.add_node(&UNCOMPRESSED)?;
    let at_new = admin(&server.url_of(new)).await?;
    at_new.run_command(flush).await?;
    let tombstones = at_new.client().database("agent_memory").collection::<Document>("tombstones");
    assert_eq!(tombstones.count_documents(doc! {}).await?, records.len() as u64);
    marks.check_gone(server.folder(new))?;
    Ok(())
}

/// Whichever comes first, no record exists in the end.
pub(crate) async fn erasures_and_restores_race() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = Arc::new(open(config(&server.url())).await?);
    for round in 0..10 {
        let key = |number: i64| IdempotencyKey::parse(format!("{round}-{number}")).expect("a key");
        let keyed = |number: i64| match number % 2 {
            0 => event("a-b", number).with_idempotency_key(key(number)),
            _ => event("a-b", number),
        };
        let ids = provider.store_many((0..8).map(keyed).collect()).await?;
        let mut backup = Vec::new();
        for id in &ids {
            backup.push(provider.get(*id).await?.ok_or("a memory is gone")?);
        }
        let document = provider.documents().put(note("raced")).await?;
        let record = RecordId::from((document.collection.clone(), document.id.clone()));
        let erasure = Erasure::records(ids.iter().copied().map(RecordId::from).chain([record]), "why")?;
        let restore = |number: usize| {
            let (provider, backup, document) = (Arc::clone(&provider), backup.clone(), document.clone());
            tokio::spawn(async move {
                for _ in 0..number {
                    provider.get(MemoryId::generate()).await?;
                }
                let report = provider.restore(backup).await?;
                assert_eq!(report.written, 0);
                provider.documents().restore(vec![document]).await.map(drop)
            })
        };
        let store = |number: i64| {
            let (provider, memory) = (Arc::clone(&provider), keyed(number));
            tokio::spawn(async move { provider.store(memory).await })
        };
        let (restores, stores): (Vec<_>, Vec<_>) = ((0..12).map(restore).collect(), [0, 2, 4, 6].map(store).into());
        assert_eq!(provider.erase(&erasure).await?.records.len(), 9);
        for restore in restores {
            restore.await??;
        }
        for (store, id) in stores.into_iter().zip(ids.iter().step_by(2)) {
            assert_eq!(store.await?.unwrap_or(*id), *id, "another one was stored");
        }
        for id in &ids {
            assert_eq!(provider.get(*id).await.expect_err("it was erased").kind(), ErrorKind::Erased);
        }
        assert_eq!(provider.store(keyed(0)).await.expect_err("it was erased").kind(), ErrorKind::Erased);
        assert_eq!(all(&provider).await?, []);
        assert_eq!(provider.documents().get(&document.collection, &document.id).await?, None);
    }
    Ok(())
}

/// The entries of the new document have later positions than those before the erasure, and no history shows the earlier
/// ones.
pub(crate) async fn a_document_goes_on_behind_its_erasure() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let rows = admin(&server.url()).await?.client().database("agent_memory").collection::<Document>("history");
    let record = RecordId::from((note("x").collection, DocumentId::parse("x")?));
    let of = |removed: bool| {
        let history = History::of(record.clone());
        if removed { history.with_removed() } else { history }
    };
    let (documents, mut newest) = (provider.documents(), 0);
    for puts in [3, 1, 2] {
        for _ in 0..puts {
            documents.put(note("x")).await?;
        }
        newest += puts;
        for removed in [false, true] {
            assert_eq!(provider.history(&of(removed)).await?.versions.len() as i64, puts);
        }
        provider.erase(&Erasure::records([record.clone()], "why")?).await?;
        assert_eq!(provider.history(&of(true)).await?.versions, []);
        let (mut left, mut places) = (rows.find(doc! {}).sort(doc! { "_id": 1 }).await?, Vec::new());
        while left.advance().await? {
            let row = left.deserialize_current()?;
            assert_eq!(row.len(), 1, "{row}");
            places.push(row.get_document("_id")?.get_i64("place")?);
        }
        assert_eq!(places, [1, newest]);
    }
    Ok(())
}

/// A tombstone that was written after a call has read its records is not replaced by an older decision, even if the
/// call's transaction is in progress (E2, X4).
pub(crate) async fn a_tombstone_that_came_meanwhile_stays() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let config = timeless(&server.url());
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let of = |id: MemoryId, millis: i64, reason: Option<&str>| {
        let mut tombstone = Tombstone::of_expiry(id.into(), at(millis));
        if let Some(reason) = reason {
            tombstone.reason = Reason::parse(reason).expect("a reason");
        }
        tombstone
    };
    let kept = async |id: MemoryId| {
        let found = provider.tombstones(None).await?.tombstones;
        let kept = found.into_iter().find(|tombstone| tombstone.record == id.into());
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(kept.ok_or("no tombstone")?)
    };
    for (came, given, stays) in [
        ((7, Some("asked")), (9, None), (9, Some("asked"))),
        ((9, Some("later")), (7, Some("earlier")), (9, Some("later"))),
        ((7, Some("earlier")), (9, Some("later")), (9, Some("later"))),
        ((9, None), (7, Some("asked")), (9, Some("asked"))),
    ] {
        let id = MemoryId::generate();
        for (millis, reason) in [came, given] {
            assert!(bury(&engine, of(id, millis, reason)).await?);
        }
        assert_eq!(kept(id).await?, of(id, stays.0, stays.1));
    }

    // There was no tombstone when the transaction looked for one.
    let id = MemoryId::generate();
    let admin = admin(&server.url()).await?;
    let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() };
    let places = Binary { subtype: BinarySubtype::Generic, bytes: Vec::new() };
    let row = doc! { "_id": uuid, "erasure": ObjectId::new(), "at": 7_i64, "reason": "asked", "places": places };
    let rows = admin.client().database("agent_memory").collection::<Document>("tombstones");
    let held = Held::at(&admin, "hangDuringBatchUpdate", "agent_memory.tombstones").await?;
    let meanwhile = async {
        held.wait(&admin).await?;
        rows.insert_one(row).await?;
        held.release(&admin).await
    };
    let (buried, meanwhile) = futures::join!(bury(&engine, of(id, 9, None)), meanwhile);
    meanwhile?;
    // The transaction starts again, whichever error the server gives.
    match buried {
        Ok(is_buried) => assert!(!is_buried),
        Err(error) => assert_eq!((error.is_retryable(), error.outcome()), (true, Outcome::NotDone), "{error:?}"),
    }
    assert_eq!(kept(id).await?, of(id, 7, Some("asked")));
    assert!(bury(&engine, of(id, 9, None)).await?);
    assert_eq!(kept(id).await?, of(id, 9, Some("asked")));
    engine.close().await?;
    Ok(())
}

/// Writes a tombstone under a name without a record.
pub(crate) async fn bury(engine: &MongoEngine, tombstone: Tombstone) -> Result<bool, Error> {
    let until = Instant::now() + Duration::from_secs(60);
    let buried = engine.run(Access::Write, until, Arc::new(tombstone), |writer, tombstone: &Tombstone| {
        Box::pin(erase_absent(writer, tombstone))
    });
    buried.await
}

async fn erase_absent<W: Writer>(writer: &mut W, tombstone: &Tombstone) -> Result<bool, Error> {
    writer.erase(&[Erasing { found: ErasingRecord::Absent, tombstone: tombstone.clone() }]).await
}

/// A fail point of the server at which commands wait.
pub(crate) struct Held {
    point: &'static str,
    came_before: i64,
}

impl Held {
    /// Holds writes of a collection from now on.
    pub(crate) async fn at(admin: &Database, point: &'static str, collection: &str) -> mongodb::error::Result<Self> {
        let command = doc! { "configureFailPoint": point, "mode": "alwaysOn", "data": { "nss": collection } };
        let answer = admin.run_command(command).await?;
        let count = answer.get("count").and_then(|count| count.as_i64().or(count.as_i32().map(i64::from)));
        Ok(Self { point, came_before: count.unwrap_or_default() })
    }

    /// Waits until one waits there.
    pub(crate) async fn wait(&self, admin: &Database) -> mongodb::error::Result<()> {
        let came = self.came_before + 1;
        let command = doc! { "waitForFailPoint": self.point, "timesEntered": came, "maxTimeMS": 60_000 };
        admin.run_command(command).await.map(drop)
    }

    pub(crate) async fn release(&self, admin: &Database) -> mongodb::error::Result<()> {
        admin.run_command(doc! { "configureFailPoint": self.point, "mode": "off" }).await.map(drop)
    }
}
