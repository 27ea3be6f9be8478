//! Redis with a replica and a sentinel.

use conformance::server::redis::{LocalRedis, LocalSentinel};
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{System, parameters, pause, wait_until};
use crate::Fallible;
use crate::judge::search::Loss;
use crate::judge::{Past, Setting};

/// New servers for each history.
#[derive(Debug)]
pub(crate) struct Redis {
    /// Whether a write waits for the replica. Otherwise a failover loses what the replica does not have.
    waits: bool,
    servers: Option<Servers>,
}

#[derive(Debug)]
struct Servers {
    primary: LocalRedis,
    replica: LocalRedis,
    sentinel: LocalSentinel,
}

impl Redis {
    pub(crate) fn new(waits: bool) -> Self {
        Self { waits, servers: None }
    }

    fn servers(&mut self) -> Fallible<&mut Servers> {
        Ok(self.servers.as_mut().ok_or("no servers")?)
    }
}

impl Servers {
    fn start() -> Fallible<Self> {
        let primary = LocalRedis::start()?;
        let replica = LocalRedis::start_replica(&primary)?;
        let sentinel = LocalSentinel::start(&primary)?;
        wait_until("the sentinel knows a replica that follows", || {
            Ok(sentinel.replicas().is_ok_and(|count| count == 1) && follows(&replica)?)
        })?;
        Ok(Self { primary, replica, sentinel })
    }
}

impl System for Redis {
    fn begin(&mut self) -> Fallible<String> {
        self.servers = None;
        let servers = self.servers.insert(Servers::start()?);
        let url = format!("{}?{}", servers.sentinel.url(), parameters());
        Ok(if self.waits { url + "&wait_replicas=1" } else { url })
    }

    /// A read may show a write that no replica has yet, and a replaced primary answers until it is told.
    fn setting(&self) -> Setting {
        let loss = if self.waits { Loss::Unacknowledged } else { Loss::Any };
        Setting { loss, past: Past::Refusals }
    }

    fn disturb(&mut self, random: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        let servers = self.servers()?;
        // Shorter than the sentinel waits.
        let millis = random.u64(100..700);
        match random.bool() {
            true => Ok(format!("the primary {}", pause(servers.primary.process_id(), millis)?)),
            false => Ok(format!("the replica {}", pause(servers.replica.process_id(), millis)?)),
        }
    }

    fn fail_over(&mut self, random: &mut Rng, calls: &dyn Fn(usize)) -> Fallible<String> {
        let waits = self.waits;
        // Without a wait, two primaries at once would acknowledge writes that no order explains.
        let is_killed = !waits || random.bool();
        let servers = self.servers()?;
        let replica = Pid::from_raw(servers.replica.process_id().ok_or("it does not run")?.cast_signed());
        let primary = Pid::from_raw(servers.primary.process_id().ok_or("it does not run")?.cast_signed());
        if !waits {
            // Acknowledged writes are now only on the primary. The connection ends too, because a stopped replica
            // would still read what its socket holds.
            kill(replica, Signal::SIGSTOP)?;
            servers.primary.command(&["CLIENT", "KILL", "TYPE", "replica"])?;
            // Each waits for a second at most, in which a busy machine may not end that many.
            (0..5).for_each(|_| calls(10));
        }
        if is_killed {
            servers.primary.kill()?
        } else {
            kill(primary, Signal::SIGSTOP)?
        }
        if !waits {
            kill(replica, Signal::SIGCONT)?;
        }
        wait_until("the replica takes over", || Ok(servers.sentinel.primary()? == servers.replica.port()))?;
        let next = LocalRedis::start_replica(&servers.replica)?;
        wait_until("the next replica follows", || follows(&next))?;
        if !is_killed {
            // It still takes itself for the primary.
            kill(primary, Signal::SIGCONT)?;
            calls(100);
            servers.primary.kill()?;
        }
        let replica = std::mem::replace(&mut servers.replica, next);
        servers.primary = replica;
        Ok(format!("the primary {}, the replica took over", if is_killed { "killed" } else { "stopped meanwhile" }))
    }
}

fn follows(replica: &LocalRedis) -> Fallible<bool> {
    Ok(replica.command(&["INFO", "replication"])?.contains("master_link_status:up"))
}
