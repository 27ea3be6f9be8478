//! The checks of the doctor, in the order in which an operator would make them.

use std::time::{Duration, Instant};

use memory_core::{
    Clock as _, Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Durability, Error,
    HeldBack, Inspection, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Result, SpaceId, Status, SystemClock,
    Timestamp, Trigger,
};
use memory_runtime::Sandbox;

use crate::engine;
use crate::output;
use crate::usage::Usage;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name of the check.
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) detail: String,
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Doubtful,
    Bad,
}

/// The results of the checks of a database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) findings: Vec<Finding>,
    /// Whether a memory can be opened in the database as it is.
    pub(crate) is_usable: bool,
}

/// The largest difference of two clocks, in milliseconds.
const MAX_SKEW: i64 = 1_000;
/// How far in the future the newest memory may lie, in milliseconds, before the clocks of the writers are suspected.
const MAX_AHEAD: i64 = 60_000;
/// How long the feed may wait for the same write. Most writes take milliseconds, and a busy server always has one in progress.
const MAX_HELD_BACK: Duration = Duration::from_secs(10);

/// Checks the database that a URL names, without opening the memory in it, which would migrate the schema.
pub(crate) async fn of_database(url: &str) -> anyhow::Result<Database> {
    let start = Instant::now();
    let plan = match engine::plan(url).await {
        Ok(plan) => plan,
        Err(error) if error.is::<Usage>() => return Err(error),
        Err(error) => {
            let findings = vec![Finding::bad("connection", &output::describe(&error))];
            return Ok(Database { findings, is_usable: false });
        }
    };
    let place = format!("{} in {} ms", engine::parse(url)?.location(), start.elapsed().as_millis());
    let mut findings = vec![Finding::good("connection", &place)];
    if !plan.applied.is_empty() {
        let steps: Vec<_> = plan.applied.iter().map(|(version, name)| format!("{version} {name}")).collect();
        let detail = format!("version {} lacks {}: run agent-memory migrate", plan.before, steps.join(", "));
        findings.push(Finding::bad("schema", &detail));
        return Ok(Database { findings, is_usable: false });
    }
    findings.push(Finding::good("schema", &format!("version {}", plan.now)));
    findings.extend(of_schema(url).await);
    Ok(Database { findings, is_usable: true })
}

/// Checks an open memory by calls that are fast.
pub(crate) async fn of_memory(provider: &dyn MemoryProvider) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    match provider.check_health().await {
        Ok(health) => {
            findings.push(Finding::good("version", &format!("{} {}", health.engine, health.server_version)));
            let durable = match health.durability {
                Durability::Durable => Verdict::Good,
                _ => Verdict::Doubtful,
            };
            findings.push(Finding::new("durability", durable, &health.durability.to_string()));
        }
        Err(error) => findings.push(Finding::failed("health", &error)),
    }
    match provider.is_read_only().await {
        Ok(false) => {}
        Ok(true) => {
            let detail =
                "the ledger is read-only, since it moves to another database: copy --unfence lets it take writes again";
            findings.push(Finding::new("writes", Verdict::Doubtful, detail));
        }
        Err(error) => findings.push(Finding::failed("writes", &error)),
    }
    let newest = MemoryQuery::builder().all().limit(1).build()?;
    let start = Instant::now();
    match provider.query(&newest).await {
        Ok(page) => {
            findings.push(Finding::took("recall", start));
            findings.push(of_newest(page.memories.first().map(|memory| memory.created_at)));
            if !page.unreadable.is_empty() {
                findings.push(Finding::bad("rows", "a row can't be read: restore it from a backup"));
            }
        }
        Err(error) => findings.push(Finding::failed("recall", &error)),
    }
    let open = [Status::Pending, Status::Running]
        .into_iter()
        .fold(MemoryQuery::builder().all(), |query, status| query.status(status));
    let start = Instant::now();
    findings.push(match provider.query(&open.limit(1).build()?).await {
        Ok(_) => Finding::took("open work", start),
        Err(error) => Finding::failed("open work", &error),
    });
    Ok(findings)
}

/// Writes and reads in a sandbox beside the database that a URL names, and removes the sandbox.
pub(crate) async fn of_probe(url: &str) -> Finding {
    let start = Instant::now();
    match probe(url).await {
        Ok(None) => Finding::took("write and read", start),
        Ok(Some(wrong)) => Finding::bad("write and read", wrong),
        Err(error) => Finding::failed("write and read", &error),
    }
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, detail: &str) -> Self {
        Self { check, verdict, detail: output::printable(detail) }
    }

    fn good(check: &'static str, detail: &str) -> Self {
        Self::new(check, Verdict::Good, detail)
    }

    fn bad(check: &'static str, detail: &str) -> Self {
        Self::new(check, Verdict::Bad, detail)
    }

    fn took(check: &'static str, start: Instant) -> Self {
        Self::good(check, &format!("{:.1} ms", start.elapsed().as_secs_f64() * 1_000.0))
    }

    fn failed(check: &'static str, error: &Error) -> Self {
        Self::bad(check, error.message())
    }
}

impl Verdict {
    /// The name, as in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Doubtful => "doubtful",
            Self::Bad => "bad",
        }
    }
}

/// Checks the schema and the clock of the server.
async fn of_schema(url: &str) -> Vec<Finding> {
    let before = SystemClock.now().as_millis();
    let Inspection { missing, held_back, server_time, .. } = match engine::inspect(url).await {
        Ok(inspection) => inspection,
        Err(error) => return vec![Finding::bad("indexes", &output::describe(&error))],
    };
    let after = SystemClock.now().as_millis();
    let indexes = match missing.as_slice() {
        [] => Finding::good("indexes", "all tables and indexes of the schema are there"),
        missing => {
            let detail =
                format!("missing or not valid: {}; create them again, or restore a backup", missing.join(", "));
            Finding::bad("indexes", &detail)
        }
    };
    let clock = match server_time.map(Timestamp::as_millis) {
        None => Finding::good("clock", "that of this machine"),
        Some(there) => {
            // The server read its clock at some time between `before` and `after`.
            let apart = (there - after).max(before - there).max(0);
            let verdict = if apart > MAX_SKEW { Verdict::Doubtful } else { Verdict::Good };
            Finding::new("clock", verdict, &format!("{apart} ms apart from that of this machine"))
        }
    };
    vec![indexes, of_feed(held_back.as_ref()), clock]
}

/// Checks whether a transaction holds back the feed.
fn of_feed(held_back: Option<&HeldBack>) -> Finding {
    match held_back {
        None => Finding::good("feed", "nothing holds it back"),
        Some(HeldBack { by, longest: None, .. }) => {
            Finding::new("feed", Verdict::Doubtful, &format!("changes wait for {by}"))
        }
        Some(HeldBack { by, longest: Some(longest), .. }) => {
            let verdict = if *longest <= MAX_HELD_BACK { Verdict::Good } else { Verdict::Doubtful };
            Finding::new("feed", verdict, &format!("changes wait for up to {} s for {by}", longest.as_secs()))
        }
    }
}

/// Checks the time of the newest memory, by which the clock of its writer shows.
fn of_newest(created_at: Option<Timestamp>) -> Finding {
    let ahead = created_at.map_or(0, |time| time.as_millis() - SystemClock.now().as_millis());
    if ahead > MAX_AHEAD {
        let detail = format!("lies {} s in the future: compare the clocks of the writers", ahead / 1_000);
        return Finding::new("newest memory", Verdict::Doubtful, &detail);
    }
    Finding::good("newest memory", &created_at.map_or("there is none".to_owned(), output::date))
}

/// Probes a sandbox. Returns what went wrong, if anything.
async fn probe(url: &str) -> Result<Option<&'static str>> {
    let place = engine::sandbox("doctor");
    let result = probe_in(&place, url).await;
    // The sandbox is removed even after a failure, whose result is returned.
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
