//! The plans of recalls, as the server itself explains them while it runs them.

use std::fs;
use std::sync::Arc;

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Collection, DocumentId, DocumentQuery, Embedding, History, ManualClock, MemoryId, MemoryProvider, MemoryQuery,
    Metadata, Order, Precision, Recall, RecordId, Revision, SpaceId, SpaceSelector, Status, Sweep, Vector, VectorModel,
};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::common::{Case, at, config, event, open, run};

const ROWS: i64 = 100_000;
/// No step of a plan may see more rows than this: the heads of a dozen lists do not, and a walk by time to the newest 50 of a
/// hundredth of the ledger does.
const MOST_ROWS: u64 = 4_000;
/// Often enough that the server also makes the generic plan, which knows no values.
const TIMES: usize = 7;

const EXPLAINS: [(&str, &str); 4] = [
    ("session_preload_libraries", "auto_explain"),
    ("auto_explain.log_min_duration", "0"),
    ("auto_explain.log_analyze", "on"),
    ("auto_explain.log_timing", "off"),
];

const DOCUMENTS: &str = "
    INSERT INTO agent_memory.documents (collection, id, created_at, revision, space_id, metadata, content)
    SELECT 'notes', 'note-' || n, n, 1, 'guild-' || n % 100 || '-' || n, '{}', 'word' || n
    FROM generate_series(1, 100000) AS n";

pub(crate) fn no_scan() -> Case {
    let server = LocalPostgres::start_with(&EXPLAINS)?;
    run(async {
        let provider = open(config(server.url())).await?;
        for start in (0..ROWS).step_by(10_000) {
            let space = |number| match number % 5_000 {
                1 => format!("plugin-sparse-{number}"),
                _ => format!("plugin-discord-{}-{}-{number}", number % 100, number % 1_000),
            };
            let metadata = |number| Metadata::parse(&format!(r#"{{"digit":{}}}"#, number % 10)).expect("valid");
            let status = |number| if number % 1_000 == 0 { Status::Pending } else { Status::Completed };
            let row =
                |number| event(&space(number), number).with_status(status(number)).with_metadata(metadata(number));
            provider.store_many((start..start + 10_000).map(row).collect()).await?;
        }
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("SET agent_memory.writer = 7").await?;
        admin.execute(DOCUMENTS).await?;
        admin.execute("ANALYZE").await?;
        let file = server.folder().join("log");
        let log_since = |start: usize| fs::read_to_string(&file).map(|mut log| log.split_off(start));
        let before = log_since(0)?.len();

        let query = MemoryQuery::builder;
        let in_order = [
            query().all(),
            query().under("plugin"),
            query().under("plugin-discord-7"),
            query().exact("plugin-discord-7-7-7"),
            query().prefix("plugin-discord-1"),
            query().prefix("plug"),
            query().glob("plugin-discord-1?-*"),
            query().regex("^plugin-discord-[12]-"),
            query().under("plugin-discord-7").under("plugin-discord-8").exact("plugin-discord-9-9-9"),
            query().under("plugin-sparse").under("plugin-discord-7").under("plugin-discord-8-108").exact("plugin"),
            (10..30)
                .fold(query().under("plugin-sparse"), |query, guild| query.under(format!("plugin-discord-{guild}"))),
            query().all().status(Status::Pending),
            query().all().status(Status::Pending).status(Status::Running),
            query().under("plugin-discord-7").status(Status::Running),
            query().all().created_before(at(50_000)).created_after(at(40_000)),
            query().under("plugin").created_before(at(50_000)).created_after(at(40_000)),
        ];
        let mut asked = 0;
        for builder in in_order {
            for order in [Order::NewestFirst, Order::OldestFirst] {
                let builder = builder.clone().order(order);
                for _ in 0..TIMES {
                    let next = provider.query(&builder.clone().build()?).await?.next;
                    let next = next.map(|cursor| builder.clone().cursor(cursor).build()).transpose()?;
                    if let Some(next) = next {
                        provider.query(&next).await?;
                    }
                    asked += 1;
                }
            }
        }
        let documents = || DocumentQuery::builder(Collection::parse("notes").expect("valid"));
        for _ in 0..TIMES {
            for builder in [
                documents().all(),
                documents().all().order(Order::OldestFirst),
                documents().under("guild-7"),
                documents().under("guild-7").exact("guild-8-8").order(Order::OldestFirst),
                documents().prefix("guild-7"),
                (10..30).fold(documents(), |query, guild| query.under(format!("guild-{guild}"))),
            ] {
                provider.documents().query(&builder.build()?).await?;
            }
            provider.history(&History::of(MemoryId::from_bytes([7; 16]))).await?;
            provider.history(&History::of((Collection::parse("notes")?, DocumentId::parse("note-7")?))).await?;
            asked += 8;
        }

        // A walk over many lists reads no more rows than they have together. Rows that a predicate or a pattern leaves
        // out are read too, but only where their spaces can match.
        let bounded = [
            (query().prefix("plugin-discord-1").limit(50), 50, 150),
            (query().under("plugin-sparse").filter_text("metadata.digit = 2"), 0, 20),
            (query().under("plugin-discord-7-107").filter_text("metadata.digit = 2"), 0, 100),
            (query().under("plugin").filter_text("metadata.digit = 2").limit(50), 50, 700),
            (query().glob("plugin-discord-7-*5"), 0, 1_000),
            (query().glob("plugin-sparse-*5[0-9]001"), 2, 20),
            (query().regex("^plugin-discord-7-.*5$"), 0, 1_000),
        ];
        for (builder, found, most) in bounded {
            for order in [Order::NewestFirst, Order::OldestFirst] {
                let start = log_since(0)?.len();
                let query = builder.clone().order(order).build()?;
                assert_eq!(provider.query(&query).await?.memories.len(), found, "{query:?}");
                let log = log_since(start)?;
                let read: u64 = log.lines().filter_map(rows_read).sum();
                assert!((1..=most).contains(&read), "{read} rows were read for {query:?}:\n{log}");
                asked += 1;
            }
        }
        // The entries of a place, and the rows that they lead to.
        let bounded = [
            (documents().under("guild-7").filter_text("content = 'word'"), 2_200),
            (documents().under("guild-7").exact("guild-8-108").limit(3), 70),
            // With more siblings than are merged, the list of their parent is walked.
            (documents().prefix("guild-77-1").filter_text("content = 'word'"), 2_500),
            (documents().prefix("guild-77-10").filter_text("content = 'word'"), 100),
            (documents().all().within(SpaceSelector::under("guild-7-207")?).filter_text("content = 'word'"), 5),
        ];
        for (builder, most) in bounded {
            let start = log_since(0)?.len();
            provider.documents().query(&builder.clone().build()?).await?;
            let log = log_since(start)?;
            let read: u64 = log.lines().filter_map(rows_read).sum();
            assert!((1..=most).contains(&read), "{read} rows were read for {builder:?}:\n{log}");
            asked += 1;
        }
        provider.shutdown().await?;

        let log = log_since(before)?;
        let plans = log.matches(" plan:\n").count();
        assert!(plans > asked, "{asked} queries, and only {plans} plans were logged");
        for line in log.lines() {
            assert!(!line.contains("Seq Scan"), "{line} in\n{}", plan_of(&log, line));
            let rows = rows_of(line).unwrap_or(0);
            assert!(rows <= MOST_ROWS, "{rows} rows in\n{}", plan_of(&log, line));
        }
        Ok(())
    })
}

/// Among many records that expire in a thousand years, the expired ones are found by the lists' indexes.
pub(crate) fn sweep() -> Case {
    const LATER: &str = "
        INSERT INTO agent_memory.ledger_expiry (expires_at, key)
        SELECT 32503680000000 + n, 'm'::bytea || uuid_send(gen_random_uuid()) FROM generate_series(1, 20000) AS n;
        INSERT INTO agent_memory.document_expiry (expires_at, key)
        SELECT 32503680000000 + n, convert_to('dnotes/' || n, 'UTF8') FROM generate_series(1, 20000) AS n;
        ANALYZE";
    let server = LocalPostgres::start_with(&EXPLAINS)?;
    run(async {
        let clock = Arc::new(ManualClock::new(at(1_000)));
        let mut config = config(server.url());
        config.clock = Arc::<ManualClock>::clone(&clock);
        let provider = open(config).await?;
        let expiring = |number| event("a-b", number).expires_at(at(1_000 + number));
        provider.store_many((1..=7).map(expiring).collect()).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        sqlx::raw_sql(LATER).execute(&mut admin).await?;
        let file = server.folder().join("log");
        let start = fs::read_to_string(&file)?.len();
        for number in 1..=TIMES {
            clock.set(at(1_000 + number as i64));
            assert_eq!(provider.sweep(&Sweep::due()).await?.records.len(), 1);
        }
        provider.shutdown().await?;

        let log = fs::read_to_string(&file)?.split_off(start);
        for list in ["ledger_expiry", "document_expiry"] {
            let lines: Vec<_> = log.lines().filter(|line| line.contains(&format!(" on {list} "))).collect();
            assert!(lines.len() >= TIMES, "{list} is read in\n{log}");
            for line in lines {
                assert!(line.contains(&format!("using {list}_pkey")), "{line} in\n{}", plan_of(&log, line));
                assert!(rows_of(line).is_some_and(|rows| rows <= 1), "{line} in\n{}", plan_of(&log, line));
            }
        }
        Ok(())
    })
}

/// A recall by a vector reads each vector from its index.
pub(crate) fn vectors() -> Case {
    const MORE: [&str; 3] = [
        "INSERT INTO agent_memory.documents (collection, id, created_at, revision, space_id, metadata, content)
        SELECT 'notes', 'note-' || n, n, 1, 'guild-7-' || n % 3, '{}', 'word' || n FROM generate_series(1, 3000) AS n",
        // For records elsewhere.
        "INSERT INTO agent_memory.memory_vectors SELECT gen_random_uuid(), 'v'::bytea FROM generate_series(1, 20000)",
        "INSERT INTO agent_memory.document_vectors SELECT 'others', n::text, 'v'::bytea FROM generate_series(1, 20000) AS n",
    ];
    let server = LocalPostgres::start_with(&EXPLAINS)?;
    run(async {
        let provider = open(config(server.url())).await?;
        let (model, vector) = (VectorModel::new("a model", 2, Precision::Compact)?, Vector::new(&[3.0, 4.0])?);
        provider.set_vector_model(&model).await?;
        let row = |number| event(&format!("guild-7-{}", number % 3), number);
        let ids = provider.store_many((1..=3_000).map(row).collect()).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("SET agent_memory.writer = 9").await?;
        for more in MORE {
            admin.execute(more).await?;
        }
        let collection = Collection::parse("notes")?;
        let id = |number| DocumentId::parse(format!("note-{number}"));
        let note = |number| id(number).map(|id| RecordId::from((collection.clone(), id)));
        let notes = (1..=500).map(note).collect::<Result<Vec<_>, _>>()?;
        let records = ids.into_iter().take(500).map(RecordId::from).chain(notes);
        let embedding = |record| Embedding { record, revision: Revision::FIRST, vector: vector.clone(), texts: None };
        assert_eq!(provider.embed(&model, records.map(embedding).collect()).await?, [true; 1_000]);
        let file = server.folder().join("log");
        let start = fs::read_to_string(&file)?.len();

        let memories = MemoryQuery::builder;
        let documents = || DocumentQuery::builder(collection.clone());
        let mut asked = 0;
        for _ in 0..TIMES {
            for scope in [memories().all(), memories().under("guild"), memories().exact("guild-7-1").under("guild-7-2")]
            {
                let recall = Recall::new("", scope.limit(5).build()?)?.by_vector(vector.clone());
                assert!(provider.recall(&recall).await?.unembedded.is_some_and(|count| count >= 1_600));
                asked += 1;
            }
            for scope in [documents().all(), documents().under("guild-7")] {
                let recall = Recall::new("", scope.limit(5).build()?)?.by_vector(vector.clone());
                assert_eq!(provider.documents().recall(&recall).await?.unembedded, Some(2_500));
                asked += 1;
            }
        }
        provider.shutdown().await?;

        let log = fs::read_to_string(&file)?.split_off(start);
        for table in ["memory_vectors", "document_vectors"] {
            let lines: Vec<_> = log.lines().filter(|line| line.contains(&format!(" on {table} v "))).collect();
            assert!(lines.len() >= asked / 2, "{table} is read in\n{log}");
            for line in lines {
                assert!(line.contains(&format!("Index Scan using {table}_pkey")), "{line} in\n{}", plan_of(&log, line));
                let rows = rows_of(line).unwrap_or(0);
                assert!(rows <= MOST_ROWS, "{rows} rows in\n{}", plan_of(&log, line));
            }
        }
        Ok(())
    })
}

pub(crate) fn every_depth() -> Case {
    let schema = ::migrations::postgres()[0].text;
    for depth in 1..=SpaceId::MAX_BOUNDARIES {
        let index = format!(" ON {{schema}}.memories (path_{depth}, created_at, id) WHERE path_{depth} IS NOT NULL;");
        assert_eq!(schema.matches(&index).count(), 1, "{index}");
    }
    assert!(!schema.contains(&format!("path_{}", SpaceId::MAX_BOUNDARIES + 1)));
    Ok(())
}

/// The number of rows in a line of a plan: `… (actual rows=51 loops=2)` or `Rows Removed by Filter: 7`.
fn rows_of(line: &str) -> Option<u64> {
    if let Some((_, removed)) = line.split_once("Rows Removed by Filter: ") {
        return removed.trim().parse().ok();
    }
    let (rows, loops) = line.split_once("(actual rows=")?.1.trim_end_matches(')').split_once(" loops=")?;
    Some(rows.parse::<u64>().ok()? * loops.parse::<u64>().ok()?)
}

/// The number of rows that a line of a plan has read from a table or filtered out.
fn rows_read(line: &str) -> Option<u64> {
    rows_of(line).filter(|_| line.contains("Index ") && line.contains(" using ") || line.contains("Rows Removed by "))
}

/// The plan with this line.
fn plan_of<'l>(log: &'l str, line: &str) -> &'l str {
    log.split("LOG: ").find(|plan| plan.contains(line)).unwrap_or_default()
}
