//! Redis: a cluster of three primaries with a replica each.

use conformance::server::redis_cluster::RedisCluster;
use fastrand::Rng;

use super::{System, pause, wait_until};
use crate::Fallible;
use crate::judge::search::Loss;
use crate::judge::{Past, Setting};

/// Each write waits for the replica of its primary.
#[derive(Debug)]
pub(crate) struct Cluster {
    cluster: RedisCluster,
    /// A key in the slot of the namespace.
    key: String,
}

impl Cluster {
    pub(crate) fn start() -> Fallible<Self> {
        Ok(Self { cluster: RedisCluster::start_with(&[("cluster-node-timeout", "1000")])?, key: String::new() })
    }
}

impl System for Cluster {
    fn begin(&mut self) -> Fallible<String> {
        let name = conformance::Namespace::unique().name;
        self.key = format!("{{{name}}}:steps");
        Ok(format!("{}?namespace={name}&{}&wait_replicas=1", self.cluster.url(), super::PARAMETERS))
    }

    fn setting(&self) -> Setting {
        Setting { loss: Loss::Unacknowledged, past: Past::Refusals }
    }

    fn disturb(&mut self, random: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        // Shorter than the nodes wait for each other.
        let process = self.cluster.process_id(self.cluster.primary_of(&self.key)?);
        Ok(format!("the primary {}", pause(process, random.u64(100..700))?))
    }

    fn fail_over(&mut self, _: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        let primary = self.cluster.primary_of(&self.key)?;
        self.cluster.kill(primary)?;
        wait_until("a replica takes over", || Ok(self.cluster.primary_of(&self.key)? != primary))?;
        self.cluster.restart(primary)?;
        Ok("the primary killed, its replica took over".to_owned())
    }
}
