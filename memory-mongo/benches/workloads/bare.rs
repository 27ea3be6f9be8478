//! The driver alone, on the collections and indexes of the provider, with the same write concern: the lowest possible
//! cost of the same work.

use async_trait::async_trait;
use conformance::bench::Bare;
use memory_core::{
    Context, Memory, MemoryId, Metadata, NewMemory, Revision, SpaceId, Status, Timestamp, Trigger, path_hash,
};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, RawDocument, RawDocumentBuf, doc, rawdoc};
use mongodb::options::{Acknowledgment, ClientOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Collection};

/// The driver, on a database that a provider has made.
pub(crate) struct BareMongo {
    memories: Collection<RawDocumentBuf>,
    client: Client,
}

impl BareMongo {
    pub(crate) async fn open(url: &str, namespace: &str) -> Self {
        let mut options = ClientOptions::parse(url).await.expect("a URL");
        options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());
        options.read_concern = Some(ReadConcern::majority());
        options.max_pool_size = Some(100);
        let client = Client::with_options(options).expect("a client");
        Self { memories: client.database(namespace).collection("memories"), client }
    }

    async fn newest(&self, condition: Document, limit: i64, wanted: impl Fn(&Memory) -> bool) -> Vec<Memory> {
        let find = self.memories.find(condition).sort(doc! { "createdAt": -1, "_id": -1 });
        let mut rows = find.limit(limit).batch_size(limit as u32).await.expect("answers");
        let mut memories = Vec::new();
        while memories.len() < 50 && rows.advance().await.expect("a row") {
            memories.extend(Some(memory(rows.current())).filter(|memory| wanted(memory)));
        }
        memories
    }
}

#[async_trait]
impl Bare for BareMongo {
    async fn store(&self, row: NewMemory) {
        self.memories.insert_one(document(&row)).await.expect("inserts");
    }

    /// In one transaction.
    async fn store_many(&self, rows: Vec<NewMemory>) {
        let mut session = self.client.start_session().await.expect("a session");
        session.start_transaction().await.expect("begins");
        let rows: Vec<_> = rows.iter().map(document).collect();
        self.memories.insert_many(rows).session(&mut session).await.expect("inserts");
        session.commit_transaction().await.expect("commits");
    }

    async fn update(&self, id: MemoryId, context: &Context) {
        let set = doc! { "$set": { "context": context.as_str(), "updatedAt": 1_i64 }, "$inc": { "revision": 1_i64, "written": 256_i64 } };
        self.memories.update_one(doc! { "_id": binary(id) }, set).await.expect("updates");
    }

    async fn get(&self, id: MemoryId) {
        memory(&self.memories.find_one(doc! { "_id": binary(id) }).await.expect("answers").expect("is there"));
    }

    async fn answer(&self, question: &str) -> Option<Vec<MemoryId>> {
        let any = |_: &Memory| true;
        let under = |path: &str| {
            let path = format!("plugin-discord-{path}");
            doc! { "$or": [{ "paths": path_hash(&path) }, { "spaceId": path }] }
        };
        let rows = match question {
            "exact, a room" => self.newest(doc! { "spaceId": "plugin-discord-room" }, 50, any).await,
            "exact, a parent above half" => self.newest(doc! { "spaceId": "plugin-discord-dense" }, 50, any).await,
            "under, dense" => self.newest(under("dense"), 50, any).await,
            "under, medium" => self.newest(under("medium"), 50, any).await,
            "under, sparse" => self.newest(under("sparse"), 50, any).await,
            "under, stale" => self.newest(under("stale"), 50, any).await,
            "filter under dense" => {
                self.newest(under("dense"), 1_000, |memory| memory.metadata.as_str().contains(r#""topic":"rust""#))
                    .await
            }
            "pending under dense" => {
                let dense = |memory: &Memory| memory.space_id.as_str().starts_with("plugin-discord-dense");
                self.newest(doc! { "paths": path_hash("\0pending") }, 1_000, dense).await
            }
            "pending rows" => self.newest(doc! { "paths": path_hash("\0pending") }, 50, any).await,
            // Without a path index there is no better query.
            "prefix, siblings" => {
                self.newest(doc! { "spaceId": { "$gte": "plugin-discord-g1", "$lt": "plugin-discord-g2" } }, 50, any)
                    .await
            }
            "glob, a guild's channel" => {
                self.newest(doc! { "paths": path_hash("plugin-discord-g42-c7") }, 50, any).await
            }
            other => panic!("no search for {other}"),
        };
        Some(rows.iter().map(|memory| memory.id).collect())
    }
}

fn document(row: &NewMemory) -> RawDocumentBuf {
    let mut paths: Vec<_> = row.space_id.ancestors().map(path_hash).collect();
    paths.push(path_hash("\0"));
    if row.status.is_open() {
        paths.push(path_hash(&format!("\0{}", row.status)));
    }
    let paths: mongodb::bson::raw::RawArrayBuf = paths.into_iter().collect();
    rawdoc! {
        "_id": binary(MemoryId::generate()),
        "createdAt": row.created_at.as_millis(),
        "spaceId": row.space_id.as_str(),
        "paths": paths,
        "status": row.status.as_str(),
        "revision": 1_i64,
        "written": 256_i64 + i64::from(migrations::WRITER),
        "metadata": row.metadata.as_str(),
        "trigger": row.trigger.as_str(),
    }
}

fn binary(id: MemoryId) -> Binary {
    Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() }
}

fn id(row: &RawDocument) -> MemoryId {
    MemoryId::from_bytes(row.get_binary("_id").expect("an id").bytes.try_into().expect("16 bytes"))
}

fn memory(row: &RawDocument) -> Memory {
    let text = |name: &str| row.get_str(name).expect("a text");
    Memory {
        id: id(row),
        space_id: SpaceId::parse(text("spaceId")).expect("a space"),
        trigger: Trigger::from_stored(text("trigger")).expect("JSON"),
        context: row.get_str("context").ok().map(|text| Context::from_stored(text).expect("JSON")),
        created_at: Timestamp::from_millis(row.get_i64("createdAt").expect("a time")).expect("a time"),
        updated_at: row.get_i64("updatedAt").ok().map(|time| Timestamp::from_millis(time).expect("a time")),
        metadata: Metadata::from_stored(text("metadata")).expect("metadata"),
        status: Status::parse(text("status")).expect("a status"),
        revision: Revision::new(row.get_i64("revision").expect("a revision") as u64).expect("a revision"),
        idempotency_key: None,
        expires_at: None,
    }
}
