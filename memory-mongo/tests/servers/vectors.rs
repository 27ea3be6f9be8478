//! Vectors beside records: when they are removed, what they leave unchanged, and what a recall reads of them.

use std::time::Instant;

use memory_core::engine::{Access, Embed, EmbedRecord, Found, Reader, Row, Walk, Writer};
use memory_core::{Embedding, Ledger, Memory, MemoryRecall, Precision, Vector, VectorModel, Verdict};
use mongodb::bson::Binary;
use mongodb::bson::spec::BinarySubtype;

use super::*;

/// An update and a put that leave the texts leave it; each other change takes it away in the same step (M2).
pub(crate) async fn a_vector_goes_with_its_texts() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let (database, documents) = (admin(&server.url()).await?.client().database("agent_memory"), provider.documents());
    provider.set_vector_model(&model()).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let put = documents.put(note("x")).await?;
    let records = [RecordId::from(id), RecordId::from(&put)];
    let embed = async |revision: u64| provider.embed(&model(), embeddings(&records, revision)).await;
    assert_eq!(embed(1).await?, [true, true]);
    assert_eq!(vectors(&provider, &records, 1).await?, 2);

    // Nothing else has changed.
    let memory = provider.get(id).await?.ok_or("a memory is gone")?;
    assert_eq!((memory.revision, memory.updated_at), (Revision::FIRST, None));
    assert_eq!(documents.get(&put.collection, &put.id).await?, Some(put.clone()));
    for record in &records {
        assert_eq!(provider.history(&History::of(record.clone())).await?.versions.len(), 1);
    }

    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    let mut moved = note("x");
    moved.space_id = SpaceId::parse("c")?;
    documents.put(moved).await?;
    assert_eq!(vectors(&provider, &records, 2).await?, 2);
    assert_eq!(with_vector(&database).await?, [1, 1]);

    provider.update(id, MemoryPatch::new().set_context(Context::parse("\"new\"")?)).await?;
    let mut changed = note("x");
    changed.content = Content::parse("new")?;
    documents.put(changed).await?;
    assert_eq!(vectors(&provider, &records, 3).await?, 0);
    assert_eq!(with_vector(&database).await?, [0, 0]);
    assert_eq!(embed(2).await?, [false, false], "of a revision that is gone");
    assert_eq!(embed(3).await?, [true, true]);

    // A document that is put after a removal is another one, whatever its text.
    let selection = DocumentSelection::ids(put.collection.clone(), [put.id.clone()])?;
    assert_eq!(documents.remove(&selection, 1).await?.len(), 1);
    let mut same = note("x");
    same.content = Content::parse("new")?;
    documents.put(same).await?;
    assert_eq!(provider.vectors(&records).await?.iter().filter(|vector| vector.is_some()).count(), 1);
    assert_eq!(provider.embed(&model(), embeddings(&records[1..], 1)).await?, [true]);

    assert_eq!(with_vector(&database).await?, [1, 1]);
    assert_eq!(provider.erase(&Erasure::records(records.clone(), "why")?).await?.records.len(), 2);
    assert_eq!(with_vector(&database).await?, [0, 0]);
    assert_eq!(vectors(&provider, &records, 1).await?, 0);
    Ok(())
}

/// The server reports how many rows a command has matched, and not which.
pub(crate) async fn of_many_vectors_each_is_kept_by_itself() -> CaseResult {
    let server = LocalMongo::start()?;
    let (provider, engine) = (open(config(&server.url())).await?, MongoEngine::open(&config(&server.url())).await?);
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let ids = provider.store_many((0..4).map(|number| event("a-b", number)).collect()).await?;
    let mut memories = Vec::new();
    for id in &ids {
        memories.push(Found { record: provider.get(*id).await?.ok_or("a memory is gone")?, version: 0 });
    }
    let read = provider.documents().put(note("x")).await?;
    let documents = vec![Found { record: read, version: 1 }];
    // Two have changed since they were read.
    provider.update(ids[1], MemoryPatch::new().with_status(Status::Completed)).await?;
    provider.erase(&Erasure::records([ids[3].into()], "why")?).await?;
    for _ in 0..2 {
        assert_eq!(embed(&engine, (memories.clone(), documents.clone())).await?, [true, false, true, false, true]);
        assert_eq!(with_vector(&database).await?, [2, 1]);
    }
    let put = provider.documents().put(note("x")).await?;
    assert_eq!(embed(&engine, (memories[1..2].to_vec(), documents.clone())).await?, [false, false]);
    // The row exists, and has the vector of the later version.
    let later = Found { record: put, version: 2 };
    assert_eq!(embed(&engine, (Vec::new(), vec![documents[0].clone(), later])).await?, [false, true]);
    // The same record twice, also if the server has matched only some of the rows: the last vector counts.
    for last in [0, 1] {
        let given = vec![memories[0].clone(), memories[0].clone(), memories[last].clone()];
        assert_eq!(embed(&engine, (given, Vec::new())).await?, [true, true, last == 0]);
        let kept = Binary { subtype: BinarySubtype::Generic, bytes: bytes(2 - last) };
        let row = doc! { "createdAt": 0_i64, "vector": kept };
        assert_eq!(database.collection::<Document>("memories").count_documents(row).await?, 1);
    }
    assert_eq!(embed(&engine, (Vec::new(), Vec::new())).await?, [false; 0]);
    engine.close().await?;
    Ok(())
}

/// A memory whose row was lost and is restored from another ledger, and a document that no history distinguishes from
/// the one before.
pub(crate) async fn what_came_again_takes_no_vector_of_other_texts() -> CaseResult {
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.history.is_kept = Some(false);
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let memories = database.collection::<Document>("memories");
    let id = provider.store(event("a-b", 1)).await?;
    let read = Found { record: provider.get(id).await?.ok_or("a memory is gone")?, version: 0 };
    let (mut of_trigger, mut of_context) = (read.record.clone(), read.record.clone());
    of_trigger.trigger = Trigger::parse("\"new\"")?;
    of_context.context = Some(Context::parse("\"new\"")?);
    for (copy, is_same) in [(of_trigger, false), (of_context, false), (read.record.clone(), true)] {
        assert_eq!(memories.delete_many(doc! {}).await?.deleted_count, 1);
        assert_eq!(provider.restore(vec![copy]).await?.written, 1);
        assert_eq!(embed(&engine, (vec![read.clone()], Vec::new())).await?, [is_same]);
        assert_eq!(with_vector(&database).await?, [u64::from(is_same), 0]);
    }

    let read = Found { record: provider.documents().put(note("x")).await?, version: 1 };
    for (content, is_same) in [("new", false), (SECRET, true)] {
        let one = DocumentSelection::ids(read.record.collection.clone(), [read.record.id.clone()])?;
        assert_eq!(provider.documents().remove(&one, 1).await?.len(), 1);
        let mut again = note("x");
        again.content = Content::parse(content)?;
        assert_eq!(provider.documents().put(again).await?.revision, read.record.revision);
        assert_eq!(embed(&engine, (Vec::new(), vec![read.clone()])).await?, [is_same]);
        assert_eq!(with_vector(&database).await?, [1, u64::from(is_same)]);
    }
    engine.close().await?;
    Ok(())
}

/// It wakes a watch, which delivers nothing (M2).
pub(crate) async fn a_vector_is_in_no_feed() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    provider.set_vector_model(&model()).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let put = provider.documents().put(note("x")).await?;
    let watch = Watch::new(Watched::Both(memory_core::Collections::All), MemoryQuery::builder().under("a"))?;
    let mut changes = provider.watch(&watch.clone().from(WatchFrom::Now)).await?;
    let token = changes.next().await.ok_or("it goes on")??.token;
    let records = [RecordId::from(id), RecordId::from(&put)];
    for _ in 0..2 {
        assert_eq!(provider.embed(&model(), embeddings(&records, 1)).await?, [true, true]);
    }
    let later = provider.store(event("a-b", 2)).await?;

    let mut changes = provider.watch(&watch.from(token.into())).await?;
    let mut told = Vec::new();
    loop {
        match changes.next().await.ok_or("it goes on")??.kind {
            ChangeKind::Reached => break,
            ChangeKind::Progress => {}
            ChangeKind::Stored(Record::Memory(memory)) => told.push(memory.id),
            other => return Err(format!("{other:?}").into()),
        }
    }
    assert_eq!(told, [later]);
    Ok(())
}

/// A program of version 8 changes a memory and leaves its vector, which belongs to the earlier text.
pub(crate) async fn a_vector_that_an_older_program_leaves_counts_no_more() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let memories = database.collection::<Document>("memories");
    provider.set_vector_model(&model()).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let records = [RecordId::from(id)];
    let unembedded = async || {
        let recall = MemoryRecall::new("", MemoryQuery::builder().under("a").build()?)?.by_vector(vector(0));
        provider.recall(&recall).await.map(|recalled| recalled.unembedded)
    };
    for round in 0..3_u64 {
        let revision = 1 + 2 * round;
        assert_eq!(provider.embed(&model(), embeddings(&records, revision)).await?, [true]);
        assert_eq!((vectors(&provider, &records, revision).await?, unembedded().await?), (1, Some(0)));

        // Exactly the command of that program.
        let (read, next) = (revision as i64, revision as i64 + 1);
        let set = doc! { "revision": next, "written": next * 256 + 8, "context": format!("\"older {round}\"") };
        let update = doc! { "$set": set, "$unset": { "words": "" } };
        assert_eq!(memories.update_one(doc! { "revision": read }, update).await?.matched_count, 1);
        assert_eq!(with_vector(&database).await?, [1, 0]);
        assert_eq!((vectors(&provider, &records, revision + 1).await?, unembedded().await?), (0, Some(1)));

        if round == 0 {
            // It counts again once it was made again, and stays if the next update keeps the text.
            assert_eq!(provider.embed(&model(), embeddings(&records, 2)).await?, [true]);
        }
        let status = if round % 2 == 0 { Status::Completed } else { Status::Pending };
        provider.update(id, MemoryPatch::new().with_status(status)).await?;
        let left = u64::from(round == 0);
        assert_eq!(with_vector(&database).await?, [left, 0]);
        assert_eq!(vectors(&provider, &records, revision + 2).await? as u64, left);
    }
    Ok(())
}

/// A fence and a newer ledger refuse vectors as they refuse other writes, and a removed database keeps none.
pub(crate) async fn vectors_obey_the_rules_for_writers() -> CaseResult {
    let server = LocalMongo::start()?;
    let config = config(&server.url());
    let provider = open(config.clone()).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let id = provider.store(event("a-b", 1)).await?;
    let put = provider.documents().put(note("x")).await?;
    let records = [RecordId::from(id), RecordId::from(&put)];

    provider.set_read_only(true).await?;
    let refused = provider.set_vector_model(&model()).await.expect_err("read-only");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, true), "{refused:?}");
    assert_eq!(provider.vector_model().await?, None);
    provider.set_read_only(false).await?;
    provider.set_vector_model(&model()).await?;
    provider.set_read_only(true).await?;
    for record in &records {
        let embeddings = embeddings(std::slice::from_ref(record), 1);
        let refused = provider.embed(&model(), embeddings).await.expect_err("read-only");
        let told = (refused.kind(), refused.is_retryable(), refused.outcome());
        assert_eq!(told, (ErrorKind::Unavailable, true, Outcome::NotDone), "{refused:?}");
    }
    provider.set_read_only(false).await?;
    assert_eq!(with_vector(&database).await?, [0, 0]);

    // The rule of a newer program.
    let newer = doc! { "$expr": { "$gte": [{ "$subtract": ["$written", { "$multiply": ["$revision", 256] }] }, 10] } };
    for name in ["memories", "documents"] {
        let rows = database.collection::<Document>(name);
        rows.update_many(doc! {}, doc! { "$set": { "written": 256 + 10_i64 } }).await?;
        database.run_command(doc! { "collMod": name, "validator": { "$and": [&newer] } }).await?;
    }
    let entry = doc! { "_id": "later", "version": 10_i64, "name": "later", "checksum": "x" };
    database.collection::<Document>("schema_migrations").insert_one(entry).await?;
    for record in &records {
        let embeddings = embeddings(std::slice::from_ref(record), 1);
        let refused = provider.embed(&model(), embeddings).await.expect_err("the ledger is newer");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone), "{refused:?}");
    }
    assert_eq!(with_vector(&database).await?, [0, 0]);

    memory_mongo::remove(&config).await?;
    assert!(!database.client().list_database_names().await?.contains(&"agent_memory".to_owned()));
    let provider = open(config).await?;
    assert_eq!(provider.vector_model().await?, None);
    assert_eq!(vectors(&provider, &records, 1).await?, 0);
    Ok(())
}

/// By the server's count: a walk over heads receives no texts of records, and as many rows in one answer as it asks
/// for; and only calls that want vectors receive any.
pub(crate) async fn vectors_are_read_where_they_are_wanted() -> CaseResult {
    const ROWS: usize = 300;
    let server = LocalMongo::start()?;
    let (provider, engine) = (open(config(&server.url())).await?, MongoEngine::open(&config(&server.url())).await?);
    provider.set_vector_model(&model()).await?;
    let text = Context::parse(&format!("\"{}\"", ".".repeat(8 << 10)))?;
    let memory = |number: usize| event("a-b", number as i64).with_context(text.clone());
    let records: Vec<_> =
        provider.store_many((0..ROWS).map(memory).collect()).await?.into_iter().map(RecordId::from).collect();
    assert_eq!(provider.embed(&model(), embeddings(&records, 1)).await?, vec![true; ROWS]);

    let database = admin(&server.url()).await?.client().database("agent_memory");
    let query = MemoryQuery::builder().under("a").limit(3).build()?;
    let recalled = provider.recall(&MemoryRecall::new("", query)?.by_vector(vector(1))).await?;
    assert_eq!((recalled.hits.len(), recalled.unembedded), (3, Some(0)));
    let until = Instant::now() + Duration::from_secs(60);
    database.run_command(doc! { "profile": 2 }).await?;
    let found = engine.run(Access::Read, until, Arc::new(()), |reader, _| Box::pin(walk_heads(reader))).await?;
    database.run_command(doc! { "profile": 0 }).await?;
    assert_eq!(found, ROWS);
    let profile = database.collection::<Document>("system.profile");
    let walked = doc! { "ns": "agent_memory.memories", "command.projection.vector": 1 };
    let mut walks = profile.find(walked).await?;
    let (mut count, mut given, mut bytes) = (0, 0, 0);
    while walks.advance().await? {
        let walk = walks.deserialize_current()?;
        count += 1;
        given += walk.get_i32("nreturned")?;
        bytes += walk.get_i32("responseLength")?;
    }
    assert_eq!((count, given), (1, ROWS as i32));
    assert!(bytes < 300 * ROWS as i32, "{bytes} bytes");
    // A query does not read the vectors.
    database.run_command(doc! { "profile": 2 }).await?;
    provider.query(&MemoryQuery::builder().under("a").build()?).await?;
    database.run_command(doc! { "profile": 0 }).await?;
    let without = doc! { "ns": "agent_memory.memories", "command.projection.vector": 0 };
    assert!(profile.count_documents(without).await? > 0);

    // A read of one or several records by their ids receives none either.
    let id = |record: &RecordId| match record {
        RecordId::Memory(id) => Some(*id),
        RecordId::Document { .. } => None,
    };
    let ids: Vec<_> = records.iter().take(3).filter_map(id).collect();
    let documents = vec![provider.documents().put(note("x")).await?, provider.documents().put(note("y")).await?];
    let named: Vec<_> = documents.iter().map(RecordId::from).collect();
    assert_eq!(provider.embed(&model(), embeddings(&named, 1)).await?, [true, true]);
    database.run_command(doc! { "profile": 2 }).await?;
    let (until, asked) = (Instant::now() + Duration::from_secs(60), Arc::new((ids, documents)));
    let found = engine.run(Access::Read, until, asked, |reader, asked: &Named| Box::pin(read_by_ids(reader, asked)));
    let found = found.await?;
    database.run_command(doc! { "profile": 0 }).await?;
    assert_eq!(found, 1 + 3 + 1 + 2);
    let rows = ["agent_memory.memories", "agent_memory.documents"].as_slice();
    let mut by_ids = doc! { "ns": { "$in": rows }, "op": "query", "command.filter._id": { "$exists": true } };
    assert_eq!(profile.count_documents(by_ids.clone()).await?, 4);
    by_ids.insert("command.projection.vector", 0);
    assert_eq!(profile.count_documents(by_ids).await?, 4);
    engine.close().await?;
    Ok(())
}

/// How many memories a walk for heads along the whole ledger finds that have a vector.
async fn walk_heads<R: Reader>(reader: &mut R) -> Result<usize, Error> {
    let walk = Walk { count: 1_024, is_for_heads: true, has_vectors: true, ..Walk::EVERYTHING };
    let mut found = 0;
    let mut visit = |row: &dyn Row<Ledger>| -> Result<Verdict, Error> {
        found += usize::from(row.vector()?.is_some());
        Ok(Verdict::Skip)
    };
    assert_eq!(reader.walk_memories(&walk, &mut visit).await?, None);
    Ok(found)
}

/// Memories by their ids, and documents of one collection.
type Named = (Vec<MemoryId>, Vec<memory_core::Document>);

/// Reads the first of each, and then all of each. Tells how many records it finds.
async fn read_by_ids<R: Reader>(reader: &mut R, (memories, documents): &Named) -> Result<usize, Error> {
    let ids: Vec<_> = documents.iter().map(|document| document.id.clone()).collect();
    let (collection, mut found) = (&documents[0].collection, 0);
    for count in [1, memories.len()] {
        found += reader.memories(&memories[..count]).await?.into_values().flatten().count();
    }
    for count in [1, ids.len()] {
        found += reader.documents(collection, &ids[..count]).await?.into_iter().flatten().count();
    }
    Ok(found)
}

fn model() -> VectorModel {
    VectorModel::new("test", 4, Precision::Exact).expect("a model")
}

/// Another direction for each number.
fn vector(number: usize) -> Vector {
    Vector::new(&[1.0, number as f32, 0.0, 0.0]).expect("a vector")
}

/// Vectors of these records at one revision, by their places.
fn embeddings(records: &[RecordId], revision: u64) -> Vec<Embedding> {
    let revision = Revision::new(revision).expect("a revision");
    let embedding = |(number, record): (usize, &RecordId)| Embedding {
        record: record.clone(),
        revision,
        vector: vector(number),
        texts: None,
    };
    records.iter().enumerate().map(embedding).collect()
}

/// How many of these records have the vectors of their positions, at this revision; none has another vector.
async fn vectors(provider: &MongoMemory, records: &[RecordId], revision: u64) -> Result<usize, Error> {
    let found = provider.vectors(records).await?;
    for (found, given) in found.iter().zip(embeddings(records, revision)) {
        // The provider also returns the hash of its texts.
        let is_given = |found: &Embedding| *found == Embedding { texts: found.texts, ..given.clone() };
        assert!(found.as_ref().is_none_or(is_given), "{found:?}");
    }
    Ok(found.iter().flatten().count())
}

/// How many memories and documents have a vector in their rows, whether it counts or not.
async fn with_vector(database: &Database) -> mongodb::error::Result<[u64; 2]> {
    let has_vector = doc! { "vector": { "$exists": true } };
    let count = async |name| database.collection::<Document>(name).count_documents(has_vector.clone()).await;
    Ok([count("memories").await?, count("documents").await?])
}

/// Memories and documents as they were read.
type Read = (Vec<Found<Memory, i64>>, Vec<Found<memory_core::Document, i64>>);

async fn embed(engine: &MongoEngine, read: Read) -> Result<Vec<bool>, Error> {
    let until = Instant::now() + Duration::from_secs(60);
    let embedded =
        engine.run(Access::Write, until, Arc::new(read), |writer, read: &Read| Box::pin(embed_all(writer, read)));
    embedded.await
}

async fn embed_all<W: Writer<Version = i64>>(writer: &mut W, (memories, documents): &Read) -> Result<Vec<bool>, Error> {
    let found = memories.iter().map(EmbedRecord::Memory).chain(documents.iter().map(EmbedRecord::Document));
    let embeds: Vec<_> = found.enumerate().map(|(place, found)| Embed { found, vector: bytes(place) }).collect();
    writer.embed(&embeds).await
}

/// The vector that [`embed`] gives to the record at this position.
fn bytes(place: usize) -> Vec<u8> {
    vec![place as u8; 3]
}
