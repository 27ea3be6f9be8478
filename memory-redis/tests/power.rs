//! A loss of the server's power after any of its writes.
//!
//! `MEMORY_TEST_CRASH_POINTS` sets after how many of the records the power fails, or `all`.

#[cfg(target_os = "linux")]
mod on_linux {
    use std::error::Error;
    use std::io;
    use std::process::{Command, ExitCode};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use conformance::power::{Booted, Failure, Image, Machine, Play, Points, Report, Wrong};
    use conformance::server::redis::LocalRedis;
    use conformance::server::trial;
    use conformance::{CaseResult, Harness, Namespace, Settings};
    use libtest_mimic::Arguments;
    use memory_core::{ManualClock, MemoryProvider, Result};
    use memory_redis::{RedisConfig, RedisMemory};
    use tempfile::TempDir;
    use tokio::task::block_in_place;

    const CALLS: usize = 500;
    /// The number of crash points, unless the environment sets it.
    const CRASH_POINTS: usize = 80;
    /// The number of crash points for settings that lose data.
    const FEW_POINTS: usize = 5;

    pub(crate) fn main() -> ExitCode {
        let trials = vec![
            trial("redis::with_a_sync_for_each_write_a_loss_of_power_loses_nothing", || run(nothing_is_lost())),
            trial("redis::with_a_sync_each_second_a_loss_of_power_is_found", || run(a_loss_is_found("everysec"))),
            trial("redis::without_syncs_a_loss_of_power_is_found", || run(a_loss_is_found("no"))),
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    fn run(test: impl Future<Output = CaseResult>) -> CaseResult {
        tokio::runtime::Runtime::new()?.block_on(test)
    }

    async fn nothing_is_lost() -> CaseResult {
        let disks = Disks::default();
        let report = lose_power("always", &disks, Points::from_env(CRASH_POINTS)?).await?;
        println!("appendfsync always: {report}; {} logs had to be cut by redis-check-aof", disks.cut.into_inner());
        assert!(report.torn > 0, "nothing was torn");
        if report.failures.is_empty() { Ok(()) } else { Err("an image is not what it should be".into()) }
    }

    /// Settings that risk a loss must lose data in some image; otherwise images without a loss would prove nothing.
    async fn a_loss_is_found(appendfsync: &str) -> CaseResult {
        let report = lose_power(appendfsync, &Disks::default(), Points::Some(FEW_POINTS)).await?;
        println!("appendfsync {appendfsync}: {report}");
        let has_lost = |failure: &Failure| matches!(failure.wrong, Wrong::Lost { .. } | Wrong::Differs(_));
        if report.failures.iter().any(has_lost) { Ok(()) } else { Err("no loss was found".into()) }
    }

    /// Records a server, and lets its power fail.
    async fn lose_power(
        appendfsync: &str,
        disks: &Disks,
        points: Points,
    ) -> std::result::Result<Report, Box<dyn Error + Send + Sync>> {
        let seed = Settings::from_env()?.seed;
        let settings = [("appendonly", "yes"), ("appendfsync", appendfsync)];
        let (mut server, recorder) = block_in_place(|| LocalRedis::start_recorded(&settings))?;
        let harness = Arc::new(Redis { url: server.url(), _server: None });
        // The server rewrites its log during the second half of the calls.
        let rewrite = || -> CaseResult { Ok(server.command(&["BGREWRITEAOF"]).map(drop)?) };
        let play = Play::run(&recorder, harness, seed, CALLS, || block_in_place(rewrite)).await?;
        block_in_place(|| {
            if !server.persists("aof_rewrite_in_progress:0")? {
                return Err(io::Error::other("the log is still written anew"));
            }
            server.kill()
        })?;
        Ok(play.finish(&recorder)?.check(disks, points).await?)
    }

    /// A namespace of a server.
    #[derive(Debug)]
    struct Redis {
        url: String,
        /// The server, if it was started on an image.
        _server: Option<LocalRedis>,
    }

    #[async_trait]
    impl Harness for Redis {
        fn name(&self) -> &str {
            "redis"
        }

        async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
            let mut config = RedisConfig::from_url(&self.url)?;
            config.namespace.clone_from(&namespace.name);
            config.clock = Arc::<ManualClock>::clone(&namespace.clock);
            config.deadline = namespace.deadline;
            Ok(Arc::new(RedisMemory::open(config)?))
        }

        async fn remove(&self, _: &Namespace) -> Result<()> {
            Ok(())
        }
    }

    /// Servers after a loss of power.
    #[derive(Debug, Default)]
    struct Disks {
        /// How many logs had a hole.
        cut: AtomicUsize,
    }

    #[async_trait]
    impl Machine for Disks {
        /// The server accepts a log whose end is missing. If a part before the end is missing, the server refuses the
        /// log, and the operator truncates it there, as its manual says.
        async fn boot(&self, image: &Image) -> std::result::Result<Booted, Box<dyn Error + Send + Sync>> {
            block_in_place(|| {
                let server = start(image).or_else(|refusal| {
                    self.cut.fetch_add(1, Ordering::Relaxed);
                    start(&cut(image)?).map_err(|error| io::Error::other(format!("{refusal}; behind a cut: {error}")))
                })?;
                let digest = Image::read(&server.data())?.digest();
                Ok(Booted { digest, harness: Arc::new(Redis { url: server.url(), _server: Some(server) }) })
            })
        }
    }

    fn start(image: &Image) -> io::Result<LocalRedis> {
        LocalRedis::start_on_image(image, &[("appendonly", "yes"), ("appendfsync", "no")])
    }

    /// Truncates the log before the first missing part.
    fn cut(image: &Image) -> io::Result<Image> {
        let folder = TempDir::new()?;
        image.write(folder.path())?;
        let answered = "yes y | redis-check-aof --fix appendonlydir/appendonly.aof.manifest";
        let output = Command::new("sh").args(["-c", answered]).current_dir(folder.path()).output()?;
        match output.status.success() {
            true => Image::read(folder.path()),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stdout).into_owned())),
        }
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    on_linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
