//! `doctor`: what an operator would try, one after the other.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use memory_core::{
    Clock as _, Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Durability, HeldBack,
    MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Result, SpaceId, Status, SystemClock, Timestamp, Trigger,
};
use memory_runtime::Sandbox;

use super::exit_code;
use crate::engine;
use crate::output::{self, Output};
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Write nothing: without the probe that stores, finds and removes in a place of its own.
    #[arg(long)]
    read_only: bool,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Good,
    Doubtful,
    Bad,
}

/// What was tried so far.
struct Findings<'a> {
    output: &'a mut Output,
    has_failures: bool,
}

/// How far two clocks may be apart, in milliseconds.
const MAX_SKEW: i64 = 1_000;
/// How far the newest memory may lie in the future before the clocks of who writes are blamed, in milliseconds.
const MAX_AHEAD: i64 = 60_000;
/// How long the feed may wait for the same write. Most take milliseconds, and a busy server always has one under way.
const MAX_HELD_BACK: Duration = Duration::from_secs(10);

pub(crate) async fn run(url: &str, args: &DoctorArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let mut findings = Findings { output, has_failures: false };
    let start = Instant::now();
    // To open a provider would migrate, which is not for a doctor to do.
    let plan = match engine::plan(url).await {
        Ok(plan) => plan,
        Err(error) if error.is::<Usage>() => return Err(error),
        Err(error) => {
            findings.tell("connection", Finding::Bad, &output::describe(&error))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let place = format!("{} in {} ms", engine::parse(url)?.location(), start.elapsed().as_millis());
    findings.tell("connection", Finding::Good, &place)?;
    if !plan.applied.is_empty() {
        let steps: Vec<_> = plan.applied.iter().map(|(version, name)| format!("{version} {name}")).collect();
        let detail = format!("version {} is there, and lacks {}: run migrate", plan.before, steps.join(", "));
        findings.tell("schema", Finding::Bad, &detail)?;
        return Ok(ExitCode::FAILURE);
    }
    findings.tell("schema", Finding::Good, &format!("version {}", plan.now))?;
    findings.inspect(url).await?;
    let provider = engine::open(url).await?;
    let result = examine(&*provider, url, args, &mut findings).await;
    let closed = provider.shutdown().await;
    result?;
    closed?;
    Ok(exit_code(findings.has_failures))
}

async fn examine(
    provider: &dyn MemoryProvider,
    url: &str,
    args: &DoctorArgs,
    findings: &mut Findings<'_>,
) -> anyhow::Result<()> {
    match provider.check_health().await {
        Ok(health) => {
            let versions = format!("{} {}", health.engine, health.server_version);
            findings.tell("version", Finding::Good, &versions)?;
            let durable = match health.durability {
                Durability::Durable => Finding::Good,
                _ => Finding::Doubtful,
            };
            findings.tell("durability", durable, &health.durability.to_string())?;
        }
        Err(error) => findings.failed("health", &error)?,
    }
    match provider.is_read_only().await {
        Ok(false) => {}
        Ok(true) => {
            let detail =
                "the ledger is read-only, since it moves to another place: copy --unfence lets it take writes again";
            findings.tell("writes", Finding::Doubtful, detail)?;
        }
        Err(error) => findings.failed("writes", &error)?,
    }
    let newest = MemoryQuery::builder().all().limit(1).build()?;
    let start = Instant::now();
    match provider.query(&newest).await {
        Ok(page) => {
            findings.took("recall", start)?;
            findings.newest(page.memories.first().map(|memory| memory.created_at))?;
            if !page.unreadable.is_empty() {
                findings.tell("rows", Finding::Bad, "a row can't be read: restore it from a backup")?;
            }
        }
        Err(error) => findings.failed("recall", &error)?,
    }
    let open = [Status::Pending, Status::Running]
        .into_iter()
        .fold(MemoryQuery::builder().all(), |query, status| query.status(status));
    let start = Instant::now();
    match provider.query(&open.limit(1).build()?).await {
        Ok(_) => findings.took("open work", start)?,
        Err(error) => findings.failed("open work", &error)?,
    }
    if !args.read_only {
        let start = Instant::now();
        match probe(url).await {
            Ok(None) => findings.took("write and read", start)?,
            Ok(Some(wrong)) => findings.tell("write and read", Finding::Bad, wrong)?,
            Err(error) => findings.failed("write and read", &error)?,
        }
    }
    Ok(())
}

/// Writes and reads in a place beside what the URL names, and removes the place; tells what went wrong.
async fn probe(url: &str) -> Result<Option<&'static str>> {
    let place = engine::sandbox("doctor");
    let result = probe_in(&place, url).await;
    // Removed also when something went wrong, which then is what to tell.
    let removed = place.remove(url).await;
    let wrong = result?;
    removed?;
    Ok(wrong)
}

async fn probe_in(place: &Sandbox, url: &str) -> Result<Option<&'static str>> {
    let provider = place.open(url)?;
    provider.init().await?;
    let result = write_and_read(&*provider).await;
    provider.shutdown().await?;
    result
}

async fn write_and_read(provider: &dyn MemoryProvider) -> Result<Option<&'static str>> {
    let (space, now) = (SpaceId::parse("doctor-probe")?, SystemClock.now());
    let id = provider.store(NewMemory::new(space.clone(), Trigger::parse(r#"{"text":"probe"}"#)?, now)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    let recalled = provider.query(&MemoryQuery::builder().under("doctor").status(Status::Completed).build()?).await?;

    let documents = provider.documents();
    let (notes, name) = (Collection::parse("notes")?, DocumentId::parse("probe")?);
    let write = DocumentWrite::new(notes.clone(), space, Content::parse("a probe of the doctor")?, now);
    let written = documents.put(write.with_id(name.clone())).await?;
    let found = documents.query(&DocumentQuery::builder(notes.clone()).all().text("probe").build()?).await?;
    let removed = documents.remove(&DocumentSelection::ids(notes, [name.clone()])?, 1).await?;
    Ok(match () {
        () if recalled.memories.first().map(|memory| memory.id) != Some(id) => Some("what was stored is not recalled"),
        () if found.documents != [written] => Some("a document is not found by its words"),
        () if removed != [name] => Some("a document can't be removed"),
        () => None,
    })
}

impl Findings<'_> {
    fn tell(&mut self, what: &str, finding: Finding, detail: &str) -> anyhow::Result<()> {
        self.has_failures |= finding == Finding::Bad;
        let (word, sign) = match finding {
            Finding::Good => ("good", "ok  "),
            Finding::Doubtful => ("doubtful", "note"),
            Finding::Bad => ("bad", "BAD "),
        };
        let detail = output::printable(detail);
        let json = serde_json::json!({ "check": what, "finding": word, "detail": detail });
        Ok(self.output.value(&json, format!("{sign} {what}: {detail}"))?)
    }

    fn took(&mut self, what: &str, start: Instant) -> anyhow::Result<()> {
        self.tell(what, Finding::Good, &format!("{:.1} ms", start.elapsed().as_secs_f64() * 1_000.0))
    }

    fn failed(&mut self, what: &str, error: &memory_core::Error) -> anyhow::Result<()> {
        self.tell(what, Finding::Bad, error.message())
    }

    /// What is there of the schema, and what time it is there.
    async fn inspect(&mut self, url: &str) -> anyhow::Result<()> {
        let before = SystemClock.now().as_millis();
        let inspection = match engine::inspect(url).await {
            Ok(inspection) => inspection,
            Err(error) => return self.tell("indexes", Finding::Bad, &output::describe(&error)),
        };
        let after = SystemClock.now().as_millis();
        match inspection.missing.as_slice() {
            [] => self.tell("indexes", Finding::Good, "all tables and indexes of the schema are there")?,
            missing => {
                let detail =
                    format!("missing or not valid: {}; make them again, or restore a backup", missing.join(", "));
                self.tell("indexes", Finding::Bad, &detail)?;
            }
        }
        self.feed(inspection.held_back.as_ref())?;
        let Some(there) = inspection.server_time.map(Timestamp::as_millis) else {
            return self.tell("clock", Finding::Good, "that of this machine");
        };
        // The server answered at some time in between.
        let apart = (there - after).max(before - there).max(0);
        let finding = if apart > MAX_SKEW { Finding::Doubtful } else { Finding::Good };
        self.tell("clock", finding, &format!("{apart} ms apart from that of this machine"))
    }

    /// What those who watch wait for.
    fn feed(&mut self, held_back: Option<&HeldBack>) -> anyhow::Result<()> {
        match held_back {
            None => self.tell("feed", Finding::Good, "nothing holds it back"),
            Some(HeldBack { by, longest: None, .. }) => {
                self.tell("feed", Finding::Doubtful, &format!("changes wait for {by}"))
            }
            Some(HeldBack { by, longest: Some(longest), .. }) => {
                let finding = if *longest <= MAX_HELD_BACK { Finding::Good } else { Finding::Doubtful };
                self.tell("feed", finding, &format!("changes wait for up to {} s for {by}", longest.as_secs()))
            }
        }
    }

    /// Whoever wrote the newest memory has a clock, too.
    fn newest(&mut self, created_at: Option<Timestamp>) -> anyhow::Result<()> {
        let ahead = created_at.map_or(0, |time| time.as_millis() - SystemClock.now().as_millis());
        if ahead > MAX_AHEAD {
            let detail = format!("lies {} s in the future: compare the clocks of who writes", ahead / 1_000);
            return self.tell("newest memory", Finding::Doubtful, &detail);
        }
        self.tell("newest memory", Finding::Good, &created_at.map_or("there is none".to_owned(), output::date))
    }
}
