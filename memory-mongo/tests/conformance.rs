//! The suite on MongoDB.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::server::mongo::MongoServer;
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, ManualClock, MemoryId, MemoryProvider, Result};
use memory_mongo::{MongoConfig, MongoMemory};
use mongodb::Client;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};

/// One database for each namespace.
#[derive(Debug)]
struct Mongo {
    /// Where the providers connect to.
    config: MongoConfig,
    /// To remove and to damage.
    client: Client,
}

#[async_trait]
impl Harness for Mongo {
    fn name(&self) -> &str {
        "mongo"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut config = self.config.clone();
        config.namespace = namespace.name.clone();
        config.clock = Arc::<ManualClock>::clone(&namespace.clock);
        config.text_index = namespace.text_index;
        config.deadline = namespace.deadline;
        Ok(Arc::new(MongoMemory::open(config)?))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        self.client.database(&namespace.name).drop().await.map_err(unexpected)
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let memories = self.client.database(&namespace.name).collection::<Document>("memories");
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() };
        let cut = doc! { "$set": { "trigger": "{\"cut" } };
        Ok(memories.update_one(doc! { "_id": id }, cut).await.map_err(unexpected)?.matched_count == 1)
    }
}

fn unexpected(error: mongodb::error::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "the server refused to prepare a case").with_source(error)
}

fn main() -> ExitCode {
    let server = MongoServer::start();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime to test on: {error}");
            return ExitCode::FAILURE;
        }
    };
    let harness: Arc<dyn Harness> = match &server {
        Ok(server) => {
            let config = MongoConfig::from_url(server.url()).expect("the URL of a test server");
            // It belongs to this runtime, which lives as long as the server.
            let client = runtime.block_on(Client::with_uri_str(server.url())).expect("the URL of a test server");
            Arc::new(Mongo { config, client })
        }
        Err(missing) => missing.harness("mongo"),
    };
    conformance::run(vec![harness])
}
