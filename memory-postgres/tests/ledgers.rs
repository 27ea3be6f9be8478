//! Ledgers of older schemas, in PostgreSQL.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::{TestServer, trial};
use conformance::{Namespace, ledgers};
use libtest_mimic::Arguments;
use memory_core::{MemoryProvider, TextIndex};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let trials = vec![
        trial("postgres::a_ledger_of_version_1_goes_on", || {
            goes_on(TextIndex::Documents, include_str!("../../conformance/ledgers/v1/postgres.sql"))
        }),
        trial("postgres::a_ledger_of_version_1_with_words_goes_on", || {
            goes_on(TextIndex::All, include_str!("../../conformance/ledgers/v1/postgres-text.sql"))
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn goes_on(text_index: TextIndex, ledger: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
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
