//! Vectors beside rows, in Redis: when they are removed, what they leave unchanged, and what a recall reads of rows.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::server::redis::LocalRedis;
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::trial;
use libtest_mimic::Arguments;
use memory_core::engine::{Access, Embed, EmbedRecord, Engine as _, Reader, Row, Walk, Writer as _};
use memory_core::{
    Clock as _, Collection, Container, Content, Context, DocumentId, DocumentQuery, DocumentRecall, DocumentSelection,
    DocumentWrite, Embedding, Erasure, Error, ErrorKind, Ledger, MAX_WIDTH, MemoryId, MemoryPatch, MemoryProvider,
    MemoryQuery, MemoryRecall, Outcome, Precision, RecallOptions, RecordId, Result, Revision, SpaceId, Status,
    SystemClock, Timestamp, Vector, VectorModel, Verdict,
};
use memory_redis::{RedisConfig, RedisEngine, RedisMemory};
use redis::cmd;

mod common;
use common::{Admin, Case, PAYLOAD, event, open, run};

const PREFIX: &str = "{agent_memory}:";
const FEED: &str = "{agent_memory}:feed";
/// The number of records of a recall: more than are read at once.
const MANY: usize = 600;
/// How many bytes of payload each of these has.
const LENGTH: usize = 10_000;
/// The maximum bytes of a vector, with the bytes that name its model.
const LONGEST: usize = 4 * MAX_WIDTH + 13;
/// How many bytes one answer has at most.
const ANSWER: usize = 4 << 20;

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::a_vector_goes_with_its_texts", || run(a_vector_goes_with_its_texts_on_a_server())),
        trial("redis-cluster::a_vector_goes_with_its_texts", || run(a_vector_goes_with_its_texts_on_a_cluster())),
        trial("redis::what_has_changed_since_gets_no_vector", || run(what_has_changed_since_gets_no_vector())),
        trial("redis::what_is_refused_leaves_vectors_alone", || run(what_is_refused_leaves_vectors_alone())),
        trial("redis::a_recall_by_vector_finds_what_is_near", || run(a_recall_by_vector_finds_what_is_near())),
        trial("redis::long_vectors_are_read_some_at_once", || run(long_vectors_are_read_some_at_once())),
        trial("redis::a_namespace_goes_with_its_vectors", || run(a_namespace_goes_with_its_vectors())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn a_vector_goes_with_its_texts_on_a_server() -> Case {
    let server = LocalRedis::start()?;
    a_vector_goes_with_its_texts(&server.url()).await
}

async fn a_vector_goes_with_its_texts_on_a_cluster() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    a_vector_goes_with_its_texts(&cluster.url()).await
}

/// Looks at the keys, so that vectors that readers do not see are found, too.
async fn a_vector_goes_with_its_texts(url: &str) -> Case {
    let (provider, admin) = (open(RedisConfig::from_url(url)?).await?, Admin::of(url));
    let documents = provider.documents();
    provider.set_vector_model(&model()?).await?;
    let ids = provider.store_many((0..6).map(|time| event("a-b", time)).collect()).await?;
    let mut all: Vec<_> = ids.iter().copied().map(RecordId::from).collect();
    for id in 0..8 {
        documents.put(document(id, "a", "text")?).await?;
        all.push(named(id)?);
    }
    let entries = admin.query::<usize>(cmd("XLEN").arg(FEED)).await?;
    let row: Vec<u8> = admin.query(cmd("GET").arg(key("r:", ids[0].as_bytes()))).await?;
    assert_eq!(kept(&admin, &all).await?, BTreeSet::new());
    embed(&provider, &all).await?;
    let mut expected: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(kept(&admin, &all).await?, expected);
    assert_eq!(admin.query::<usize>(cmd("XLEN").arg(FEED)).await?, entries, "a watch is told of it");
    assert_eq!(admin.query::<Vec<u8>>(cmd("GET").arg(key("r:", ids[0].as_bytes()))).await?, row, "a row has changed");

    let end = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000)?;
    provider.update(ids[0], MemoryPatch::new().with_status(Status::Running).set_expiry(end)).await?;
    documents.put(document(0, "elsewhere", "text")?).await?;
    assert_eq!(kept(&admin, &all).await?, expected, "the texts have stayed");
    for record in [&all[0], &all[6]] {
        let found = provider.vectors(std::slice::from_ref(record)).await?.remove(0).ok_or("no vector")?;
        assert_eq!((found.revision.get(), found.vector), (2, vector(1.0)?), "{record:?}");
    }

    let other = || Context::parse(r#""other""#);
    provider.update(ids[1], MemoryPatch::new().set_context(other()?)).await?;
    expected.remove(&all[1]);
    documents.put(document(1, "a", "other")?).await?;
    expected.remove(&named(1)?);
    assert_eq!(kept(&admin, &all).await?, expected, "the texts have changed");

    let removed = [2, 3, 4].map(|id| DocumentId::parse(id.to_string()).expect("an id"));
    assert_eq!(documents.remove(&DocumentSelection::ids(collection()?, removed)?, 3).await?.len(), 3);
    for id in [2, 3, 4] {
        expected.remove(&named(id)?);
    }
    assert_eq!(kept(&admin, &all).await?, expected, "documents were removed");

    let erased = [all[2].clone(), all[3].clone(), named(5)?];
    assert_eq!(provider.erase(&Erasure::records(erased.clone(), "they are old")?).await?.records.len(), 3);
    expected.retain(|record| !erased.contains(record));
    assert_eq!(kept(&admin, &all).await?, expected, "records were erased");

    documents.put(document(2, "a", "text")?).await?;
    assert_eq!(kept(&admin, &all).await?, expected, "one has come again");
    // The server has dropped a row, and another document is put in its place.
    admin.query::<()>(cmd("DEL").arg(key("e:notes:", b"6"))).await?;
    documents.put(document(6, "a", "other")?).await?;
    expected.remove(&named(6)?);
    assert_eq!(kept(&admin, &all).await?, expected, "another one has come");
    // Likewise the row of a memory, which a restore brings back as it was.
    let copy = provider.get(ids[4]).await?.ok_or("gone")?;
    admin.query::<()>(cmd("DEL").arg(key("r:", ids[4].as_bytes()))).await?;
    assert_eq!(provider.restore(vec![copy.clone()]).await?.written, 1);
    expected.remove(&all[4]);
    assert_eq!(kept(&admin, &all).await?, expected, "one was brought back");
    // A restore of an existing memory leaves its vector alone.
    embed(&provider, &all[4..5]).await?;
    expected.insert(all[4].clone());
    assert_eq!(provider.restore(vec![copy]).await?.equal, 1);
    assert_eq!(kept(&admin, &all).await?, expected, "one was there");
    assert_eq!(expected.len(), 5);
    let found = provider.vectors(&all).await?;
    let with = all.iter().zip(found).filter_map(|(record, found)| found.map(|_| record.clone()));
    assert_eq!(with.collect::<BTreeSet<_>>(), expected);
    Ok(())
}

/// Whatever has changed; the other records get their vectors.
async fn what_has_changed_since_gets_no_vector() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let (provider, engine, admin) =
        (open(config.clone()).await?, RedisEngine::open(&config).await?, Admin::of(&server.url()));
    let ids = provider.store_many((0..4).map(|time| event("a-b", time)).collect()).await?;
    provider.documents().put(document(0, "a", "text")?).await?;
    let asked = Arc::new((provider.clone(), ids.clone(), server.url()));
    let until = Instant::now() + Duration::from_secs(60);
    let kept_ones = engine.run(Access::Write, until, asked, |writer, asked| {
        Box::pin(async move {
            let (provider, ids, url) = asked;
            let (collection, id) = (collection()?, DocumentId::parse("0")?);
            let (memories, documents) =
                (writer.memories(ids).await?, writer.documents(&collection, std::slice::from_ref(&id)).await?);
            provider.update(ids[0], MemoryPatch::new().with_status(Status::Running)).await?;
            provider.erase(&Erasure::records([ids[1].into()], "it is old")?).await?;
            // The same text at the same revision.
            provider.documents().remove(&DocumentSelection::ids(collection, [id])?, 1).await?;
            provider.documents().put(document(0, "a", "text")?).await?;
            // The same at the same revision, whose row was lost.
            let copy = provider.get(ids[3]).await?.ok_or_else(|| Error::corrupt("a memory is gone"))?;
            let lost = Admin::of(url).query::<i64>(cmd("DEL").arg(key("r:", ids[3].as_bytes()))).await;
            assert_eq!(lost.ok(), Some(1));
            assert_eq!(provider.restore(vec![copy]).await?.written, 1);
            let memory =
                |id: &MemoryId| memories.get(id).and_then(|found| found.as_ref().ok()).map(EmbedRecord::Memory);
            let found = ids.iter().filter_map(memory);
            let found = found.chain(documents.iter().flatten().map(EmbedRecord::Document));
            let embeds: Vec<_> = found.map(|found| Embed { found, vector: vec![1; 20] }).collect();
            writer.embed(&embeds).await
        })
    });
    assert_eq!(kept_ones.await?, [false, false, true, false, false]);
    let mut all: Vec<_> = ids.iter().copied().map(RecordId::from).collect();
    all.push(named(0)?);
    assert_eq!(kept(&admin, &all).await?, BTreeSet::from([all[2].clone()]));
    Ok(())
}

/// Whoever refuses it: the operator's fence on the namespace, or the server, which denies a command.
async fn what_is_refused_leaves_vectors_alone() -> Case {
    let server = LocalRedis::start()?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    provider.set_vector_model(&model()?).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let (all, mut expected) = (vec![RecordId::from(id), named(0)?], BTreeSet::new());
    provider.documents().put(document(0, "a", "text")?).await?;
    let as_guest = async |denied: &str| {
        server.command(&["ACL", "SETUSER", "guest", "reset", "on", ">guest", "~*", "+@all", denied])?;
        let url = server.url().replace(&format!(":{}@", server.password()), "guest:guest@");
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(open(RedisConfig::from_url(&url)?).await?)
    };
    let embedding = || {
        Ok::<_, Error>(Embedding { record: id.into(), revision: Revision::FIRST, vector: vector(2.0)?, texts: None })
    };
    let check = |error: Error, kind: ErrorKind| assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));

    provider.set_read_only(true).await?;
    let refused = provider.embed(&model()?, vec![embedding()?]).await;
    check(refused.expect_err("read-only"), ErrorKind::Unavailable);
    check(provider.set_vector_model(&model()?).await.expect_err("read-only"), ErrorKind::Unavailable);
    provider.set_read_only(false).await?;
    let guest = as_guest("-set").await?;
    check(guest.embed(&model()?, vec![embedding()?]).await.expect_err("no permission"), ErrorKind::Unauthorized);
    check(guest.set_vector_model(&model()?).await.expect_err("no permission"), ErrorKind::Unauthorized);
    assert_eq!(kept(&admin, &all).await?, expected);

    embed(&provider, &all).await?;
    expected.extend(all.iter().cloned());
    let guest = as_guest("-del").await?;
    let other = MemoryPatch::new().set_context(Context::parse(r#""other""#)?);
    check(guest.update(id, other).await.expect_err("no permission"), ErrorKind::Unauthorized);
    let one = DocumentSelection::ids(collection()?, [DocumentId::parse("0")?])?;
    for error in [
        guest.documents().put(document(0, "a", "other")?).await.expect_err("no permission"),
        guest.documents().remove(&one, 1).await.expect_err("no permission"),
        guest.erase(&Erasure::records(all.clone(), "they are old")?).await.expect_err("no permission"),
    ] {
        check(error, ErrorKind::Unauthorized);
    }
    assert_eq!(kept(&admin, &all).await?, expected);
    assert_eq!(provider.get(id).await?.ok_or("gone")?.revision, Revision::FIRST);
    // A write that deletes no vector needs no right to do so.
    guest.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    guest.store(event("a-b", 2)).await?;
    assert_eq!(kept(&admin, &all).await?, expected);
    // A restore may find the vector of a row that was lost.
    let copy = provider.get(id).await?.ok_or("gone")?;
    admin.query::<()>(cmd("DEL").arg(key("r:", id.as_bytes()))).await?;
    check(guest.restore(vec![copy.clone()]).await.expect_err("no permission"), ErrorKind::Unauthorized);
    assert_eq!(provider.get(id).await?, None);
    assert_eq!(provider.restore(vec![copy]).await?.written, 1);
    embed(&provider, &all[..1]).await?;
    assert_eq!(kept(&admin, &all).await?, expected);

    let reader = as_guest("-@write").await?;
    assert_eq!(reader.vector_model().await?, Some(model()?));
    assert!(reader.vectors(&all).await?.iter().all(Option::is_some));
    Ok(())
}

/// Without words. A question that has words, too, finds the same.
async fn a_recall_by_vector_finds_what_is_near() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    provider.set_vector_model(&model()?).await?;
    let context = Context::parse(&format!("\"{}\"", "x".repeat(LENGTH)))?;
    let memory = |place: usize| event(&format!("a-{place}"), place as i64).with_context(context.clone());
    let ids = provider.store_many((0..MANY).map(memory).collect()).await?;
    // The last one has none.
    let embeddings = ids[..MANY - 1].iter().enumerate().map(|(place, id)| {
        let (record, revision) = (RecordId::from(*id), Revision::FIRST);
        Ok::<_, Error>(Embedding { record, revision, vector: vector(place as f32 / MANY as f32)?, texts: None })
    });
    let embeddings = embeddings.collect::<Result<Vec<_>>>()?;
    assert_eq!(provider.embed(&model()?, embeddings).await?, vec![true; MANY - 1]);
    // Each record has its own container.
    let options = || RecallOptions { container: Container::Depth(2), ..RecallOptions::default() };
    for question in ["", PAYLOAD] {
        let query = MemoryQuery::builder().under("a").limit(3).build()?;
        let recall = MemoryRecall::with(question, query, options())?.by_vector(vector(300.0 / MANY as f32)?);
        let found = provider.recall(&recall).await?;
        assert_eq!((found.examined, found.unembedded), (MANY, Some(1)), "{question:?}");
        let (first, best) = (found.hits.first().ok_or("no hit")?, ids[300]);
        assert_eq!((first.record.id, found.hits.len()), (best, 3), "{question:?}");
    }

    let documents = provider.documents();
    for id in 0..3 {
        documents.put(document(id, &format!("a-{id}"), "text")?).await?;
        let revision = Revision::FIRST;
        let embedding = Embedding { record: named(id)?, revision, vector: vector(id as f32 / 3.0)?, texts: None };
        assert_eq!(provider.embed(&model()?, vec![embedding]).await?, [true]);
    }
    let query = DocumentQuery::builder(collection()?).all().limit(1).build()?;
    let found = documents.recall(&DocumentRecall::with("", query, options())?.by_vector(vector(0.3)?)).await?;
    assert_eq!((found.examined, found.unembedded), (3, Some(0)));
    assert_eq!(found.hits.first().ok_or("no hit")?.record.id.as_str(), "1");
    Ok(())
}

/// Also after short ones, as while another model takes over: checked by the server's log of what is read at once. By
/// its count, a walk over heads reads no payloads.
async fn long_vectors_are_read_some_at_once() -> Case {
    let server = LocalRedis::start_with(&[("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1000000")])?;
    let (config, admin) = (RedisConfig::from_url(&server.url())?, Admin::of(&server.url()));
    let (provider, engine) = (open(config.clone()).await?, RedisEngine::open(&config).await?);
    let context = Context::parse(&format!("\"{}\"", "x".repeat(LENGTH)))?;
    let memory = |time: usize| event("a-b", time as i64).with_context(context.clone());
    let ids = provider.store_many((0..MANY).map(memory).collect()).await?;
    // A walk begins with the newest.
    let length = |place: usize| if place < MANY / 2 { LONGEST } else { 20 };
    let keep = |(place, id): (usize, &MemoryId)| {
        cmd("SET").arg(key("v:", id.as_bytes())).arg(vec![1_u8; length(place)]).clone()
    };
    admin.pipeline(&ids.iter().enumerate().map(keep).collect::<Vec<_>>()).await?;
    let sent = || {
        let stats = server.command(&["INFO", "stats"])?;
        let sent = stats.lines().find_map(|line| line.trim().strip_prefix("total_net_output_bytes:"));
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(sent.ok_or("no count")?.parse::<usize>()?)
    };
    server.command(&["SLOWLOG", "RESET"])?;
    let (before, until) = (sent()?, Instant::now() + Duration::from_secs(60));
    let found = engine.run(Access::Read, until, Arc::new(()), |reader, _| Box::pin(lengths(reader))).await?;
    let (sent, of_vectors) = (sent()? - before, MANY / 2 * (LONGEST + 20));
    assert!(found.into_iter().rev().eq((0..MANY).map(length)), "a vector is another one");
    assert!(sent < of_vectors + MANY * LENGTH / 2, "{sent} bytes");

    type Entry = (i64, i64, i64, Vec<Vec<u8>>, String, String);
    let log: Vec<Entry> = admin.query(cmd("SLOWLOG").arg("GET").arg(-1)).await?;
    // The rows of an answer are asked for before its vectors.
    let (row, mut answers, mut goes_on) = (key("r:", b""), Vec::<usize>::new(), false);
    for (_, _, _, arguments, ..) in log.iter().rev() {
        let is_of_row = arguments[0] == b"GETRANGE";
        if is_of_row && !goes_on {
            answers.push(0);
        }
        if is_of_row && let Some(answer) = answers.last_mut() {
            let id = arguments[1].strip_prefix(row.as_slice()).ok_or("another key")?;
            let place = ids.iter().position(|other| other.as_bytes().as_slice() == id).ok_or("another memory")?;
            *answer += length(place);
        }
        goes_on = is_of_row;
    }
    assert_eq!(answers.iter().sum::<usize>(), of_vectors);
    assert!(answers.iter().all(|bytes| *bytes <= ANSWER), "{answers:?}");
    engine.close().await?;
    Ok(())
}

/// How many bytes the vectors have that a walk for heads has found along the whole ledger.
async fn lengths<R: Reader>(reader: &mut R) -> Result<Vec<usize>> {
    let walk = Walk { is_for_heads: true, has_vectors: true, ..Walk::EVERYTHING };
    let mut lengths = Vec::new();
    let mut visit = |row: &dyn Row<Ledger>| -> Result<Verdict> {
        lengths.push(row.vector()?.map_or(0, <[u8]>::len));
        Ok(Verdict::Skip)
    };
    assert_eq!(reader.walk_memories(&walk, &mut visit).await?, None);
    Ok(lengths)
}

async fn a_namespace_goes_with_its_vectors() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let provider = open(config.clone()).await?;
    provider.set_vector_model(&model()?).await?;
    let id = provider.store(event("a-b", 1)).await?;
    provider.documents().put(document(0, "a", "text")?).await?;
    let all = [id.into(), named(0)?];
    embed(&provider, &all).await?;
    assert_eq!(kept(&Admin::of(&server.url()), &all).await?.len(), 2);
    provider.shutdown().await?;
    memory_redis::remove(&config).await?;
    assert_eq!(server.command(&["DBSIZE"])?, "0");
    Ok(())
}

/// Gives records a vector at the revision that they have, and checks that each has taken it.
async fn embed(provider: &RedisMemory, records: &[RecordId]) -> Case {
    let mut embeddings = Vec::new();
    for record in records {
        let revision = match record {
            RecordId::Memory(id) => provider.get(*id).await?.ok_or("gone")?.revision,
            RecordId::Document { collection, id } => {
                provider.documents().get(collection, id).await?.ok_or("gone")?.revision
            }
        };
        embeddings.push(Embedding { record: record.clone(), revision, vector: vector(1.0)?, texts: None });
    }
    assert_eq!(provider.embed(&model()?, embeddings).await?, vec![true; records.len()]);
    Ok(())
}

/// Those of these records that have a vector on the server.
async fn kept(admin: &Admin, of: &[RecordId]) -> redis::RedisResult<BTreeSet<RecordId>> {
    let mut kept = BTreeSet::new();
    for record in of {
        let key = match record {
            RecordId::Memory(id) => key("v:", id.as_bytes()),
            RecordId::Document { collection, id } => key("ev:", format!("{collection}:{id}").as_bytes()),
        };
        if admin.query::<bool>(cmd("EXISTS").arg(key)).await? {
            kept.insert(record.clone());
        }
    }
    Ok(kept)
}

fn key(kind: &str, name: &[u8]) -> Vec<u8> {
    [PREFIX.as_bytes(), kind.as_bytes(), name].concat()
}

/// The direction of an angle.
fn vector(angle: f32) -> Result<Vector> {
    Vector::new(&[angle.cos(), angle.sin()])
}

fn model() -> Result<VectorModel> {
    VectorModel::new("a model", 2, Precision::Exact)
}

fn collection() -> Result<Collection> {
    Collection::parse("notes")
}

fn named(id: usize) -> Result<RecordId> {
    Ok((collection()?, DocumentId::parse(id.to_string())?).into())
}

fn document(id: usize, space: &str, content: &str) -> Result<DocumentWrite> {
    let (space, content, time) = (SpaceId::parse(space)?, Content::parse(content)?, Timestamp::from_millis(1)?);
    Ok(DocumentWrite::new(collection()?, space, content, time).with_id(DocumentId::parse(id.to_string())?))
}
