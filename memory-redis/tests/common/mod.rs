//! Helpers of the tests, and operations that bypass a provider. No test uses all of them.
#![allow(dead_code)]

use std::time::Duration;

use memory_core::{
    Collection, Content, DocumentId, DocumentWrite, Error, MemoryId, MemoryProvider, NewMemory, SpaceId, Timestamp,
    Trigger,
};
use memory_redis::{RedisConfig, RedisMemory};
use percent_encoding::percent_decode_str;
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisResult, Value, cmd};

/// A way around the providers of a server or a cluster.
#[derive(Debug)]
pub(crate) enum Admin {
    Server(Box<Client>),
    Cluster(String),
}

/// The number of words in each index of [`Admin::index_words`]: more than a slice covers.
pub(crate) const WORDS: usize = 5_000;
/// Makes the word index of a program of version 2, with every other memory in it, and removes everything that later
/// versions added.
const INDEX_WORDS: &str = "
    local all = redis.call('ZRANGE', KEYS[1], 0, -1)
    for place = 1, #all, 2 do
      redis.call('ZADD', KEYS[2], 0, all[place])
      redis.call('ZREM', KEYS[1], all[place])
    end
    for word = 1, tonumber(ARGV[2]) do
      for _, kind in ipairs({'x:', 'ew:notes:'}) do
        redis.call('ZADD', ARGV[1] .. kind .. word, 0, all[word % #all + 1])
      end
    end
    redis.call('HDEL', KEYS[3], 3, 4, 5, 6, 7, 8)
    redis.call('SET', KEYS[4], 3)";

/// How long a node of a cluster may take for a command.
const PATIENCE: Duration = Duration::from_secs(60);

impl Admin {
    /// For the URL of a test server.
    pub(crate) fn of(url: &str) -> Self {
        match url.strip_prefix("redis+cluster") {
            Some(rest) => Self::Cluster(rest.to_owned()),
            None => Self::Server(Box::new(Client::open(url).expect("the URL of a test server"))),
        }
    }

    /// Cuts the row of a memory, so that it can't be read to its end.
    pub(crate) async fn cut_last_byte(&self, namespace: &str, id: MemoryId) -> RedisResult<bool> {
        let key = [format!("{{{namespace}}}:r:").as_bytes(), id.as_bytes()].concat();
        let mut row: Vec<u8> = self.query(cmd("GET").arg(&key)).await?;
        let was_there = row.pop().is_some();
        self.query::<()>(cmd("SET").arg(&key).arg(row)).await?;
        Ok(was_there)
    }

    /// Sends commands in one piece to a server. The first error among the answers counts, and so does one within a transaction.
    pub(crate) async fn pipeline(&self, commands: &[Cmd]) -> RedisResult<()> {
        let Self::Server(client) = self else { panic!("a cluster") };
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let mut connection = client.get_multiplexed_async_connection().await?;
        let answers = connection.req_packed_commands(&pipeline, 0, commands.len()).await?;
        Value::Array(answers).extract_error().map(drop)
    }

    /// Lays a ledger of `conformance/ledgers` in a namespace.
    pub(crate) async fn lay(&self, ledger: &str, namespace: &str) -> RedisResult<()> {
        let ledger = ledger.replace("{namespace}", &format!("{{{namespace}}}"));
        let command = |line: &str| {
            let mut command = Cmd::new();
            for argument in line.split(' ') {
                command.arg(percent_decode_str(argument).collect::<Vec<_>>());
            }
            command
        };
        self.pipeline(&ledger.lines().map(command).collect::<Vec<_>>()).await
    }

    /// Leaves a ledger as a program of version 2 has that indexes the words of some of its memories, and of its documents.
    pub(crate) async fn index_words(&self, namespace: &str) -> RedisResult<()> {
        let prefix = format!("{{{namespace}}}:");
        let keys = ["steps", "steps:words", "schema", "writer"].map(|name| format!("{prefix}{name}"));
        self.query(cmd("EVAL").arg(INDEX_WORDS).arg(keys.len()).arg(&keys).arg(prefix).arg(WORDS)).await
    }

    /// Sends a command, and reads its answer.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let answer = match self {
            Self::Server(client) => {
                // The removals of a whole suite take turns on a server.
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                connection.req_packed_command(command).await?
            }
            Self::Cluster(rest) => {
                let (credentials, hosts) = rest.rsplit_once('@').expect("a password");
                let nodes = hosts.split(',').map(|host| format!("redis{credentials}@{host}"));
                let client = ClusterClient::builder(nodes).response_timeout(PATIENCE).build()?;
                let mut connection = client.get_async_connection().await?;
                connection.req_packed_command(command).await?
            }
        };
        Ok(T::from_redis_value(answer.extract_error()?)?)
    }
}

/// The result of a test outside of the suite.
pub(crate) type Case = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The text in each payload.
pub(crate) const PAYLOAD: &str = "xyzzy";

/// Runs a test to its end.
pub(crate) fn run(case: impl Future<Output = Case>) -> Case {
    tokio::runtime::Runtime::new()?.block_on(case)
}

/// A provider that is initialised.
pub(crate) async fn open(config: RedisConfig) -> Result<RedisMemory, Error> {
    let provider = RedisMemory::open(config)?;
    provider.init().await?;
    Ok(provider)
}

/// A document to put.
pub(crate) fn document(collection: &str, id: &str, space: &str, content: &str) -> memory_core::Result<DocumentWrite> {
    let (collection, space, content) =
        (Collection::parse(collection)?, SpaceId::parse(space)?, Content::parse(content)?);
    Ok(DocumentWrite::new(collection, space, content, Timestamp::from_millis(1)?).with_id(DocumentId::parse(id)?))
}

/// A memory to store.
pub(crate) fn event(space: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"{PAYLOAD}"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, Timestamp::from_millis(millis).expect("valid"))
}
