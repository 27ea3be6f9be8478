//! The list of expiring records, their tombstones, and the retention rules.

use std::time::Instant;

use memory_core::Tombstone;
use memory_core::engine::{Access, Reader, Writer};

use super::erasure::{Held, bury};
use super::*;

/// The arguments of a call: until which time, after which entry, and how many.
type Asked = (Timestamp, Option<(Timestamp, RecordId)>, usize);

/// After each write the list agrees with the records, and a row without a time has no field for one.
pub(crate) async fn what_expires_is_listed() -> CaseResult {
    let server = LocalMongo::start()?;
    let config = timeless(&server.url());
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let documents = provider.documents();
    let memories = [event("a-b", 1).expires_at(at(30)), event("a-b", 2).expires_at(at(20)), event("a-b", 3)];
    let ids = provider.store_many(memories.into()).await?;
    let keyed = event("a-b", 4).with_idempotency_key(IdempotencyKey::parse("key")?).expires_at(at(25));
    let keyed = provider.store(keyed).await?;
    let put = |collection: &str, id: &str| {
        let mut write = note(id).expires_at(at(20));
        write.collection = Collection::parse(collection).expect("a name");
        write
    };
    let of = |collection: &str, id: &str| {
        let collection = Collection::parse(collection).expect("a name");
        RecordId::from((collection, DocumentId::parse(id).expect("an id")))
    };
    for (collection, id) in [("a", "x"), ("a-b", "x"), ("a_b", "x"), ("ab", "x"), ("a", "w/x")] {
        documents.put(put(collection, id)).await?;
    }

    // Records of one time come in the order of their keys, which differs from the order of the collections' names.
    let notes = [("a-b", "x"), ("a", "w/x"), ("a", "x"), ("a_b", "x"), ("ab", "x")];
    let mut list: Vec<(Timestamp, RecordId)> = notes.map(|(collection, id)| (at(20), of(collection, id))).into();
    list.extend([(at(20), ids[1].into()), (at(25), keyed.into()), (at(30), ids[0].into())]);
    assert!(list.is_sorted_by_key(|(at, record): &(Timestamp, RecordId)| (*at, record.to_key())));
    assert_eq!(expired(&engine, (at(100), None, 100)).await?, list);
    for by in [19, 20, 29, 30] {
        let due: Vec<_> = list.iter().filter(|(time, _)| *time <= at(by)).cloned().collect();
        assert_eq!(expired(&engine, (at(by), None, 100)).await?, due, "{by}");
    }
    for most in [1, 2, 3, 7] {
        let (mut pages, mut behind) = (Vec::new(), None);
        loop {
            let page = expired(&engine, (at(100), behind, most)).await?;
            behind = page.last().cloned();
            let is_last = page.len() < most;
            pages.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!(pages, list, "{most} at once");
    }
    assert_eq!(expired(&engine, (at(100), None, 0)).await?, []);

    // Each write that changes a time, and some that do not.
    provider.update(ids[0], MemoryPatch::new().clear_expiry()).await?;
    provider.update(ids[1], MemoryPatch::new().set_expiry(at(40))).await?;
    provider.update(ids[2], MemoryPatch::new().set_expiry(at(50))).await?;
    provider.update(keyed, MemoryPatch::new().with_status(Status::Completed)).await?;
    let mut cleared = put("a", "x");
    cleared.expires_at = None;
    documents.put(cleared).await?;
    documents.put(put("ab", "x").expires_at(at(10))).await?;
    let gone = DocumentSelection::ids(Collection::parse("a_b")?, [DocumentId::parse("x")?])?;
    assert_eq!(documents.remove(&gone, 1).await?.len(), 1);
    provider.erase(&Erasure::records([of("a", "w/x")], "why")?).await?;
    let left = [
        (at(10), of("ab", "x")),
        (at(20), of("a-b", "x")),
        (at(25), keyed.into()),
        (at(40), ids[1].into()),
        (at(50), ids[2].into()),
    ];
    assert_eq!(expired(&engine, (at(100), None, 100)).await?, left);
    provider.erase(&Erasure::records([ids[1].into(), keyed.into()], "why")?).await?;
    let copies = documents.query(&DocumentQuery::builder(Collection::parse("ab")?).all().build()?).await?.documents;
    documents.remove(&DocumentSelection::ids(Collection::parse("ab")?, [DocumentId::parse("x")?])?, 1).await?;
    assert_eq!(expired(&engine, (at(49), None, 100)).await?, [(at(20), of("a-b", "x"))]);
    assert_eq!(documents.restore(copies).await?.written, 1);
    assert_eq!(expired(&engine, (at(19), None, 100)).await?, [(at(10), of("ab", "x"))]);

    let database = admin(&server.url()).await?.client().database("agent_memory");
    for (name, timed) in [("memories", 1), ("documents", 2)] {
        let rows = database.collection::<Document>(name);
        assert_eq!(rows.count_documents(doc! { "expiresAt": { "$exists": true } }).await?, timed, "{name}");
        let keyed = rows.count_documents(doc! { "expiryKey": { "$exists": true } }).await?;
        assert_eq!(keyed, if name == "documents" { timed } else { 0 }, "{name}");
    }
    engine.close().await?;
    Ok(())
}

/// Its id and its key can be stored again, unless another tombstone has that key; a tombstone that has changed since
/// stays.
pub(crate) async fn what_is_forgotten_keeps_nothing_out() -> CaseResult {
    let server = LocalMongo::start()?;
    let config = timeless(&server.url());
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let keyed = |key: &str| event("a-b", 1).with_idempotency_key(IdempotencyKey::parse(key).expect("a key"));
    let ids = provider.store_many(vec![keyed("one"), keyed("two"), event("a-b", 3)]).await?;
    let backup = provider.get(ids[2]).await?.ok_or("a memory is gone")?;
    provider.documents().put(note("x")).await?;
    let document = RecordId::from((note("x").collection, DocumentId::parse("x")?));
    let records: Vec<_> = ids.iter().copied().map(RecordId::from).chain([document]).collect();
    provider.erase(&Erasure::records(records, "why")?).await?;
    let tombstones = provider.tombstones(None).await?.tombstones;
    assert_eq!(tombstones.len(), 4);

    // One that is not as it was read, and one that does not exist.
    let mut others = vec![tombstones[0].clone(), tombstones[1].clone()];
    others[0].at = at(7);
    others[1].record = MemoryId::generate().into();
    forget(&engine, others).await?;
    provider.set_read_only(true).await?;
    let refused = forget(&engine, tombstones.clone()).await.expect_err("read-only");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    provider.set_read_only(false).await?;
    assert_eq!(provider.tombstones(None).await?.tombstones, tombstones);

    // Another tombstone with the key of the second, as a restore may bring it.
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let rows = database.collection::<Document>("tombstones");
    let two = tombstones.iter().find(|tombstone| tombstone.record == ids[1].into()).ok_or("no tombstone")?;
    let key = two.key.ok_or("no key")?.0.to_vec();
    let key = mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Generic, bytes: key };
    let mut row = rows.find_one(doc! { "key": key }).await?.ok_or("no tombstone")?;
    let other = MemoryId::generate().as_bytes().to_vec();
    let uuid = mongodb::bson::spec::BinarySubtype::Uuid;
    row.insert("_id", mongodb::bson::Binary { subtype: uuid, bytes: other });
    rows.insert_one(&row).await?;

    forget(&engine, tombstones).await?;
    assert_eq!(rows.count_documents(doc! {}).await?, 1);
    for name in ["memories", "documents"] {
        assert_eq!(database.collection::<Document>(name).count_documents(doc! {}).await?, 0, "{name}");
    }
    assert_ne!(provider.store(keyed("one")).await?, ids[0]);
    assert_eq!(provider.store(keyed("two")).await.expect_err("another has its key").kind(), ErrorKind::Erased);
    assert_eq!(provider.restore(vec![backup]).await?.written, 1);
    assert_eq!(provider.get(ids[0]).await?, None);
    assert!(provider.get(ids[2]).await?.is_some());
    engine.close().await?;
    Ok(())
}

/// A removal of a key's mark conflicts with each tombstone of that key that is written at the same time (X4).
pub(crate) async fn a_mark_stays_for_who_comes_meanwhile() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let config = timeless(&server.url());
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let keyed = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("key").expect("a key"));
    let id = provider.store(keyed()).await?;
    provider.erase(&Erasure::records([id.into()], "why")?).await?;
    let first = provider.tombstones(None).await?.tombstones;
    let other = || Tombstone { record: MemoryId::generate().into(), ..first[0].clone() };
    let admin = admin(&server.url()).await?;
    let database = admin.client().database("agent_memory");
    let marks = doc! { "_id": { "$type": "binData" } };

    // It has taken the mark, and is not done.
    let keys = database.collection::<Document>("idempotency_keys");
    let mut session = admin.client().start_session().await?;
    session.start_transaction().await?;
    assert_eq!(keys.delete_many(marks.clone()).session(&mut session).await?.deleted_count, 1);
    let refused = bury(&engine, other()).await.expect_err("its mark is being taken");
    assert_eq!((refused.is_retryable(), refused.outcome()), (true, Outcome::NotDone), "{refused:?}");
    session.abort_transaction().await?;

    // It is about to take the mark, and sees no other tombstone with the key.
    let held = Held::at(&admin, "hangDuringBatchInsert", "agent_memory.memories").await?;
    let meanwhile = async {
        held.wait(&admin).await?;
        let buried = bury(&engine, other()).await;
        held.release(&admin).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(buried?)
    };
    let (refused, buried) = futures::join!(forget(&engine, first.clone()), meanwhile);
    assert!(buried?);
    let refused = refused.expect_err("another one needs the mark");
    assert_eq!((refused.is_retryable(), refused.outcome()), (true, Outcome::NotDone), "{refused:?}");
    forget(&engine, first).await?;
    assert_eq!(keys.count_documents(marks.clone()).await?, 1);
    assert_eq!(provider.store(keyed()).await.expect_err("another has its key").kind(), ErrorKind::Erased);

    // The last one takes it along.
    forget(&engine, provider.tombstones(None).await?.tombstones).await?;
    assert_eq!(keys.count_documents(marks).await?, 0);
    assert_ne!(provider.store(keyed()).await?, id);
    engine.close().await?;
    Ok(())
}

/// The last rules apply in every program once they are acknowledged.
pub(crate) async fn rules_of_retention_are_one_row() -> CaseResult {
    let server = LocalMongo::start()?;
    let config = timeless(&server.url());
    let (one, other) = (MongoEngine::open(&config).await?, MongoEngine::open(&config).await?);
    assert_eq!(other.retention().await?, None);
    for rules in ["[1]", "[]", "[]", "[1,2]"] {
        one.set_retention(rules).await?;
        assert_eq!(other.retention().await?.as_deref(), Some(rules));
    }
    one.set_read_only(true).await?;
    let refused = other.set_retention("[]").await.expect_err("read-only");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, true), "{refused:?}");
    assert_eq!(other.retention().await?.as_deref(), Some("[1,2]"));
    one.set_read_only(false).await?;
    other.set_retention("[]").await?;
    assert_eq!(one.retention().await?.as_deref(), Some("[]"));

    let database = admin(&server.url()).await?.client().database("agent_memory");
    let steps = database.collection::<Document>("schema_migrations");
    assert_eq!(steps.count_documents(doc! { "_id": "retention" }).await?, 1);
    assert_eq!(database.collection::<Document>("memories").count_documents(doc! {}).await?, 0);
    for engine in [one, other] {
        engine.close().await?;
    }
    Ok(())
}

/// The clock stands still before all times.
pub(crate) fn timeless(url: &str) -> MongoConfig {
    let mut config = config(url);
    config.clock = Arc::new(ManualClock::new(at(0)));
    config
}

async fn expired(engine: &MongoEngine, asked: Asked) -> Result<Vec<(Timestamp, RecordId)>, Error> {
    let until = Instant::now() + Duration::from_secs(60);
    let expired = engine.run(Access::ReadLatest, until, Arc::new(asked), |reader, (by, behind, most): &Asked| {
        Box::pin(reader.expired(*by, behind.as_ref(), *most))
    });
    expired.await
}

async fn forget(engine: &MongoEngine, tombstones: Vec<Tombstone>) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_secs(60);
    let forgotten = engine.run(Access::Write, until, Arc::new(tombstones), |writer, tombstones: &Vec<Tombstone>| {
        Box::pin(writer.forget(tombstones))
    });
    forgotten.await
}
