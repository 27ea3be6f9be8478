//! PostgreSQL with a standby that confirms each commit. Clients reach both through proxies.

use conformance::fault::{Fault, Proxy};
use conformance::server::postgres::LocalPostgres;
use fastrand::Rng;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::runtime::Runtime;

use super::{System, parameters, pause, wait_until};
use crate::Fallible;

/// A primary and its standby, which takes its place in a failover and gets a standby of its own before the next history.
#[derive(Debug)]
pub(crate) struct Postgres {
    runtime: Runtime,
    primary: LocalPostgres,
    standby: Option<LocalPostgres>,
    /// The proxy in front of the primary comes first.
    proxies: Vec<Proxy>,
}

impl Postgres {
    pub(crate) fn start() -> Fallible<Self> {
        // Written data outlives the processes: no test ends the system. The standby comes back before calls reach their deadlines.
        let primary = LocalPostgres::start_with(&[("fsync", "off"), ("wal_retrieve_retry_interval", "100ms")])?;
        Ok(Self { runtime: Runtime::new()?, primary, standby: None, proxies: Vec::new() })
    }

    /// Lets each commit of the primary wait for the standby, and returns when the standby follows.
    fn follow(&self) -> Fallible {
        let mut connection = self.runtime.block_on(async {
            let mut connection = PgConnection::connect(self.primary.url()).await?;
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
            connection.execute("SELECT pg_reload_conf()").await?;
            Fallible::Ok(connection)
        })?;
        let follows = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        wait_until("the standby follows", || Ok(self.runtime.block_on(connection.fetch_optional(follows))?.is_some()))
    }

    fn set(&self, fault: Fault) {
        self.proxies[0].set(fault);
    }
}

impl System for Postgres {
    fn begin(&mut self) -> Fallible<String> {
        if self.standby.is_none() {
            self.standby = Some(self.primary.standby()?);
            self.follow()?;
        }
        let urls = [Some(&self.primary), self.standby.as_ref()].map(|server| server.map(LocalPostgres::url));
        self.proxies = self.runtime.block_on(async {
            let mut proxies = Vec::new();
            for url in urls.into_iter().flatten() {
                proxies.push(Proxy::before(url).await?);
            }
            Fallible::Ok(proxies)
        })?;
        let (_, second) = self.proxies[1].url().rsplit_once('@').ok_or("a URL without a user")?;
        let (first, _) = self.proxies[0].url().rsplit_once('/').ok_or("a URL without a database")?;
        Ok(format!("{first},{second}?{}", parameters()))
    }

    fn disturb(&mut self, random: &mut Rng, calls: &dyn Fn(usize)) -> Fallible<String> {
        let millis = random.u64(100..1_000);
        match random.u32(0..6) {
            // After a failover there is none.
            0 if self.standby.is_some() => {
                let standby = self.standby.as_ref().and_then(LocalPostgres::process_id);
                Ok(format!("the standby {}", pause(standby, millis)?))
            }
            0 | 1 => Ok(format!("the primary {}", pause(self.primary.process_id(), millis)?)),
            2 => {
                self.primary.restart()?;
                Ok("the primary restarted".to_owned())
            }
            kind => {
                let fault = [Fault::HoldRequests, Fault::HoldAnswers, Fault::Refuse][kind as usize - 3];
                self.set(fault);
                // Those that wait do not end: for a second.
                calls(usize::MAX);
                self.set(Fault::None);
                Ok(format!("{fault:?} before the primary"))
            }
        }
    }

    fn fail_over(&mut self, _: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        let standby = self.standby.take().ok_or("a second failover")?;
        self.primary.kill()?;
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(standby.url()).await?;
            connection.execute("SELECT pg_promote()").await
        })?;
        self.primary = standby;
        self.proxies.swap(0, 1);
        Ok("the primary killed, the standby promoted".to_owned())
    }
}
