//! `bench`: measures an engine at a chosen size and load.

mod meter;
mod report;
mod workloads;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum, value_parser};
use conformance::workload::{Ledger, PAYLOAD, RowOrder, SpaceForm, Spread};
use memory_core::{InMemory, MemoryProvider};
use memory_runtime::Sandbox;
use tokio::process::Command;
use tokio::time::sleep;

use self::meter::Limits;
use self::report::{Report, Space};
use self::workloads::Workloads;
use crate::engine::{self, REFERENCE};
use crate::output::Output;
use crate::usage::Usage;
use crate::{resident, signal};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The number of memories to load first, from 1,000 to 10,000,000.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1_000..=10_000_000))]
    rows: u64,
    /// The bytes of text in each memory, up to 60,000.
    #[arg(long, value_name = "BYTES", default_value_t = PAYLOAD as u64, value_parser = value_parser!(u64).range(..=60_000))]
    payload: u64,
    /// The number of clients of concurrent workloads, up to 10,000.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u64).range(1..=10_000))]
    clients: u64,
    /// The number of guilds, of channels in each guild, and of users in each channel.
    #[arg(long, value_name = "GUILDS,CHANNELS,USERS", default_value = "100,10,1000", value_parser = spread)]
    spaces: Spread,
    /// The names of users: u42, or UUIDs, whose hyphens make more levels of spaces.
    #[arg(long, value_enum, default_value_t = Users::Plain)]
    users: Users,
    /// The order of time in which the memories are loaded.
    #[arg(long, value_enum, default_value_t = LoadOrder::Ascending)]
    order: LoadOrder,
    /// Measure recall by vector, too: for each number, add that many memories in a separate space, each with a vector of 384 dimensions; up
    /// to 100,000.
    ///
    /// As in 1000,20000,100000. Embedding them is measured as well, without storing them.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = value_parser!(u64).range(1_000..=100_000))]
    vectors: Vec<u64>,
    /// The most operations of each workload.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=10_000_000))]
    operations: u64,
    /// The most seconds of each workload.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The seconds to wait after the load, for the background work of the engine.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u64).range(..=3_600))]
    settle: u64,
    /// Measure recall from cold caches, too: once for each question, after this shell command has emptied them.
    ///
    /// The command may restart the server; it must not end before the server answers again.
    #[arg(long, value_name = "COMMAND")]
    cold: Option<String>,
    /// Also write the report to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Users {
    Plain,
    Uuid,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LoadOrder {
    Ascending,
    Random,
    Descending,
}

impl BenchArgs {
    fn ledger(&self) -> Ledger {
        let form = match self.users {
            Users::Plain => SpaceForm::Plain,
            Users::Uuid => SpaceForm::WithUuid,
        };
        let order = match self.order {
            LoadOrder::Ascending => RowOrder::Ascending,
            LoadOrder::Random => RowOrder::Random,
            LoadOrder::Descending => RowOrder::Descending,
        };
        Ledger { rows: self.rows as usize, payload: self.payload as usize, order, form, spread: self.spaces }
    }
}

pub(crate) async fn run(url: &str, args: &BenchArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let location = if url == REFERENCE { "the reference".to_owned() } else { engine::parse(url)?.location() };
    let place = Place { url, location, sandbox: engine::sandbox("bench") };
    if place.is_reference() && args.cold.is_some() {
        return Err(Usage(format!("--cold: what {REFERENCE} holds is gone with its provider; see --help")).into());
    }
    let provider = place.open()?;
    let signal = signal::asked_to_end()?;
    let result = tokio::select! {
        report = measure(&place, &provider, args) => report,
        () = signal => Err(anyhow::anyhow!("interrupted")),
    };
    // The data is removed even after a failure, whose error is returned.
    let closed = provider.shutdown().await;
    let removed = place.remove().await;
    let report = result?;
    closed?;
    removed?;
    if let Some(file) = &args.report {
        super::report::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    output.value(&report, report.to_markdown())?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(place: &Place<'_>, provider: &Arc<dyn MemoryProvider>, args: &BenchArgs) -> anyhow::Result<Report> {
    provider.init().await.with_context(|| place.location.clone())?;
    let health = provider.check_health().await?;
    let (ledger, clients) = (args.ledger(), args.clients as usize);
    let limits = Limits { operations: args.operations, time: Duration::from_secs(args.seconds) };
    let mut workloads = Workloads::new(Arc::clone(provider), ledger, clients, limits);
    let before = place.bytes().await?;
    let loaded = workloads.load().await?;
    sleep(Duration::from_secs(args.settle)).await;
    workloads.recall().await?;
    workloads.recall_by_vector(&args.vectors).await?;
    workloads.walk(&loaded).await?;
    // Measured now and not right after the load, since some engines write their files later.
    let taken = before.zip(place.bytes().await?).map(|(before, after)| after.saturating_sub(before));
    workloads.write(&loaded).await?;
    // The reference engine shows writes only to the handle that made them.
    let watching = if place.is_reference() { Arc::clone(provider) } else { place.open()? };
    watching.init().await?;
    workloads.watch(&*watching).await?;
    if !place.is_reference() {
        watching.shutdown().await?;
    }
    if let Some(command) = &args.cold {
        workloads.recall_cold(async || cold(place, command).await).await?;
    }
    let rows = ledger.rows as u64;
    let space = Space {
        bytes_per_memory: taken.map(|bytes| bytes / rows),
        bytes_beyond_texts: taken.map(|bytes| (bytes as i64 - loaded.texts as i64) / rows as i64),
        peak_resident_mib: resident::peak_mib(),
    };
    Ok(Report::new(health, ledger, clients, space, workloads.measured()))
}

/// Opens a new provider after the command has emptied the caches.
async fn cold(place: &Place<'_>, command: &str) -> anyhow::Result<Arc<dyn MemoryProvider>> {
    // The command's standard output is not part of the report.
    let status = Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status().await;
    let status = status.context("the command of --cold can't be run")?;
    ensure!(status.success(), "the command of --cold failed: {status}");
    let provider = place.open()?;
    provider.init().await?;
    Ok(provider)
}

/// The temporary database of the benchmark, which is removed afterwards.
struct Place<'u> {
    url: &'u str,
    /// The location to show to people.
    location: String,
    sandbox: Sandbox,
}

impl Place<'_> {
    fn open(&self) -> Result<Arc<dyn MemoryProvider>, Usage> {
        if self.is_reference() {
            return Ok(Arc::new(InMemory::new()));
        }
        self.sandbox.open(self.url).map_err(engine::refused)
    }

    /// The bytes that the data takes, if the engine reports them.
    async fn bytes(&self) -> memory_core::Result<Option<u64>> {
        if self.is_reference() { Ok(None) } else { Ok(self.sandbox.inspect(self.url).await?.bytes) }
    }

    async fn remove(&self) -> memory_core::Result<()> {
        if self.is_reference() { Ok(()) } else { self.sandbox.remove(self.url).await }
    }

    fn is_reference(&self) -> bool {
        self.url == REFERENCE
    }
}

/// Parses the numbers of guilds, channels and users.
fn spread(text: &str) -> Result<Spread, String> {
    let number = |part: &str| part.trim().parse().ok().filter(|number| (1..=1_000_000).contains(number));
    match text.split(',').map(number).collect::<Option<Vec<u64>>>().as_deref() {
        Some([guilds, channels, users]) => Ok(Spread { guilds: *guilds, channels: *channels, users: *users }),
        _ => Err("three whole numbers from 1 to 1,000,000 with commas between them".to_owned()),
    }
}
