//! MongoDB: a replica set of three nodes.

use std::thread;
use std::time::Duration;

use conformance::server::mongo::LocalMongo;
use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PARAMETERS, System, pause};
use crate::Fallible;
use crate::judge::search::Loss;
use crate::judge::{Past, Setting};

#[derive(Debug)]
pub(crate) struct Mongo {
    set: LocalMongo,
}

impl Mongo {
    pub(crate) fn start() -> Fallible<Self> {
        Ok(Self { set: LocalMongo::start_with(3, &[])? })
    }
}

impl System for Mongo {
    fn begin(&mut self) -> Fallible<String> {
        let (name, url) = (conformance::Namespace::unique().name, self.set.url());
        Ok(format!("{}&{PARAMETERS}", url.replace("/?", &format!("/{name}?"))))
    }

    /// A primary that was replaced answers reads until it learns of that. A refusal waits for a majority.
    fn setting(&self) -> Setting {
        Setting { loss: Loss::Nothing, past: Past::Reads }
    }

    fn disturb(&mut self, random: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        let (node, primary) = (random.usize(0..3), self.set.primary()?);
        let name = if node == primary { "the primary" } else { "a secondary" };
        // Shorter than an election waits.
        Ok(format!("{name} {}", pause(self.set.process_id(node), random.u64(100..1_500))?))
    }

    fn fail_over(&mut self, random: &mut Rng, _: &dyn Fn(usize)) -> Fallible<String> {
        let (primary, is_killed) = (self.set.primary()?, random.bool());
        if is_killed {
            self.set.kill(primary)?;
            self.set.primary()?;
            self.set.restart(primary)?;
            return Ok("the primary killed, another one elected".to_owned());
        }
        let process = Pid::from_raw(self.set.process_id(primary).ok_or("it does not run")?.cast_signed());
        kill(process, Signal::SIGSTOP)?;
        // Longer than an election waits.
        thread::sleep(Duration::from_millis(random.u64(3_000..5_000)));
        kill(process, Signal::SIGCONT)?;
        self.set.primary()?;
        Ok("the primary stopped while another one was elected".to_owned())
    }
}
