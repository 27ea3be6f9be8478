//! The nodes of a cluster, and the search for the one that holds the namespace.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::Host;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, TlsCertificates, Value,
};

use crate::config::RedisConfig;
use crate::error::redirection;
use crate::link::client;

/// A cluster, as far as it is known.
///
/// A namespace is in one slot, so it needs a connection to one node only. The driver's client of a cluster is not used: it
/// stops forever if it learns where the slots are while many calls are in flight.
pub(crate) struct Cluster {
    config: RedisConfig,
    certificates: Option<TlsCertificates>,
    /// The hosts of the configuration.
    hosts: Vec<Host>,
    /// A key of the namespace, for its slot.
    key: String,
    /// The hosts, the last primary, and the nodes that it has listed. A search begins with the first one.
    nodes: Mutex<VecDeque<Host>>,
}

/// What a node has answered.
enum Asked {
    /// It holds the slot, and lists these nodes.
    IsPrimary(MultiplexedConnection, Vec<Host>),
    /// It names the node that holds it, with this error.
    Names(Host, RedisError),
}

impl Cluster {
    /// Makes a cluster of which these hosts are known; connects to nothing yet. `Err` if the settings are not valid.
    pub(crate) fn new(
        config: &RedisConfig,
        hosts: &[Host],
        key: &str,
        certificates: Option<TlsCertificates>,
    ) -> RedisResult<Self> {
        for host in hosts {
            client(host, config, certificates.as_ref())?;
        }
        let nodes = Mutex::new(hosts.to_vec().into());
        Ok(Self { config: config.clone(), certificates, hosts: hosts.to_vec(), key: key.to_owned(), nodes })
    }

    /// Connects to the primary that holds the slot. Asks the known nodes in turn, until one leads to it; each of them has this
    /// time to answer.
    pub(crate) async fn connect(
        &self,
        settings: &AsyncConnectionConfig,
        patience: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let (mut asked, mut last) = (Vec::new(), RedisError::from((ErrorKind::Io, "the cluster has no known node")));
        let count = self.nodes().len();
        for _ in 0..count {
            let Some(mut node) = self.next_node() else { break };
            // Each node is asked once, so that nodes that name each other end the search.
            while !asked.contains(&node) {
                asked.push(node.clone());
                let answer = tokio::time::timeout(patience, self.ask(&node, settings)).await;
                match answer.unwrap_or_else(|_| Err((ErrorKind::Io, "a node of the cluster does not answer").into())) {
                    Ok(Asked::IsPrimary(connection, listed)) => {
                        self.keep(node, listed);
                        return Ok(connection);
                    }
                    // If that node has failed, its own error says more.
                    Ok(Asked::Names(other, error)) if !asked.contains(&other) => (node, last) = (other, error),
                    Ok(Asked::Names(..)) => {}
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// Connects to a node, and asks it for the nodes and for the key.
    async fn ask(&self, node: &Host, settings: &AsyncConnectionConfig) -> RedisResult<Asked> {
        let client = client(node, &self.config, self.certificates.as_ref())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(settings).await?;
        let mut questions = Pipeline::new();
        questions.cmd("CLUSTER").arg("SLOTS").cmd("EXISTS").arg(&self.key);
        let answers = connection.req_packed_commands(&questions, 0, questions.len()).await?;
        let [slots, key] = answers.as_slice() else { return Err((ErrorKind::Parse, "an answer is missing").into()) };
        // A single server has the key too, but is no cluster.
        let listed = listed(&slots.clone().extract_error()?, node);
        let Value::ServerError(error) = key else { return Ok(Asked::IsPrimary(connection, listed)) };
        // While the slot moves to another node, it still belongs to this one.
        if matches!(error.code(), "ASK" | "TRYAGAIN") {
            return Ok(Asked::IsPrimary(connection, listed));
        }
        let error = RedisError::from(error.clone());
        match redirection(&error) {
            Some((name, port)) => Ok(Asked::Names(Host { name: name_or(name, node), port }, error)),
            None => Err(error),
        }
    }

    /// Replaces the known nodes: the primary comes first.
    fn keep(&self, primary: Host, listed: Vec<Host>) {
        let mut nodes = VecDeque::from([primary]);
        for node in self.hosts.iter().cloned().chain(listed) {
            if !nodes.contains(&node) {
                nodes.push_back(node);
            }
        }
        *self.nodes() = nodes;
    }

    /// Returns the first known node, and moves it to the end: if it is dead, the next search begins with another one, even
    /// if this one is given up.
    fn next_node(&self) -> Option<Host> {
        let mut nodes = self.nodes();
        let node = nodes.pop_front()?;
        nodes.push_back(node.clone());
        Some(node)
    }

    fn nodes(&self) -> MutexGuard<'_, VecDeque<Host>> {
        // No code panics while it holds the lock.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the nodes of an answer to `CLUSTER SLOTS`: of each range its bounds, and then for each node its name, its port,
/// and more.
fn listed(slots: &Value, asked: &Host) -> Vec<Host> {
    let ranges = slots.as_sequence().unwrap_or_default().iter();
    let nodes = ranges.flat_map(|range| range.as_sequence().unwrap_or_default().iter().skip(2));
    let host = |node: &Value| {
        let [name, port, ..] = node.as_sequence()? else { return None };
        let name = Option::<String>::from_redis_value_ref(name).ok()?.unwrap_or_default();
        // This stands for a name that is not known.
        (name != "?").then_some(Host { name: name_or(name, asked), port: u16::from_redis_value_ref(port).ok()? })
    };
    nodes.filter_map(host).collect()
}

/// Returns a name, or that of the node that was asked: an empty one means the same.
fn name_or(name: String, asked: &Host) -> String {
    if name.is_empty() { asked.name.clone() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_with_the_names_to_reach_them() {
        let node = |name: Value, port: i64| Value::Array(vec![name, Value::Int(port), Value::BulkString(b"id".into())]);
        let named = |name: &str| Value::BulkString(name.into());
        let range = |nodes: Vec<Value>| Value::Array([vec![Value::Int(0), Value::Int(9)], nodes].concat());
        let slots = Value::Array(vec![
            range(vec![node(named("10.0.0.1"), 1), node(Value::Nil, 2)]),
            range(vec![node(named(""), 3), node(named("?"), 4), Value::Nil]),
        ]);
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        let expected = [host("10.0.0.1", 1), host("asked", 2), host("asked", 3)];
        assert_eq!(listed(&slots, &host("asked", 9)), expected);
        assert_eq!(listed(&Value::Okay, &host("asked", 9)), []);
    }
}
