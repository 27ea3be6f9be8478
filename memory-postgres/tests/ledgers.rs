//! Ledgers of older schemas, in PostgreSQL.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::TestServer;
use conformance::{CaseResult, Namespace, ledgers};
use memory_core::{MemoryProvider, TextIndex};
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

fn goes_on(text_index: TextIndex, ledger: &str) -> CaseResult {
    let server = TestServer::postgres()?;
    let mut config = PostgresConfig::from_url(server.url())?;
    config.namespace = Namespace::unique().name;
    Runtime::new()?.block_on(async {
        let mut connection = PgConnection::connect(server.url()).await?;
        let ledger = ledger.replace("{schema}", &config.namespace);
        sqlx::raw_sql(AssertSqlSafe(ledger)).execute(&mut connection).await?;
        connection.close().await?;
        assert_eq!(memory_postgres::plan(&config).await?.before, 1);

        let open = async |text_index| {
            let mut config = config.clone();
            config.text_index = text_index;
            Ok(Arc::new(PostgresMemory::open(config)?) as Arc<dyn MemoryProvider>)
        };
        ledgers::check(text_index, open).await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        Ok(memory_postgres::remove(&config).await?)
    })
}
