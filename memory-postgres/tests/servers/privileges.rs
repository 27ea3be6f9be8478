//! The privileges that the README lists: enough, and not one too many.

use std::sync::Arc;
use std::time::Duration;

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Embedding, Erasure,
    Error, ErrorKind, History, IdempotencyKey, ManualClock, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery,
    Precision, Recall, Retention, Revision, Sweep, Vector, VectorModel, Watch, Watched,
};
use memory_postgres::{Password, PostgresConfig, PostgresMemory};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::common::{Case, SECRET, at, check, config, event, open, run};
use crate::migrations::{WITHOUT_ERASURE, WITHOUT_EXPIRY, WITHOUT_FEED, WITHOUT_HISTORY, WITHOUT_VECTORS};

/// The purpose of a role, which includes all purposes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Does {
    Reads,
    Writes,
    Erases,
}

const README: &str = include_str!("../../README.md");

pub(crate) fn documented() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let sql = listed(&mut admin).await?;
        let config = |role: &str| as_role(&server, role);
        let (of_migrator, grants): (Vec<_>, Vec<_>) =
            grants(&sql).into_iter().partition(|grant| grant.ends_with("TO migrator"));
        for grant in of_migrator {
            execute(&mut admin, &format!("GRANT {grant}")).await?;
        }
        work(&mut admin, config("migrator"), Does::Erases).await??;
        for grant in &grants {
            execute(&mut admin, &format!("GRANT {grant}")).await?;
        }
        let mut count = 0;
        // The reader comes first, since a backfill that the writer may not do stays pending.
        for (role, does) in [("reader", Does::Reads), ("writer", Does::Writes), ("eraser", Does::Erases)] {
            work(&mut admin, config(role), does).await??;
            for grant in &grants {
                let (privileges, rest) = grant.split_once(" ON ").ok_or("a privilege on something")?;
                let (objects, roles) = rest.split_once(" TO ").ok_or("a privilege for somebody")?;
                let of_role = roles.split(", ").any(|other| other == role);
                for privilege in privileges.split(", ").filter(|_| of_role) {
                    for object in objects.split(", ") {
                        execute(&mut admin, &format!("REVOKE {privilege} ON {object} FROM {role}")).await?;
                        let refused = work(&mut admin, config(role), does).await?.expect_err(grant);
                        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
                        execute(&mut admin, &format!("GRANT {privilege} ON {object} TO {role}")).await?;
                        count += 1;
                    }
                }
            }
        }
        assert!(count > 20, "only {count} privileges are listed");
        work(&mut admin, config("writer"), Does::Writes).await??;
        let reader = open(config("reader")).await?;
        let refused = reader.store(event("a-b", 1)).await.expect_err("it may only read");
        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
        assert_eq!(memory_postgres::migrate(&config("reader")).await?.applied, []);
        assert_eq!(memory_postgres::inspect(&config("reader")).await?.missing, [""; 0]);
        Ok(())
    })
}

/// The steps from the feed on give roles that may write and read records the rights on their tables.
pub(crate) fn of_later_steps() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        let sql = listed(&mut admin).await?;
        open(config(server.url())).await?.shutdown().await?;
        for without in [WITHOUT_VECTORS, WITHOUT_EXPIRY, WITHOUT_ERASURE, WITHOUT_HISTORY, WITHOUT_FEED] {
            execute(&mut admin, without).await?;
        }
        let later = ["agent_memory.changes", "history", "tombstone", "expiry", "retention", "vector"];
        let is_later = |grant: &str| later.iter().any(|of| grant.contains(of));
        for grant in grants(&sql).into_iter().filter(|grant| !is_later(grant)) {
            execute(&mut admin, &format!("GRANT {grant}")).await?;
        }
        // Whoever writes first decides whether there is a history.
        memory_postgres::migrate(&config(server.url())).await?;
        for (role, does) in [("writer", Does::Writes), ("reader", Does::Reads)] {
            work(&mut admin, as_role(&server, role), does).await??;
        }
        let writer = open(as_role(&server, "writer")).await?;
        let refused = erase(&writer).await.expect_err("nobody was granted that");
        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
        let reader = open(as_role(&server, "reader")).await?;
        let refused = reader.store(event("a-b", 1)).await.expect_err("it may only read");
        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
        Ok(())
    })
}

/// A role that may write only documents writes and reads their history, and learns nothing of memories.
pub(crate) fn of_documents_alone() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        listed(&mut admin).await?;
        open(config(server.url())).await?.shutdown().await?;
        for without in [WITHOUT_VECTORS, WITHOUT_EXPIRY, WITHOUT_ERASURE, WITHOUT_HISTORY] {
            execute(&mut admin, without).await?;
        }
        for grant in [
            "USAGE ON SCHEMA agent_memory",
            "SELECT ON agent_memory.schema_migrations, agent_memory.paths_backfill, agent_memory.secrets",
            "SELECT, INSERT, UPDATE, DELETE ON agent_memory.documents",
            "SELECT, INSERT, DELETE ON agent_memory.document_paths",
            "INSERT ON agent_memory.changes",
        ] {
            execute(&mut admin, &format!("GRANT {grant} TO writer")).await?;
        }
        let owner = open(config(server.url())).await?;
        owner.set_vector_model(&model()?).await?;
        let id = owner.store(event("a-b", 1)).await?;

        let provider = open(as_role(&server, "writer")).await?;
        let document = DocumentWrite::new(notes(), "a-b".parse()?, content(), at(1));
        let put = provider.documents().put(document).await?;
        let embedding = Embedding { record: (&put).into(), revision: put.revision, vector: vector()?, texts: None };
        assert_eq!(provider.embed(&model()?, vec![embedding]).await?, [true]);
        assert_eq!(provider.documents().remove(&DocumentSelection::ids(notes(), [put.id.clone()])?, 1).await?.len(), 1);
        let history = History::of((notes(), put.id)).with_removed();
        assert_eq!(provider.history(&history).await?.versions.len(), 2);
        let refused = provider.history(&History::of(id)).await.expect_err("it may not read memories");
        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
        let refused = provider.vectors(&[id.into()]).await.expect_err("it may not read what they mean");
        check(&refused, ErrorKind::Unauthorized, "the role lacks a permission");
        Ok(())
    })
}

/// Makes the roles, and returns the SQL of the README.
async fn listed(admin: &mut PgConnection) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let (_, sql) = README.split_once("```sql\n").ok_or("the README lists the privileges")?;
    let (sql, _) = sql.split_once("```").ok_or("the list has an end")?;
    for role in ["migrator", "writer", "reader"] {
        execute(admin, &format!("CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'")).await?;
    }
    execute(admin, &format!("CREATE ROLE eraser LOGIN PASSWORD '{SECRET}' IN ROLE writer")).await?;
    Ok(sql.replace("DATABASE agents", "DATABASE postgres"))
}

fn as_role(server: &LocalPostgres, role: &str) -> PostgresConfig {
    let mut config = config(server.url());
    config.server.user = Some(role.to_owned());
    config.server.password = Some(Password(SECRET.to_owned()));
    config
}

/// The rights of the lines, without the verb.
fn grants(sql: &str) -> Vec<&str> {
    sql.lines().filter_map(|line| line.strip_prefix("GRANT ")?.strip_suffix(';')).collect()
}

/// Does everything that a role is for. For a writing role, the ledger has a pending backfill, no decision about a
/// history, and no key.
async fn work(
    admin: &mut PgConnection,
    mut config: PostgresConfig,
    does: Does,
) -> Result<Result<(), Error>, Box<dyn std::error::Error + Send + Sync>> {
    if does >= Does::Writes {
        // Before there is a schema, there is nothing to reset.
        let undecided = "DO $$ BEGIN DELETE FROM agent_memory.history_begin; DELETE FROM agent_memory.tombstone_key;
            EXCEPTION WHEN undefined_table OR invalid_schema_name THEN END $$";
        execute(admin, undecided).await?;
    }
    let clock = Arc::new(ManualClock::new(at(1_000)));
    config.clock = Arc::<ManualClock>::clone(&clock);
    let provider = match open(config).await {
        Ok(provider) => provider,
        Err(error) => return Ok(Err(error)),
    };
    if does >= Does::Writes {
        let again = "DELETE FROM agent_memory.paths_backfill;
            INSERT INTO agent_memory.paths_backfill (collection, id, done) VALUES ('', '', 0);
            UPDATE agent_memory.schema_migrations SET complete = FALSE WHERE name = 'paths'";
        execute(admin, again).await?;
    }
    let done = async {
        if does >= Does::Writes {
            write(&provider).await?;
        }
        if does == Does::Erases {
            erase(&provider).await?;
            sweep(&provider, &clock).await?;
        }
        read(&provider).await
    };
    let done = done.await;
    provider.shutdown().await?;
    Ok(done)
}

async fn write(provider: &PostgresMemory) -> Result<(), Error> {
    while provider.backfill().await?.is_some() {}
    let key = || IdempotencyKey::parse(uuid::Uuid::now_v7().to_string()).expect("valid");
    let id = provider.store(event("a-b", 1)).await?;
    provider.store_many(vec![event("a-b", 1), event("a-b", 2).with_idempotency_key(key())]).await?;
    provider.update(id, MemoryPatch::new().set_context(Context::parse("\"a dog\"")?)).await?;
    let documents = provider.documents();
    // For the next backfill.
    documents
        .put(DocumentWrite::new(notes(), "a-b".parse()?, content(), at(1)).with_id(DocumentId::parse("kept")?))
        .await?;
    let document = || DocumentWrite::new(notes(), "a-b".parse().expect("valid"), content(), at(1));
    let put = documents.put(document()).await?;
    documents.put(document().with_id(put.id.clone())).await?;
    assert_eq!(documents.remove(&DocumentSelection::ids(notes(), [put.id.clone()])?, 1).await?, [put.id]);
    // The expiry time is set, and then cleared.
    let id = provider.store(event("a-b", 1).expires_at(at(5_000))).await?;
    provider.update(id, MemoryPatch::new().clear_expiry()).await?;
    let put = documents.put(document().expires_at(at(5_000))).await?;
    documents.put(document().with_id(put.id)).await?;
    // A record that gets a vector, and then another text.
    provider.set_vector_model(&model()?).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let put = documents.put(document()).await?;
    let embedding = |record, revision| Ok::<_, Error>(Embedding { record, revision, vector: vector()?, texts: None });
    let embeddings = vec![embedding(id.into(), Revision::FIRST)?, embedding((&put).into(), put.revision)?];
    assert_eq!(provider.embed(&model()?, embeddings).await?, [true, true]);
    provider.update(id, MemoryPatch::new().set_context(Context::parse("\"a dog\"")?)).await?;
    assert_eq!(documents.remove(&DocumentSelection::ids(notes(), [put.id.clone()])?, 1).await?, [put.id]);
    Ok(())
}

async fn erase(provider: &PostgresMemory) -> Result<(), Error> {
    let id = provider.store(event("a-b", 1)).await?;
    let put = provider.documents().put(DocumentWrite::new(notes(), "a-b".parse()?, content(), at(1))).await?;
    let erasure = Erasure::records([id.into(), (notes(), put.id).into()], "a test")?;
    assert_eq!(provider.erase(&erasure).await?.records.len(), 2);
    Ok(())
}

/// Adds and removes a rule, erases expired records, and removes their tombstones when their time is over.
async fn sweep(provider: &PostgresMemory, clock: &ManualClock) -> Result<(), Error> {
    provider.set_retention(vec![Retention::new("nowhere", Duration::from_secs(1))?]).await?;
    provider.set_retention(Vec::new()).await?;
    provider.store(event("a-b", 1).expires_at(at(5_000))).await?;
    let document = DocumentWrite::new(notes(), "a-b".parse()?, content(), at(1)).expires_at(at(5_000));
    provider.documents().put(document).await?;
    for millis in [5_000, 5_000 + 91 * 24 * 60 * 60 * 1_000] {
        clock.set(at(millis));
        let mut next = Some(Sweep::all());
        while let Some(from) = next {
            next = provider.sweep(&from).await?.next;
        }
    }
    Ok(())
}

async fn read(provider: &PostgresMemory) -> Result<(), Error> {
    provider.check_health().await?;
    let page = provider.query(&MemoryQuery::builder().under("a").build()?).await?;
    for memory in page.memories.iter().take(1) {
        provider.get(memory.id).await?;
        provider.history(&History::of(memory.id)).await?;
    }
    provider.history(&History::of((notes(), DocumentId::parse("kept")?))).await?;
    assert_eq!(provider.get(MemoryId::generate()).await?, None);
    provider.tombstone(&(notes(), DocumentId::parse("kept")?).into()).await?;
    provider.documents().query(&DocumentQuery::builder(notes()).all().build()?).await?;
    provider.documents().query(&DocumentQuery::builder(notes()).under("a").build()?).await?;
    provider.documents().collections().await?;
    // As a watch does that meets an erasure.
    provider.hash_key().await?;
    provider.retention().await?;
    // The writer, who runs before, has set a model.
    provider.vectors(&[MemoryId::generate().into()]).await?;
    provider.vectors(&[(notes(), DocumentId::parse("kept")?).into()]).await?;
    let by_vector = Recall::new("", MemoryQuery::builder().under("a").build()?)?.by_vector(vector()?);
    provider.recall(&by_vector).await?;
    provider.watch(&Watch::new(Watched::Memories, MemoryQuery::builder().all())?).await.map(drop)
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn model() -> Result<VectorModel, Error> {
    VectorModel::new("a model", 2, Precision::Compact)
}

fn vector() -> Result<Vector, Error> {
    Vector::new(&[3.0, 4.0])
}

fn content() -> Content {
    Content::parse("a cat").expect("valid")
}

async fn execute(admin: &mut PgConnection, sql: &str) -> Case {
    admin.execute(AssertSqlSafe(sql.to_owned())).await?;
    Ok(())
}
