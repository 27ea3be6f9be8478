//! Ledgers of older schemas, in PostgreSQL.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::TestServer;
use conformance::{CaseResult, Namespace, ledgers};
use memory_core::MemoryProvider;
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let ledgers = [
        include_str!("../../conformance/ledgers/v1/postgres.sql"),
        include_str!("../../conformance/ledgers/v1/postgres-text.sql"),
    ];
    ledgers::run("postgres", ledgers, goes_on)
}

fn goes_on(ledger: &str) -> CaseResult {
    let server = TestServer::postgres()?;
    let mut config = PostgresConfig::from_url(server.url())?;
    config.namespace = Namespace::unique().name;
    Runtime::new()?.block_on(async {
        let mut connection = PgConnection::connect(server.url()).await?;
        let ledger = ledger.replace("{schema}", &config.namespace);
        sqlx::raw_sql(AssertSqlSafe(ledger)).execute(&mut connection).await?;
        assert_eq!(memory_postgres::plan(&config).await?.before, 1);

        let open = async || Ok(Arc::new(PostgresMemory::open(config.clone())?) as Arc<dyn MemoryProvider>);
        ledgers::check(open).await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        // Nothing is left of its words.
        let words = "SELECT count(*) FROM pg_namespace
            JOIN pg_class ON relnamespace = pg_namespace.oid JOIN pg_attribute ON attrelid = pg_class.oid
            WHERE nspname = $1 AND NOT attisdropped AND concat(relname, ' ', attname) ~ 'word|ledger_text'";
        let words: i64 = sqlx::query_scalar(words).bind(&config.namespace).fetch_one(&mut connection).await?;
        assert_eq!(words, 0);
        Ok(memory_postgres::remove(&config).await?)
    })
}
