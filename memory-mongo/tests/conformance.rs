//! The suite on MongoDB.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::fault::{Faults, Server};
use conformance::server::mongo::LocalMongo;
use conformance::server::{TestServer, on_demand};
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, ManualClock, MemoryId, MemoryProvider, Result};
use memory_mongo::{MongoConfig, MongoMemory};
use mongodb::Client;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use tokio::runtime::Handle;

/// One database for each namespace.
#[derive(Debug)]
struct Mongo {
    /// The URL that the providers connect to.
    url: String,
    config: MongoConfig,
    /// For removing and damaging.
    client: Client,
}

#[async_trait]
impl Harness for Mongo {
    fn can_erase(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        "mongo"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        open(self.config.clone(), namespace)
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        self.client.database(&namespace.name).drop().await.map_err(unexpected)
    }

    /// Faults are tested on a set of one node: a proxy can't stand in front of several.
    fn faults(&self) -> Option<&dyn Faults> {
        (!self.url.contains(',')).then_some(self)
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

    fn can_make_newer(&self) -> bool {
        true
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let steps = self.client.database(&namespace.name).collection::<Document>("schema_migrations");
        let later = doc! { "_id": 99_i64, "name": "future", "checksum": "" };
        steps.insert_one(later).await.map(drop).map_err(unexpected)
    }
}

#[async_trait]
impl Faults for Mongo {
    fn url(&self) -> &str {
        &self.url
    }

    /// Connects directly to this address: otherwise the driver would look up the members of the set, and bypass the
    /// proxy.
    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let is_direct = url.contains("directConnection=true");
        let url = if is_direct { url.to_owned() } else { format!("{url}&directConnection=true") };
        // A call must notice within its deadline that the server is gone, and soon afterwards that it is back.
        let url = format!("{url}&serverSelectionTimeoutMS=1000&heartbeatFrequencyMS=500");
        open(MongoConfig::from_url(&url)?, namespace)
    }

    fn can_start(&self) -> bool {
        LocalMongo::is_installed()
    }

    fn start(&self) -> io::Result<Box<dyn Server>> {
        Ok(Box::new(LocalMongo::start().map_err(io::Error::other)?))
    }
}

fn open(mut config: MongoConfig, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
    config.namespace = namespace.name.clone();
    config.clock = Arc::<ManualClock>::clone(&namespace.clock);
    config.deadline = namespace.deadline;
    config.history = namespace.history.clone();
    Ok(Arc::new(MongoMemory::open(config)?))
}

fn unexpected(error: mongodb::error::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "the server refused to prepare a case").with_source(error)
}

fn main() -> ExitCode {
    conformance::run(vec![on_demand("mongo", || {
        let server = TestServer::mongo()?;
        let config = MongoConfig::from_url(server.url()).expect("the URL of a test server");
        let client = Handle::current().block_on(Client::with_uri_str(server.url())).expect("the URL of a test server");
        Ok((Arc::new(Mongo { url: server.url().to_owned(), config, client }), server))
    })])
}
