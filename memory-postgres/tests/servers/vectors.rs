//! Vectors: stored beside their records, whichever program writes, and however writers race.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Embedding,
    Error, ErrorKind, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Precision, Recall, RecordId,
    Revision, SpaceId, Trigger, Vector, VectorModel,
};
use memory_postgres::PostgresMemory;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use uuid::Uuid;

use crate::common::{Case, WAITS_FOR_A_LOCK, all, at, check, config, event, holds, open, run, until};
use crate::expiry::{OLDER_ERASURE, OLDER_NEW, OLDER_PUT, OLDER_REMOVAL, OLDER_STORE, OLDER_UPDATE};
use crate::migrations::{RAISE, WITHOUT_VECTORS};

/// All records with the transactions that wrote them, how many rows the feed has, and how many the histories.
const STATE: &str = "SELECT concat_ws(' ',
    (SELECT string_agg(concat(m, m.xmin), ' ' ORDER BY id) FROM agent_memory.memories m),
    (SELECT string_agg(concat(d, d.xmin), ' ' ORDER BY id) FROM agent_memory.documents d),
    (SELECT count(*) FROM agent_memory.changes),
    (SELECT count(*) FROM agent_memory.memory_history),
    (SELECT count(*) FROM agent_memory.document_history))";
/// The update of a program of the previous version, which names all columns that it may change.
const OLDER_STATUS: &str = "UPDATE agent_memory.memories
    SET status = 'failed', context = context, updated_at = 7, metadata = '{}', revision = revision + 1, expires_at = NULL";
const OLDER_CONTEXT: &str = "UPDATE agent_memory.memories
    SET status = 'failed', context = '\"a dog\"', updated_at = 7, metadata = '{}', revision = revision + 1, expires_at = NULL";
const OLDER_MOVE: &str = "UPDATE agent_memory.documents
    SET updated_at = 7, revision = revision + 1, space_id = 'c', metadata = '{}', content = content, expires_at = NULL";

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn write(id: &str, content: &str) -> DocumentWrite {
    let content = Content::parse(content).expect("valid");
    let write = DocumentWrite::new(notes(), "a-b".parse().expect("valid"), content, at(1));
    write.with_id(DocumentId::parse(id).expect("valid"))
}

fn model() -> VectorModel {
    VectorModel::new("a model", 2, Precision::Exact).expect("valid")
}

fn vector(numbers: &[f32]) -> Vector {
    Vector::new(numbers).expect("valid")
}

/// The vectors that records have, as they were given.
async fn kept_in(provider: &PostgresMemory, records: &[RecordId]) -> Result<Vec<Option<Embedding>>, Error> {
    let kept = provider.vectors(records).await?.into_iter();
    Ok(kept.map(|kept| kept.map(|kept| Embedding { texts: None, ..kept })).collect())
}

fn embedding(record: RecordId, revision: Revision, vector: &Vector) -> Embedding {
    Embedding { record, revision, vector: vector.clone(), texts: None }
}

async fn documents(provider: &PostgresMemory) -> Result<Vec<Document>, Error> {
    let query = DocumentQuery::builder(notes()).all().limit(100);
    Ok(provider.documents().query(&query.build()?).await?.documents)
}

/// Gives all records the same vector.
async fn embed_all(provider: &PostgresMemory, vector: &Vector) -> Case {
    let mut embeddings = Vec::new();
    for memory in all(provider).await? {
        embeddings.push(embedding(memory.id.into(), memory.revision, vector));
    }
    for document in documents(provider).await? {
        embeddings.push(embedding((&document).into(), document.revision, vector));
    }
    let count = embeddings.len();
    assert_eq!(provider.embed(&model(), embeddings).await?, vec![true; count]);
    Ok(())
}

/// Checks how many memories and how many documents have a vector.
async fn check_count(admin: &mut PgConnection, memories: i64, documents: i64) -> Case {
    let counts = "SELECT (SELECT count(*) FROM agent_memory.memory_vectors), (SELECT count(*) FROM agent_memory.document_vectors)";
    let counts: (i64, i64) = sqlx::query_as(counts).fetch_one(admin).await?;
    assert_eq!(counts, (memories, documents));
    Ok(())
}

/// Records that another program changes between the read and the embedding get no vector; the others do, and are not
/// changed.
pub(crate) fn changed_meanwhile() -> Case {
    const CHANGED: [usize; 2] = [6, 38];
    let server = LocalPostgres::start()?;
    run(async {
        let provider = Arc::new(open(config(server.url())).await?);
        provider.set_vector_model(&model()).await?;
        let ids = provider.store_many((1..=32).map(|number| event("a-b", number)).collect()).await?;
        let writes = (1..=32).map(|number| write(&format!("{number:02}"), "a cat")).collect();
        let put = provider.documents().put_many(writes).await?;
        let records: Vec<RecordId> = ids.iter().map(|id| (*id).into()).chain(put.iter().map(RecordId::from)).collect();
        let embeddings = |revisions: &[Revision], vector: &Vector| -> Vec<Embedding> {
            let each = records.iter().zip(revisions);
            each.map(|(record, revision)| embedding(record.clone(), *revision, vector)).collect()
        };
        let mut revisions = vec![Revision::FIRST; 64];
        let (first, second) = (vector(&[3.0, 4.0]), vector(&[-4.0, 3.0]));

        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("SET agent_memory.writer = 9").await?;
        let mut other = admin.begin().await?;
        let update = "UPDATE agent_memory.memories SET status = 'running', revision = 2 WHERE id = $1";
        sqlx::query(update).bind(Uuid::from_bytes(*ids[6].as_bytes())).execute(&mut *other).await?;
        other.execute("UPDATE agent_memory.documents SET metadata = '{\"a\":1}', revision = 2 WHERE id = '07'").await?;
        let (embedder, given) = (Arc::clone(&provider), embeddings(&revisions, &first));
        let racing = tokio::spawn(async move { embedder.embed(&model(), given).await });
        holds(server.url(), WAITS_FOR_A_LOCK).await?;
        other.commit().await?;
        let done = racing.await??;
        assert_eq!(done, (0..64).map(|place| !CHANGED.contains(&place)).collect::<Vec<_>>());
        let kept = kept_in(&provider, &records).await?;
        assert!(kept.iter().zip(&done).all(|(kept, done)| kept.is_some() == *done));
        check_count(&mut admin, 31, 31).await?;

        let state: String = sqlx::query_scalar(STATE).fetch_one(&mut admin).await?;
        for place in CHANGED {
            revisions[place] = Revision::new(2)?;
        }
        assert_eq!(provider.embed(&model(), embeddings(&revisions, &second)).await?, [true; 64]);
        let kept = kept_in(&provider, &records).await?;
        assert_eq!(kept, embeddings(&revisions, &second).into_iter().map(Some).collect::<Vec<_>>());
        assert_eq!(sqlx::query_scalar::<_, String>(STATE).fetch_one(&mut admin).await?, state);

        // Of several vectors for one record the last one stays.
        let several = [&first, &second, &first].map(|vector| embeddings(&revisions, vector).swap_remove(0));
        assert_eq!(provider.embed(&model(), several.into()).await?, [true; 3]);
        let kept = kept_in(&provider, &records[..1]).await?;
        assert_eq!(kept, [Some(embeddings(&revisions, &first).swap_remove(0))]);
        Ok(())
    })
}

/// The step is applied while a program of the previous version writes. That program continues, and records that it
/// changes have no vector any more.
pub(crate) fn beside_older_programs() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let config = config(server.url());
        open(config.clone()).await?.shutdown().await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        sqlx::raw_sql(WITHOUT_VECTORS).execute(&mut admin).await?;
        let (is_over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, count, url) = (Arc::clone(&is_over), Arc::clone(&done), server.url().to_owned());
        let writing = tokio::spawn(async move {
            let mut old = PgConnection::connect(&url).await?;
            old.execute("SET agent_memory.writer = 8").await?;
            while !over.load(Ordering::Relaxed) {
                for write in [OLDER_STORE, OLDER_UPDATE, OLDER_NEW, OLDER_PUT, OLDER_REMOVAL, OLDER_ERASURE] {
                    old.execute(write).await?;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, sqlx::Error>(old)
        });
        until(|| Ok(done.load(Ordering::Relaxed) > 10)).await?;
        assert_eq!(memory_postgres::migrate(&config).await?.applied, [(8, "vectors")]);
        let before = done.load(Ordering::Relaxed);
        until(|| Ok(done.load(Ordering::Relaxed) > before + 10)).await?;
        is_over.store(true, Ordering::Relaxed);
        let mut old = writing.await??;

        let provider = open(config).await?;
        let vector = vector(&[3.0, 4.0]);
        provider.set_vector_model(&model()).await?;
        provider.store(event("a-b", 1)).await?;
        provider.documents().put(write("n", "a cat")).await?;
        embed_all(&provider, &vector).await?;
        for write in [OLDER_UPDATE, OLDER_STATUS, OLDER_MOVE] {
            old.execute(write).await?;
            check_count(&mut admin, 1, 1).await?;
        }
        old.execute(OLDER_CONTEXT).await?;
        check_count(&mut admin, 0, 1).await?;
        old.execute(OLDER_PUT).await?;
        check_count(&mut admin, 0, 0).await?;
        embed_all(&provider, &vector).await?;
        // A change by hand.
        old.execute("UPDATE agent_memory.memories SET trigger = '2'").await?;
        old.execute("UPDATE agent_memory.documents SET id = 'another'").await?;
        check_count(&mut admin, 0, 0).await?;
        embed_all(&provider, &vector).await?;
        old.execute(OLDER_REMOVAL).await?;
        check_count(&mut admin, 1, 0).await?;
        old.execute(OLDER_ERASURE).await?;
        check_count(&mut admin, 0, 0).await
    })
}

/// Embedding races with batch writers and removals. No vector belongs to a text that its record no longer has, and
/// there is no deadlock.
pub(crate) fn raced() -> Case {
    const ROUNDS: usize = 30;
    const COUNT: i64 = 16;
    const TEXTS: [&str; 2] = ["\"a cat\"", "\"a dog\""];
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let provider = Arc::new(open(config).await?);
        provider.set_vector_model(&model()).await?;
        let ids = provider.store_many((1..=COUNT).map(|number| event("a-b", number)).collect()).await?;
        // Each vector identifies its text.
        let vectors = [vector(&[1.0, 0.0]), vector(&[0.0, 1.0])];
        let vector_of = |text: &str| TEXTS.iter().position(|other| *other == text).map(|place| vectors[place].clone());
        let present = async |provider: &PostgresMemory| {
            let mut embeddings = Vec::new();
            for memory in all(provider).await? {
                let vector = memory.context.as_ref().and_then(|context| vector_of(context.as_str()));
                embeddings.extend(vector.map(|vector| embedding(memory.id.into(), memory.revision, &vector)));
            }
            for document in documents(provider).await? {
                let vector = vector_of(document.content.as_str());
                embeddings.extend(vector.map(|vector| embedding((&document).into(), document.revision, &vector)));
            }
            Ok::<_, Error>(embeddings)
        };
        let writer = |first: usize| {
            let (provider, mut ids) = (Arc::clone(&provider), ids.clone());
            tokio::spawn(async move {
                for round in first..first + ROUNDS {
                    let text = TEXTS[round % 2];
                    let writes = (0..COUNT).map(|number| write(&format!("{number:02}"), text)).rev();
                    provider.documents().put_many(writes.collect()).await?;
                    if round % 5 == 0 {
                        let selection = DocumentSelection::ids(notes(), [DocumentId::parse("07")?])?;
                        provider.documents().remove(&selection, 1).await?;
                    }
                    ids.rotate_left(round % 7);
                    for id in &ids[..4] {
                        provider.update(*id, MemoryPatch::new().set_context(Context::parse(text)?)).await?;
                    }
                }
                Ok::<_, Error>(())
            })
        };
        let writers = [writer(0), writer(1)];
        let mut kept = 0;
        while !writers.iter().all(|writer| writer.is_finished()) {
            let (some, others) = (present(&provider).await?, present(&provider).await?);
            let others = others.into_iter().rev().collect();
            let model = model();
            let (some, others) = tokio::join!(provider.embed(&model, some), provider.embed(&model, others));
            kept += some?.into_iter().chain(others?).filter(|is_kept| *is_kept).count();
        }
        for writer in writers {
            writer.await??;
        }
        assert!(kept > 0, "nothing was embedded");
        let present = present(&provider).await?;
        let records: Vec<_> = present.iter().map(|embedding| embedding.record.clone()).collect();
        for (kept, present) in kept_in(&provider, &records).await?.into_iter().zip(&present) {
            assert!(kept.is_none_or(|kept| kept == *present), "{present:?} has the vector of an earlier text");
        }
        let log = std::fs::read_to_string(server.folder().join("log"))?;
        assert!(!log.contains("deadlock detected"), "{log}");
        Ok(())
    })
}

/// Nobody embeds in a read-only namespace, and no program does that is too old for it; existing vectors can be read.
pub(crate) fn refused() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        provider.set_vector_model(&model()).await?;
        let memory = RecordId::from(provider.store(event("a-b", 1)).await?);
        let document = RecordId::from(&provider.documents().put(write("n", "a cat")).await?);
        let (first, second) = (vector(&[3.0, 4.0]), vector(&[-4.0, 3.0]));
        embed_all(&provider, &first).await?;
        let embed = async |record: &RecordId| {
            provider.embed(&model(), vec![embedding(record.clone(), Revision::FIRST, &second)]).await
        };
        let each_is_refused = async || {
            let refused = [
                embed(&memory).await.map(drop),
                embed(&document).await.map(drop),
                provider.set_vector_model(&model()).await,
            ];
            refused.map(|refused| refused.expect_err("no write is taken"))
        };
        provider.set_read_only(true).await?;
        for error in each_is_refused().await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        }
        provider.set_read_only(false).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute(RAISE).await?;
        for error in each_is_refused().await {
            check(&error, ErrorKind::SchemaMismatch, "upgrade this program");
        }
        let kept = kept_in(&provider, &[memory.clone(), document.clone()]).await?;
        assert_eq!(kept, [memory, document].map(|record| Some(embedding(record, Revision::FIRST, &first))));
        Ok(())
    })
}

/// The vectors of records whose payloads are read after their slice, and vectors that do not fit into a page.
pub(crate) fn large() -> Case {
    const WIDTH: usize = 4_096;
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let model = VectorModel::new("a model", WIDTH, Precision::Exact)?;
        provider.set_vector_model(&model).await?;
        let numbers: Vec<_> = (0..WIDTH).map(|place| ((place * place) % 1_009) as f32 - 504.5).collect();
        let vector = vector(&numbers);
        let text = format!("a dog {}", "word ".repeat(30_000));
        let trigger = Trigger::parse(&format!(r#"{{"text":"{text}"}}"#))?;
        let id: MemoryId = provider.store(NewMemory::new(SpaceId::parse("a-b")?, trigger, at(1))).await?;
        provider.store(event("a-b", 2)).await?;
        let document = provider.documents().put(write("large", &text)).await?;
        provider.documents().put(write("small", "a dog")).await?;
        let of = [id.into(), (&document).into()];
        let embeddings: Vec<_> =
            of.iter().map(|record: &RecordId| embedding(record.clone(), Revision::FIRST, &vector)).collect();
        assert_eq!(provider.embed(&model, embeddings.clone()).await?, [true, true]);
        assert_eq!(kept_in(&provider, &of).await?, embeddings.into_iter().map(Some).collect::<Vec<_>>());
        for question in ["", "a dog"] {
            for scope in [MemoryQuery::builder().all(), MemoryQuery::builder().under("a")] {
                let found = provider.recall(&Recall::new(question, scope.build()?)?.by_vector(vector.clone())).await?;
                assert_eq!(found.hits.first().map(|hit| hit.record.id), Some(id), "{question:?}");
                assert_eq!((found.examined, found.unembedded), (2, Some(1)), "{question:?}");
            }
            for scope in [DocumentQuery::builder(notes()).all(), DocumentQuery::builder(notes()).under("a")] {
                let recall = Recall::new(question, scope.build()?)?.by_vector(vector.clone());
                let found = provider.documents().recall(&recall).await?;
                assert!(found.hits.iter().any(|hit| hit.record.id == document.id), "{question:?}");
                assert_eq!((found.examined, found.unembedded), (2, Some(1)), "{question:?}");
            }
        }
        Ok(())
    })
}
