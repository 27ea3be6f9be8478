//! The slot of a namespace moves between nodes while stores, updates, restores and recalls run.
//!
//! `MEMORY_TEST_MEMORIES` sets the number of existing memories; some thousand by default.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conformance::server::redis::LocalRedis;
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::trial;
use libtest_mimic::Arguments;
use memory_core::{
    Collection, Content, Context, Cursor, Document, DocumentId, DocumentQuery, DocumentSelection, Embedding, ErrorKind,
    History, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, Metadata, NewMemory,
    Order, Precision, QueryBuilder, RecordId, Result, Revision, SpaceId, Status, Timestamp, Vector, VectorModel,
};
use memory_redis::{RedisConfig, RedisMemory};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, cmd};
use tokio::sync::Notify;
use tokio::task::block_in_place;

mod common;
use common::{Admin, Case, WORDS, document, event, open, run};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const NAMESPACE: &str = "moving";
/// How many tasks store, each one after the other.
const STORING: usize = 4;
/// How many open memories there are before.
const OPEN: usize = 20;
/// How many documents one call restores.
const RESTORED: usize = 20;
/// How many keys one command moves.
const MOVED: usize = 20;
/// How many calls run at once.
const AT_ONCE: usize = 1_000;
/// How often the slot moves while they run.
const MOVES: usize = 3;

fn main() -> ExitCode {
    let trials = vec![
        trial("redis-cluster::nothing_is_lost_while_the_slot_moves", || run(nothing_is_lost_while_the_slot_moves())),
        trial(
            "redis-cluster::vectors_are_found_while_the_slot_moves",
            || run(vectors_are_found_while_the_slot_moves()),
        ),
        trial("redis-cluster::many_calls_at_once_go_on_after_a_move", || run(many_calls_at_once_go_on_after_a_move())),
        trial("redis-cluster::no_word_is_left_while_the_slot_moves", || run(no_word_is_left_while_the_slot_moves())),
        trial("redis-cluster::a_removal_waits_for_the_end_of_a_move", || run(a_removal_waits_for_the_end_of_a_move())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn nothing_is_lost_while_the_slot_moves() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    let mut config = RedisConfig::from_url(&cluster.url())?;
    // Calls wait until the slot has moved, for much longer than a call tries to reach a server.
    (config.namespace, config.deadline) = (NAMESPACE.to_owned(), Duration::from_secs(600));
    config.connect_timeout = Duration::from_secs(1);
    let provider = Arc::new(RedisMemory::open(config)?);
    provider.init().await?;
    let count = std::env::var("MEMORY_TEST_MEMORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let before = Before::store(&provider, count).await?;
    // To a node that is new in the cluster, and back to one that had slots before.
    let (mut nodes, new) = (Nodes::of(&cluster).await?, LocalRedis::start_with(&[("cluster-enabled", "yes")])?);
    let target = nodes.welcome(&new).await?;
    let other = *nodes.known.keys().find(|port| **port != target).ok_or("no primary")?;
    let load = Arc::new(Load::default());
    let mut tasks: Vec<_> =
        (0..STORING).map(|task| tokio::spawn(Arc::clone(&load).store(Arc::clone(&provider), task))).collect();
    let recalling = tokio::spawn(Arc::clone(&load).recall(Arc::clone(&provider), before.clone()));
    let updating = tokio::spawn(Arc::clone(&load).update(Arc::clone(&provider), before.open[0]));
    let restoring = tokio::spawn(Arc::clone(&load).restore(Arc::clone(&provider)));
    for target in [target, other] {
        // Not before each kind of call was answered since the last move.
        load.more().await;
        let start = Instant::now();
        nodes.move_slot(block_in_place(|| cluster.primary_of(&nodes.key))?, target).await?;
        println!("the slot with {count} memories and more has moved in {:?}", start.elapsed());
    }
    load.more().await;
    load.is_over.store(true, Ordering::Relaxed);
    let (longest_recall, longest_update, longest_restore) = (recalling.await??, updating.await??, restoring.await??);
    let (mut stored, mut longest_store) = (before.ids.clone(), Duration::ZERO);
    for task in tasks.drain(..) {
        let (acknowledged, longest) = task.await??;
        longest_store = longest_store.max(longest);
        stored.extend(acknowledged);
    }
    println!(
        "the longest wait: a store {longest_store:?}, an update {longest_update:?}, a recall {longest_recall:?}, a restore {longest_restore:?}"
    );
    println!("{} memories were stored meanwhile", stored.len() - before.ids.len());
    let (mut revisions, mut history) = (Vec::new(), History::of(before.open[0]).limit(1_000)?);
    loop {
        let page = provider.history(&history).await?;
        revisions.extend(page.versions.iter().map(|version| version.revision.get()));
        let Some(next) = page.next else { break };
        history = history.cursor(next);
    }
    let updates = load.updates.load(Ordering::Relaxed) as u64;
    assert!(revisions.into_iter().eq((1..=updates + 1).rev()), "a version is missing, or there twice");
    check(&provider, &stored).await
}

/// The driver's client of a cluster stops forever if it learns that a slot has moved while many calls are in flight.
async fn many_calls_at_once_go_on_after_a_move() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    let mut config = RedisConfig::from_url(&cluster.url())?;
    (config.namespace, config.deadline) = (NAMESPACE.to_owned(), Duration::from_secs(600));
    let provider = Arc::new(open(config).await?);
    let nodes = Nodes::of(&cluster).await?;
    let mut put = BTreeSet::new();
    for round in 0..MOVES {
        let from = block_in_place(|| cluster.primary_of(&nodes.key))?;
        let to = *nodes.known.keys().find(|port| **port != from).ok_or("no primary")?;
        let is_begun = Arc::new(Notify::new());
        let puts = (0..AT_ONCE).map(|place| {
            let (provider, is_begun) = (Arc::clone(&provider), Arc::clone(&is_begun));
            tokio::spawn(async move {
                let document = provider
                    .documents()
                    .put(document("notes", &format!("{round}-{place}"), "a-b", "many words")?)
                    .await;
                is_begun.notify_one();
                document
            })
        });
        let puts: Vec<_> = puts.collect();
        is_begun.notified().await;
        nodes.move_slot(from, to).await?;
        for document in puts {
            put.insert(document.await??.id);
        }
    }
    let all = DocumentSelection::matching(DocumentQuery::builder(Collection::parse("notes")?).under("a"))?;
    let removed = provider.documents().remove(&all, MOVES * AT_ONCE).await?;
    assert_eq!(removed, put.into_iter().collect::<Vec<_>>());
    Ok(())
}

/// Whichever node has them. A new vector waits until the slot has moved, like each write that needs a new key.
async fn vectors_are_found_while_the_slot_moves() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    let mut config = RedisConfig::from_url(&cluster.url())?;
    (config.namespace, config.deadline) = (NAMESPACE.to_owned(), Duration::from_secs(600));
    config.connect_timeout = Duration::from_secs(1);
    let provider = open(config).await?;
    let ids = provider.store_many((0..100).map(|time| event("a-b", time)).collect()).await?;
    let model = VectorModel::new("a model", 2, Precision::Exact)?;
    provider.set_vector_model(&model).await?;
    let embedding = |place: usize| {
        let (record, revision, angle) = (ids[place].into(), Revision::FIRST, place as f32 / 100.0);
        Vector::new(&[angle.cos(), angle.sin()]).map(|vector| Embedding { record, revision, vector, texts: None })
    };
    // All but the last.
    let embeddings = (0..99).map(embedding).collect::<Result<Vec<_>>>()?;
    assert_eq!(provider.embed(&model, embeddings.clone()).await?, [true; 99]);
    let (nodes, records) = (Nodes::of(&cluster).await?, ids.iter().copied().map(RecordId::from).collect::<Vec<_>>());
    let from = block_in_place(|| cluster.primary_of(&nodes.key))?;
    let to = *nodes.known.keys().find(|port| **port != from).ok_or("no other primary")?;
    let query = || MemoryQuery::builder().under("a").limit(1).build();
    let recall = MemoryRecall::new("", query()?)?.by_vector(Vector::new(&[0.0, 1.0])?);
    let before = provider.recall(&recall).await?;
    assert_eq!((before.examined, before.unembedded, before.hits.len()), (100, Some(1), 1));
    let expected: Vec<_> = embeddings.into_iter().map(Some).chain([None]).collect();
    let vectors = async || -> Result<Vec<_>> {
        let kept = provider.vectors(&records).await?.into_iter();
        Ok(kept.map(|kept| kept.map(|kept| Embedding { texts: None, ..kept })).collect())
    };
    nodes.begin_move(from, to).await?;
    let mut late = None;
    loop {
        let goes_on = nodes.move_keys(from, to).await?;
        assert_eq!(vectors().await?, expected);
        assert_eq!(provider.recall(&recall).await?, before);
        if !goes_on {
            break;
        }
        if late.is_none() {
            let (provider, model, last) = (provider.clone(), model.clone(), embedding(99)?);
            late = Some(tokio::spawn(async move { provider.embed(&model, vec![last]).await }));
        }
    }
    nodes.end_move(to).await?;
    assert_eq!(late.ok_or("nothing has moved")?.await??, [true]);
    assert_eq!(provider.recall(&recall).await?.unembedded, Some(0));
    let other = Context::parse(r#""other""#)?;
    provider.update(ids[99], MemoryPatch::new().set_context(other)).await?;
    assert_eq!(vectors().await?, expected);
    Ok(())
}

/// While each of the two nodes has some of the keys, neither can list all of them.
async fn no_word_is_left_while_the_slot_moves() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    let mut config = RedisConfig::from_url(&cluster.url())?;
    (config.namespace, config.connect_timeout) = (NAMESPACE.to_owned(), Duration::from_secs(1));
    let before = Before::store(&open(config.clone()).await?, 100).await?;
    Admin::of(&cluster.url()).index_words(NAMESPACE).await?;
    let (nodes, provider) = (Nodes::of(&cluster).await?, open(config).await?);
    let from = block_in_place(|| cluster.primary_of(&nodes.key))?;
    let to = *nodes.known.keys().find(|port| **port != from).ok_or("no other primary")?;
    assert!(nodes.count_words().await? > WORDS);
    provider.backfill().await?;
    nodes.begin_move(from, to).await?;
    for _ in 0..WORDS / MOVED {
        assert!(nodes.move_keys(from, to).await?, "some keys stay");
    }
    let error = provider.backfill().await.expect_err("the slot moves");
    assert!(error.kind() == ErrorKind::Unavailable && error.is_retryable(), "{error:?}");
    while nodes.move_keys(from, to).await? {}
    nodes.end_move(to).await?;
    assert!(nodes.count_words().await? > 0, "what has moved before was swept nowhere");
    while provider.backfill().await?.is_some() {}
    assert_eq!(nodes.count_words().await?, 0);
    check(&provider, &before.ids).await
}

/// A scan names no key, so no node refuses it because the slot moves.
async fn a_removal_waits_for_the_end_of_a_move() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    let mut config = RedisConfig::from_url(&cluster.url())?;
    (config.namespace, config.connect_timeout) = (NAMESPACE.to_owned(), Duration::from_secs(1));
    let provider = open(config.clone()).await?;
    Before::store(&provider, 100).await?;
    provider.shutdown().await?;
    let nodes = Nodes::of(&cluster).await?;
    let from = block_in_place(|| cluster.primary_of(&nodes.key))?;
    let to = *nodes.known.keys().find(|port| **port != from).ok_or("no other primary")?;
    nodes.begin_move(from, to).await?;
    assert!(nodes.move_keys(from, to).await?, "some keys stay");
    let error = memory_redis::remove(&config).await.expect_err("the slot moves");
    assert!(error.kind() == ErrorKind::Unavailable && error.is_retryable(), "{error:?}");
    while nodes.move_keys(from, to).await? {}
    nodes.end_move(to).await?;
    assert!(nodes.count(&[""]).await? > 0, "a removal that was refused has removed all");
    memory_redis::remove(&config).await?;
    assert_eq!(nodes.count(&[""]).await?, 0);
    Ok(())
}

/// The memories that were stored before the move.
#[derive(Debug, Clone)]
struct Before {
    /// The space of each.
    ids: BTreeMap<MemoryId, String>,
    /// In the order of time.
    open: Vec<MemoryId>,
    /// The ids below each guild, in the order of time.
    guilds: BTreeMap<String, Vec<MemoryId>>,
}

impl Before {
    async fn store(provider: &RedisMemory, count: usize) -> Result<Self> {
        let mut before = Self { ids: BTreeMap::new(), open: Vec::new(), guilds: BTreeMap::new() };
        let places: Vec<_> = (0..count).collect();
        for places in places.chunks(1_000) {
            let guild = |place: usize| format!("a-g{}", place % 7);
            let space = |place: usize| format!("{}-c{}:{place}", guild(place), place % 50);
            let is_open = |place: usize| place.is_multiple_of(count / OPEN);
            let memory = |place: usize| {
                let status = if is_open(place) { Status::Pending } else { Status::Completed };
                event(&space(place), place as i64).with_status(status)
            };
            let ids = provider.store_many(places.iter().map(|place| memory(*place)).collect()).await?;
            for (place, id) in places.iter().copied().zip(ids) {
                before.ids.insert(id, space(place));
                before.guilds.entry(guild(place)).or_default().push(id);
                before.open.extend(is_open(place).then_some(id));
            }
        }
        Ok(before)
    }
}

/// Ends the load with the first task that ends.
struct End(Arc<Load>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// The calls while the slot moves, and how often each kind of call was answered.
#[derive(Debug, Default)]
struct Load {
    is_over: AtomicBool,
    stores: AtomicUsize,
    updates: AtomicUsize,
    recalls: AtomicUsize,
    restores: AtomicUsize,
}

impl Load {
    /// Waits until each kind of call was answered some times more.
    async fn more(&self) {
        for count in [&self.stores, &self.updates, &self.recalls, &self.restores] {
            let goal = count.load(Ordering::Relaxed) + 20;
            while count.load(Ordering::Relaxed) < goal && !self.is_over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// Stores until the load ends. Returns the stored memories, and the longest wait.
    async fn store(
        self: Arc<Self>,
        provider: Arc<RedisMemory>,
        task: usize,
    ) -> Result<(BTreeMap<MemoryId, String>, Duration)> {
        let _end = End(Arc::clone(&self));
        let (mut stored, mut longest) = (BTreeMap::new(), Duration::ZERO);
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let space = format!("a-new{task}-c{}:{number}", number % 10);
            let memory: NewMemory = event(&space, 1_000_000_000 + number);
            let start = Instant::now();
            match number % 3 {
                0 => drop(stored.insert(provider.store(memory).await?, space)),
                1 => {
                    let memory = memory.with_idempotency_key(IdempotencyKey::parse(&space)?);
                    stored.insert(provider.store(memory).await?, space);
                }
                _ => {
                    let ids = provider.store_many(vec![memory.clone(), memory]).await?;
                    stored.extend(ids.into_iter().map(|id| (id, space.clone())));
                }
            }
            longest = longest.max(start.elapsed());
            self.stores.fetch_add(1, Ordering::Relaxed);
        }
        Ok((stored, longest))
    }

    /// Changes a memory between the two open statuses until the load ends. Returns the longest wait.
    async fn update(self: Arc<Self>, provider: Arc<RedisMemory>, id: MemoryId) -> Result<Duration> {
        let _end = End(Arc::clone(&self));
        let mut longest = Duration::ZERO;
        for status in [Status::Running, Status::Pending].into_iter().cycle() {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let start = Instant::now();
            let updated = provider.update(id, MemoryPatch::new().with_status(status)).await?;
            longest = longest.max(start.elapsed());
            // Nobody else updates it.
            let newest = provider.history(&History::of(id).limit(1)?).await?.versions;
            assert_eq!(newest.first().map(|version| version.revision), Some(updated.revision));
            self.updates.fetch_add(1, Ordering::Relaxed);
        }
        Ok(longest)
    }

    /// Restores documents until the load ends: some are written when the rest is refused, since the slot has moved.
    /// Returns the longest wait.
    async fn restore(self: Arc<Self>, provider: Arc<RedisMemory>) -> Result<Duration> {
        let _end = End(Arc::clone(&self));
        let (documents, mut longest) = (provider.documents(), Duration::ZERO);
        for call in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let document = |number: usize| {
                let document = Document {
                    id: DocumentId::parse(format!("{call}-{number}"))?,
                    collection: Collection::parse("restored")?,
                    space_id: SpaceId::parse(format!("a-restored:{call}"))?,
                    content: Content::parse("text")?,
                    metadata: Metadata::default(),
                    created_at: Timestamp::from_millis(1)?,
                    updated_at: None,
                    revision: Revision::FIRST,
                    expires_at: None,
                };
                Ok::<_, memory_core::Error>(document)
            };
            let start = Instant::now();
            let report = documents.restore((0..RESTORED).map(document).collect::<Result<_, _>>()?).await?;
            assert_eq!(report.written + report.equal, RESTORED);
            longest = longest.max(start.elapsed());
            self.restores.fetch_add(1, Ordering::Relaxed);
        }
        Ok(longest)
    }

    /// Reads the earlier memories until the load ends. Returns the longest wait.
    async fn recall(self: Arc<Self>, provider: Arc<RedisMemory>, before: Before) -> Result<Duration> {
        let _end = End(Arc::clone(&self));
        let mut longest = Duration::ZERO;
        let queries = || {
            let later = Timestamp::from_millis(1_000_000_000)?;
            let earlier = |query: QueryBuilder<memory_core::Ledger>| query.created_before(later).limit(60);
            let mut queries = vec![(
                earlier(MemoryQuery::builder().all().status(Status::Pending).status(Status::Running)),
                &before.open,
            )];
            for (guild, ids) in &before.guilds {
                queries.push((earlier(MemoryQuery::builder().under(guild.as_str())), ids));
                queries.push((earlier(MemoryQuery::builder().prefix(guild.as_str())), ids));
            }
            Ok::<_, memory_core::Error>(queries)
        };
        while !self.is_over.load(Ordering::Relaxed) {
            for (query, ids) in queries()? {
                for order in [Order::NewestFirst, Order::OldestFirst] {
                    let query = query.clone().order(order).build()?;
                    let start = Instant::now();
                    let found = provider.query(&query).await?.memories;
                    longest = longest.max(start.elapsed());
                    let expected: Vec<_> = match order {
                        Order::NewestFirst => ids.iter().rev().take(60).copied().collect(),
                        Order::OldestFirst => ids.iter().take(60).copied().collect(),
                    };
                    assert_eq!(found.iter().map(|memory| memory.id).collect::<Vec<_>>(), expected, "{query:?}");
                    self.recalls.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(longest)
    }
}

/// Each memory is found by its id, by its space, and under each ancestor, and no other memory is.
async fn check(provider: &RedisMemory, stored: &BTreeMap<MemoryId, String>) -> Case {
    let mut paths = BTreeMap::<String, BTreeSet<MemoryId>>::new();
    let mut spaces = BTreeMap::<String, BTreeSet<MemoryId>>::new();
    for (id, space) in stored {
        assert_eq!(provider.get(*id).await?.map(|memory| memory.id), Some(*id));
        spaces.entry(space.clone()).or_default().insert(*id);
        for path in SpaceId::parse(space)?.ancestors() {
            paths.entry(path.to_owned()).or_default().insert(*id);
        }
    }
    assert_eq!(found(provider, || MemoryQuery::builder().all()).await?, stored.keys().copied().collect());
    for (space, ids) in spaces {
        assert_eq!(found(provider, || MemoryQuery::builder().exact(space.as_str())).await?, ids, "{space}");
    }
    for (path, ids) in paths {
        assert_eq!(found(provider, || MemoryQuery::builder().under(path.as_str())).await?, ids, "{path}");
    }
    Ok(())
}

/// The ids of all pages of a query; no id is on two of them.
async fn found(
    provider: &RedisMemory,
    query: impl Fn() -> QueryBuilder<memory_core::Ledger>,
) -> Result<BTreeSet<MemoryId>> {
    let (mut found, mut cursor) = (BTreeSet::new(), None::<Cursor>);
    loop {
        let query = query().limit(1_000);
        let page =
            provider.query(&cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor)).build()?).await?;
        for memory in page.memories {
            assert!(found.insert(memory.id), "{} is there twice", memory.id);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}

/// The primaries of a cluster, as an operator reaches them.
struct Nodes {
    key: String,
    password: String,
    /// By their ports: the connection, and the id in the cluster.
    known: BTreeMap<u16, (MultiplexedConnection, String)>,
}

impl Nodes {
    async fn of(cluster: &RedisCluster) -> Result<Self, Failure> {
        let url = cluster.url();
        let (password, hosts) = url.rsplit_once('@').ok_or("no password")?;
        let password = password.rsplit_once(':').ok_or("no password")?.1.to_owned();
        let mut nodes = Self { key: format!("{{{NAMESPACE}}}"), password, known: BTreeMap::new() };
        for port in hosts.split(',').filter_map(|host| host.rsplit_once(':')?.1.parse::<u16>().ok()) {
            nodes.connect(port).await?;
        }
        Ok(nodes)
    }

    /// Takes another node into the cluster, and waits until all is well for each primary. Returns its port.
    async fn welcome(&mut self, new: &LocalRedis) -> Result<u16, Failure> {
        new.command(&["CONFIG", "SET", "masterauth", &self.password])?;
        new.command(&["CONFIG", "SET", "requirepass", &self.password])?;
        let port = new.port();
        for (mut node, _) in self.known.clone().into_values() {
            cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(port).query_async::<()>(&mut node).await?;
        }
        self.connect(port).await?;
        for (mut node, _) in self.known.clone().into_values() {
            loop {
                let seen: String = cmd("CLUSTER").arg("NODES").query_async(&mut node).await?;
                let state: String = cmd("CLUSTER").arg("INFO").query_async(&mut node).await?;
                let is_known = |id: &str| seen.lines().any(|line| line.starts_with(id) && !line.contains("handshake"));
                if state.contains("cluster_state:ok") && self.known.values().all(|(_, id)| is_known(id)) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(port)
    }

    /// Keeps a connection, if it is one to a primary.
    async fn connect(&mut self, port: u16) -> Result<(), Failure> {
        let client = Client::open(format!("redis://:{}@127.0.0.1:{port}", self.password))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut node = client.get_multiplexed_async_connection_with_config(&config).await?;
        let role: Vec<redis::Value> = cmd("ROLE").query_async(&mut node).await?;
        if role.first() == Some(&redis::Value::BulkString(b"master".to_vec())) {
            let id = cmd("CLUSTER").arg("MYID").query_async(&mut node).await?;
            self.known.insert(port, (node, id));
        }
        Ok(())
    }

    /// Moves the slot of the namespace from primary to primary, some keys at a time.
    async fn move_slot(&self, from: u16, to: u16) -> Case {
        self.begin_move(from, to).await?;
        while self.move_keys(from, to).await? {}
        self.end_move(to).await
    }

    async fn begin_move(&self, from: u16, to: u16) -> Case {
        let (node, next) = (&self.known[&from], &self.known[&to]);
        self.set_slot("IMPORTING", &node.1).await?.query_async::<()>(&mut next.0.clone()).await?;
        Ok(self.set_slot("MIGRATING", &next.1).await?.query_async::<()>(&mut node.0.clone()).await?)
    }

    /// Moves some keys. Tells whether there were any.
    async fn move_keys(&self, from: u16, to: u16) -> Result<bool, Failure> {
        let mut node = self.known[&from].0.clone();
        let slice = cmd("CLUSTER").arg("GETKEYSINSLOT").arg(self.slot().await?).arg(MOVED).clone();
        let keys: Vec<Vec<u8>> = slice.query_async(&mut node).await?;
        if keys.is_empty() {
            return Ok(false);
        }
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(to).arg("").arg(0).arg(60_000).arg("AUTH").arg(&self.password);
        migrate.arg("KEYS").arg(keys).query_async::<()>(&mut node).await?;
        Ok(true)
    }

    async fn end_move(&self, to: u16) -> Case {
        let (mut next, id) = self.known[&to].clone();
        let set_slot = self.set_slot("NODE", &id).await?;
        set_slot.query_async::<()>(&mut next).await?;
        for (mut node, _) in self.known.clone().into_values() {
            // A node that has lost its last slot becomes a replica by itself, and refuses.
            let _ = set_slot.query_async::<()>(&mut node).await;
        }
        Ok(())
    }

    /// The command that assigns the slot on a node.
    async fn set_slot(&self, state: &str, id: &str) -> Result<redis::Cmd, Failure> {
        Ok(cmd("CLUSTER").arg("SETSLOT").arg(self.slot().await?).arg(state).arg(id).clone())
    }

    /// The slot of the namespace.
    async fn slot(&self) -> Result<u16, Failure> {
        let (mut node, _) = self.known.values().next().ok_or("no node")?.clone();
        Ok(cmd("CLUSTER").arg("KEYSLOT").arg(&self.key).query_async(&mut node).await?)
    }

    /// How many keys an index of words has on all nodes together.
    async fn count_words(&self) -> Result<usize, Failure> {
        self.count(&["x:", "ew:", "steps:words"]).await
    }

    /// How many keys of these kinds there are on all nodes together.
    async fn count(&self, kinds: &[&str]) -> Result<usize, Failure> {
        let mut count = 0;
        for (mut node, _) in self.known.clone().into_values() {
            for kind in kinds {
                let keys: Vec<Vec<u8>> =
                    cmd("KEYS").arg(format!("{}:{kind}*", self.key)).query_async(&mut node).await?;
                count += keys.len();
            }
        }
        Ok(count)
    }
}
