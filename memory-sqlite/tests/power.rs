//! A loss of power after any write.
//!
//! The process that writes is this test again, with the recorder preloaded: once for each test, which checks the
//! recording. `MEMORY_TEST_CRASH_POINTS` sets after how many of the records the power fails, or `all`.

#[cfg(target_os = "linux")]
mod on_linux {
    use std::env;
    use std::error::Error;
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitCode};
    use std::sync::Arc;

    use async_trait::async_trait;
    use conformance::power::{Booted, Image, Loss, Machine, Play, Points, Recorder};
    use conformance::{CaseResult, Harness, Namespace, Settings};
    use libtest_mimic::{Arguments, Failed, Trial};
    use memory_core::{ManualClock, MemoryProvider, Result};
    use memory_sqlite::{SqliteConfig, SqliteMemory};
    use rusqlite::Connection;
    use tempfile::TempDir;

    const CALLS: usize = 500;
    /// The number of crash points, unless the environment sets it.
    const CRASH_POINTS: usize = 60;
    /// The number of committed rows if only SQLite is tested.
    const ROWS: usize = 20;
    const FILE: &str = "memory.db";

    /// Which test a process is started for that is recorded.
    const ROLE: &str = "MEMORY_TEST_ROLE";

    type Test = fn() -> CaseResult;

    const TESTS: [(&str, Test); 4] = [
        ("a_loss_of_power_loses_nothing_that_was_acknowledged", || run(nothing_is_lost())),
        ("a_loss_of_power_behind_commits_with_a_sync_finds_all_of_them", || losses_of("FULL", false)),
        ("a_loss_of_power_behind_commits_without_a_sync_is_found", || losses_of("NORMAL", true)),
        ("a_loss_of_power_without_any_sync_is_found", || losses_of("OFF", true)),
    ];

    pub(crate) fn main() -> ExitCode {
        if let Ok(role) = env::var(ROLE) {
            return play(&role);
        }
        let trials = TESTS.map(|(name, _)| {
            Trial::test(name, move || in_recorded_process(name).map_err(|error| Failed::from(error.to_string())))
        });
        libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
    }

    fn play(role: &str) -> ExitCode {
        let test = TESTS.iter().find(|(name, _)| *name == role);
        match test.map_or(Err("there is no such test".into()), |(_, test)| test()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }

    fn in_recorded_process(name: &str) -> CaseResult {
        let (place, folder) = (TempDir::new()?, TempDir::new()?);
        let recorder = Recorder::new(place.path(), folder.path())?;
        let status = Command::new(env::current_exe()?).env(ROLE, name).envs(recorder.variables()).status()?;
        if status.success() { Ok(()) } else { Err("the recorded process has failed".into()) }
    }

    fn run(test: impl Future<Output = CaseResult>) -> CaseResult {
        tokio::runtime::Runtime::new()?.block_on(test)
    }

    async fn nothing_is_lost() -> CaseResult {
        let recorder = Recorder::of_this_process().ok_or("nobody records")?;
        let seed = Settings::from_env()?.seed;
        let harness = Arc::new(Sqlite { file: recorder.folder().join(FILE), _folder: None });
        let recording = Play::run(&recorder, harness, seed, CALLS, || Ok(())).await?.finish(&recorder)?;
        let report = recording.check(&Disks, Points::from_env(CRASH_POINTS)?).await?;
        println!("{report}");
        assert!(report.torn > 0, "nothing was torn");
        if report.failures.is_empty() { Ok(()) } else { Err("an image is not what it should be".into()) }
    }

    /// Whether rows are lost that SQLite itself has committed with this setting: the recorder must distinguish syncs.
    fn losses_of(synchronous: &str, are_there: bool) -> CaseResult {
        let recorder = Recorder::of_this_process().ok_or("nobody records")?;
        let connection = Connection::open(recorder.folder().join(FILE))?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        assert_eq!(mode, "wal");
        connection.execute_batch(&format!("PRAGMA synchronous = {synchronous}; CREATE TABLE rows (number)"))?;
        for number in 1..=ROWS {
            connection.execute("INSERT INTO rows VALUES (1)", [])?;
            recorder.acknowledge(number)?;
        }
        let mut lost = 0;
        for (acknowledged, image) in recorder.acknowledged(Loss::Dropped)? {
            let folder = TempDir::new()?;
            image.write(folder.path())?;
            // Without a sync even the table may be gone.
            let rows = Connection::open(folder.path().join(FILE))?
                .query_row("SELECT count(*) FROM rows", [], |row| row.get(0));
            lost += usize::from(usize::try_from(rows.unwrap_or(0_i64))? < acknowledged);
        }
        println!("synchronous = {synchronous}: of {ROWS} images {lost} lack rows that were committed");
        if (lost > 0) == are_there { Ok(()) } else { Err("the losses are not those of the setting".into()) }
    }

    /// One file.
    #[derive(Debug)]
    struct Sqlite {
        file: PathBuf,
        /// The folder, if it is a copy.
        _folder: Option<TempDir>,
    }

    #[async_trait]
    impl Harness for Sqlite {
        fn name(&self) -> &str {
            "sqlite"
        }

        async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
            let mut config = SqliteConfig::new(&self.file);
            config.clock = Arc::<ManualClock>::clone(&namespace.clock);
            config.deadline = namespace.deadline;
            Ok(Arc::new(SqliteMemory::open(config)?))
        }

        async fn remove(&self, _: &Namespace) -> Result<()> {
            Ok(())
        }
    }

    #[derive(Debug)]
    struct Disks;

    #[async_trait]
    impl Machine for Disks {
        /// The provider opens a copy that nobody has repaired. SQLite alone repairs another copy, so that the files
        /// contain their data.
        async fn boot(&self, image: &Image) -> std::result::Result<Booted, Box<dyn Error + Send + Sync>> {
            let repaired = TempDir::new()?;
            image.write(repaired.path())?;
            repair(&repaired.path().join(FILE))?;
            let digest = Image::read(repaired.path())?.digest();
            let folder = TempDir::new()?;
            image.write(folder.path())?;
            let file = folder.path().join(FILE);
            Ok(Booted { digest, harness: Arc::new(Sqlite { file, _folder: Some(folder) }) })
        }
    }

    /// Brings all that counts of the log into the file, and checks that it is sound.
    fn repair(file: &Path) -> CaseResult {
        let connection = Connection::open(file)?;
        connection.execute_batch("PRAGMA synchronous = OFF")?;
        let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(format!("the file is not sound: {verdict}").into());
        }
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(connection.close().map_err(|(_, error)| error)?)
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    on_linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
