//! A Redis cluster of three primaries, each with one replica.

use std::io;

use super::process::holds;
use super::redis::{ENGINE, LocalRedis, cli};
use super::{Missing, new_password};

const PRIMARIES: usize = 3;
/// After how many milliseconds without an answer a node counts as failed. Long enough for a machine that is busy with tests; tests of a
/// failover set a shorter time.
const NODE_TIMEOUT: &str = "30000";

/// A Redis cluster from the binary of this machine.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<LocalRedis>,
    password: String,
}

/// A node, as `CLUSTER NODES` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    id: String,
    port: u16,
    is_primary: bool,
    is_well: bool,
}

impl RedisCluster {
    /// Starts three primaries and three replicas with additional settings, and returns when all slots are served.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, Missing> {
        Self::new(settings).map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// The URL for the default user, with the password.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(LocalRedis::address).collect();
        format!("redis+cluster://:{}@{}", self.password, hosts.join(","))
    }

    /// The port of the primary that holds the slot of a key, as the first node that answers sees it: for a moment, it may be one that was
    /// killed. Waits while there is none, as in the middle of a failover.
    pub fn primary_of(&self, key: &str) -> io::Result<u16> {
        let slot: u16 = self.ask(&["CLUSTER", "KEYSLOT", key])?.parse().map_err(io::Error::other)?;
        let mut port = None;
        holds(|| {
            let Ok(lines) = self.ask(&["CLUSTER", "NODES"]) else { return Ok(false) };
            let mut holders = lines.lines().filter(|line| holds_slot(line, slot)).filter_map(Node::parse);
            port = holders.find(|node| node.is_primary).map(|node| node.port);
            Ok(port.is_some())
        })?;
        port.ok_or_else(|| io::Error::other(format!("no node holds the slot {slot}")))
    }

    /// Returns the process id of the node on this port; `None` after it was killed.
    pub fn process_id(&self, port: u16) -> Option<u32> {
        self.nodes.iter().find(|node| node.port() == port)?.process_id()
    }

    /// Moves `count` slots with their keys from one primary to another. Both are counted from 0, in no particular order.
    pub fn move_slots(&self, from: usize, to: usize, count: usize) -> io::Result<()> {
        let primaries: Vec<_> = self.view()?.into_iter().filter(|node| node.is_primary && node.is_well).collect();
        let id = |place: usize| primaries.get(place).map(|node| node.id.as_str()).unwrap_or_default();
        let (address, count) = (self.nodes[0].address(), count.to_string());
        let ends = ["--cluster-from", id(from), "--cluster-to", id(to)];
        let arguments = ["--cluster", "reshard", &address, "--cluster-slots", &count, "--cluster-yes"];
        let mut last = Ok(());
        // The nodes need a moment to agree on earlier moves.
        holds(|| {
            last = cli(self.nodes[0].port(), &self.password, &[&arguments[..], &ends].concat()).map(drop);
            Ok(last.is_ok())
        })?;
        last
    }

    /// Kills the node on this port by SIGKILL, and returns when its process is gone.
    pub fn kill(&mut self, port: u16) -> io::Result<()> {
        self.node(port)?.kill()
    }

    /// Starts the node on this port again, and returns when the cluster is whole.
    pub fn restart(&mut self, port: u16) -> io::Result<()> {
        self.node(port)?.restart()?;
        self.wait_until_whole()
    }

    fn new(settings: &[(&str, &str)]) -> io::Result<Self> {
        let password = new_password();
        let cluster = [("cluster-enabled", "yes"), ("cluster-node-timeout", NODE_TIMEOUT)];
        // Replication without disks, so that a replica is ready at once.
        let replication = [("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")];
        let settings = [&cluster[..], &replication, settings].concat();
        let nodes = (0..2 * PRIMARIES).map(|_| LocalRedis::start_on(password.clone(), &settings));
        let cluster = Self { nodes: nodes.collect::<io::Result<_>>()?, password };
        let addresses: Vec<_> = cluster.nodes.iter().map(LocalRedis::address).collect();
        let addresses = addresses.iter().map(String::as_str);
        let arguments = ["--cluster", "create"].into_iter().chain(addresses);
        let arguments: Vec<_> = arguments.chain(["--cluster-replicas", "1", "--cluster-yes"]).collect();
        cli(cluster.nodes[0].port(), &cluster.password, &arguments)?;
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// Waits until each node sees all slots served, and each replica follows its primary.
    fn wait_until_whole(&self) -> io::Result<()> {
        let is_whole = || {
            for node in &self.nodes {
                // A replica that loads the data of its primary answers nothing else meanwhile.
                let Ok(state) = node.command(&["CLUSTER", "INFO"]) else { return Ok(false) };
                if !state.contains("cluster_state:ok") {
                    return Ok(false);
                }
                let Ok(role) = node.command(&["INFO", "replication"]) else { return Ok(false) };
                if role.contains("role:slave") && !role.contains("master_link_status:up") {
                    return Ok(false);
                }
            }
            let view = self.view()?;
            Ok(view.iter().filter(|node| node.is_primary && node.is_well).count() == PRIMARIES
                && view.iter().all(|node| node.is_well))
        };
        match holds(is_whole)? {
            true => Ok(()),
            false => Err(io::Error::other("the cluster did not become complete in time")),
        }
    }

    fn view(&self) -> io::Result<Vec<Node>> {
        Ok(self.ask(&["CLUSTER", "NODES"])?.lines().filter_map(Node::parse).collect())
    }

    /// Sends a command to the nodes in turn, and returns the first answer.
    fn ask(&self, command: &[&str]) -> io::Result<String> {
        let mut last = Err(io::Error::other("the cluster has no node"));
        for node in self.nodes.iter().filter(|node| node.process_id().is_some()) {
            last = node.command(command);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    fn node(&mut self, port: u16) -> io::Result<&mut LocalRedis> {
        let node = self.nodes.iter_mut().find(|node| node.port() == port);
        node.ok_or_else(|| io::Error::other(format!("no node of the cluster is on port {port}")))
    }
}

/// Returns whether a line of `CLUSTER NODES` has a range with this slot: they follow the eight fields of the node.
fn holds_slot(line: &str, slot: u16) -> bool {
    line.split(' ').skip(8).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bound = |text: &str| text.parse::<u16>().ok();
        matches!((bound(first), bound(last)), (Some(first), Some(last)) if (first..=last).contains(&slot))
    })
}

impl Node {
    /// Parses a line of `CLUSTER NODES`: id, address, flags, and so on.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(' ');
        let (id, address, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let port = address.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        let has = |flag: &str| flags.split(',').any(|found| found == flag);
        let is_well = !["fail", "fail?", "noaddr", "handshake"].into_iter().any(has);
        Some(Self { id: id.to_owned(), port, is_primary: has("master"), is_well })
    }
}
