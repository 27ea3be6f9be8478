//! What tests share, and what they do behind the back of a provider.
// No test uses all of it.
#![allow(dead_code)]

use std::time::Duration;

use memory_core::{Error, MemoryId, MemoryProvider, NewMemory, SpaceId, Timestamp, Trigger};
use memory_redis::{RedisConfig, RedisMemory};
use redis::aio::ConnectionLike;
use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, cmd};

/// A way around the providers of a server or a cluster.
#[derive(Debug)]
pub(crate) enum Admin {
    Server(Box<Client>),
    Cluster(String),
}

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
        let key = [format!("{{{namespace}}}:m:").as_bytes(), id.as_bytes()].concat();
        let mut row: Vec<u8> = self.query(cmd("GET").arg(&key)).await?;
        let was_there = row.pop().is_some();
        self.query::<()>(cmd("SET").arg(&key).arg(row)).await?;
        Ok(was_there)
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

/// What a test of its own returns.
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

/// A memory to store.
pub(crate) fn event(space: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"{PAYLOAD}"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, Timestamp::from_millis(millis).expect("valid"))
}
