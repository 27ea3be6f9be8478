//! Ledgers of older schemas, in MongoDB.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::TestServer;
use conformance::{CaseResult, Namespace, ledgers};
use memory_core::MemoryProvider;
use memory_mongo::{MongoConfig, MongoMemory};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let ledgers = [
        include_str!("../../conformance/ledgers/v1/mongo.jsonl"),
        include_str!("../../conformance/ledgers/v1/mongo-text.jsonl"),
    ];
    ledgers::run("mongo", ledgers, goes_on)
}

fn goes_on(ledger: &str) -> CaseResult {
    let server = TestServer::mongo()?;
    let mut config = MongoConfig::from_url(server.url())?;
    config.namespace = Namespace::unique().name;
    Runtime::new()?.block_on(async {
        let database = Client::with_uri_str(server.url()).await?.database(&config.namespace);
        for line in ledger.lines() {
            let command: Document = serde_json::from_str(line)?;
            database.run_command(command).await?;
        }
        assert_eq!(memory_mongo::plan(&config).await?.before, 1);

        let open = async || Ok(Arc::new(MongoMemory::open(config.clone())?) as Arc<dyn MemoryProvider>);
        ledgers::check(open).await?;
        for name in ["memories", "documents"] {
            let rows = database.collection::<Document>(name);
            assert_eq!(rows.count_documents(doc! { "words": { "$exists": true } }).await?, 0);
            assert!(!rows.list_index_names().await?.contains(&"words".to_owned()));
        }
        assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
        Ok(memory_mongo::remove(&config).await?)
    })
}
