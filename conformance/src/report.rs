//! The suite as a report: how each case ended on each engine.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, StreamExt};
use memory_core::{Error, ErrorKind, Health, Result};
use serde::Serialize;

use crate::case::{Case, Settings, Stage};
use crate::harness::Harness;
use crate::runner::{Outcome, run_case};

/// How many of the slowest cases a report lists.
const SLOWEST: usize = 5;

/// Which cases to run, and with which settings.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The settings of every case.
    pub settings: Settings,
    /// Cases to run, each named by its id, its chapter or one of its rules. Empty means all cases.
    pub only: Vec<String>,
    /// Cases to leave out, named in the same way, each with the reason.
    pub skip: Vec<(String, String)>,
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of the suite.
    pub suite: &'static str,
    /// The seed of everything random in the cases.
    pub seed: u64,
    /// How many random sequences of calls the chapter `model` played.
    pub sequences: u32,
    /// Maximum number of calls of a sequence, if the settings have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// Whether the run was interrupted before every case had begun; the cases that had not begun are skipped.
    pub interrupted: bool,
    /// Whether the engines keep the contract, as far as this run can say.
    pub verdict: Verdict,
    /// The engines, in the order in which they were given.
    pub engines: Vec<Engine>,
    /// Every selected case, in the order of the suite.
    pub cases: Vec<CaseReport>,
    /// The slowest cases, the slowest first.
    pub slowest: Vec<SlowCase>,
}

/// An engine of a report.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Engine {
    /// The name of the harness.
    pub name: String,
    /// Name, version, schema version and durability, as the health check answers them; `None` if the engine could not be asked.
    pub version: Option<String>,
}

/// How a case ended on each engine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Chapter and situation, separated by a dot.
    pub id: &'static str,
    /// The numbers of the rules that the case checks.
    pub rules: &'static [&'static str],
    /// One result for each engine, in the order of [`Report::engines`].
    pub results: Vec<CaseOutcome>,
}

/// How a case ended on one engine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseOutcome {
    /// The outcome, with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The duration of the case, in seconds.
    pub seconds: f64,
}

/// The duration of a case on one engine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowCase {
    /// The name of the harness.
    pub engine: String,
    /// Chapter and situation, separated by a dot.
    pub id: &'static str,
    /// The duration of the case, in seconds.
    pub seconds: f64,
}

/// What a report as a whole says of its engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Every case that ran has passed, and on each engine at least one case ran.
    Green,
    /// At least one case failed, returned an error or timed out.
    Red,
    /// The report proves nothing: no case ran on some engine, or the run was interrupted before any case failed.
    Invalid,
}

/// How many cases of a chapter ended in each way on one engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases that passed.
    pub passed: usize,
    /// Cases in which the engine gave a wrong answer.
    pub failed: usize,
    /// Cases in which a call failed that must succeed.
    pub errors: usize,
    /// Cases that did not end within their time limit.
    pub timeouts: usize,
    /// Cases that the engine or its harness can't run.
    pub unsupported: usize,
    /// Cases that were excluded, or had not begun when the run was interrupted.
    pub skipped: usize,
}

impl Report {
    /// Runs the cases of a plan on these engines, and calls `tell` with each result as it comes. Once `end` completes, no further case
    /// begins; the cases that are running end normally, and their namespaces are removed.
    ///
    /// Must be called on a multi-threaded tokio runtime with timers and I/O enabled.
    pub async fn make(
        harnesses: &[Arc<dyn Harness>],
        plan: &Plan,
        end: impl Future<Output = ()>,
        tell: impl Fn(&str, &str, &CaseOutcome),
    ) -> Self {
        let start = Instant::now();
        let cases: Vec<_> = crate::cases::all().into_iter().filter(|case| plan.chooses(case)).collect();
        let mut engines = Vec::new();
        for harness in harnesses {
            let version = version(harness, plan.settings).await.ok();
            engines.push(Engine { name: harness.name().to_owned(), version });
        }
        let jobs = cases.iter().flat_map(|case| harnesses.iter().map(move |harness| (*case, Arc::clone(harness))));
        let at_once = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let tell = &tell;
        let results = jobs.enumerate().map(|(place, (case, harness))| async move {
            let start = Instant::now();
            let name = harness.name().to_owned();
            let outcome = match plan.reason_to_skip(&case) {
                Some(reason) => Outcome::Skipped(reason.to_owned()),
                None => run_case(harness, case, plan.settings).await,
            };
            let outcome = CaseOutcome { outcome, seconds: start.elapsed().as_secs_f64() };
            tell(&name, case.id, &outcome);
            (place, outcome)
        });
        let results = stream::iter(results).take_until(end).buffer_unordered(at_once);
        let mut results: HashMap<_, _> = results.collect().await;
        let count = cases.len() * harnesses.len();
        let interrupted = results.len() < count;
        let mut results = (0..count).map(|place| results.remove(&place).unwrap_or_else(CaseOutcome::not_begun));
        let cases: Vec<_> = cases
            .iter()
            .map(|case| CaseReport {
                id: case.id,
                rules: case.rules,
                results: results.by_ref().take(harnesses.len()).collect(),
            })
            .collect();
        Self {
            suite: env!("CARGO_PKG_VERSION"),
            seed: plan.settings.seed,
            sequences: plan.settings.sequences,
            calls: plan.settings.calls,
            seconds: start.elapsed().as_secs_f64(),
            interrupted,
            verdict: verdict(&cases, harnesses.len(), interrupted),
            slowest: slowest(&cases, &engines),
            engines,
            cases,
        }
    }

    /// The cases whose outcomes differ between engines.
    pub fn differences(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| case.is_difference())
    }

    /// The counts of each chapter, one entry for each engine in the order of [`Report::engines`].
    pub fn chapters(&self) -> BTreeMap<&'static str, Vec<Counts>> {
        let mut chapters = BTreeMap::<_, Vec<Counts>>::new();
        for case in &self.cases {
            let counts = chapters.entry(case.chapter()).or_insert_with(|| vec![Counts::default(); self.engines.len()]);
            counts.iter_mut().zip(&case.results).for_each(|(counts, result)| counts.add(&result.outcome));
        }
        chapters
    }
}

impl CaseReport {
    /// The chapter: the part of the id before the dot.
    pub fn chapter(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }

    /// Whether its outcomes differ between the engines on which it ran.
    pub fn is_difference(&self) -> bool {
        let mut ran = self.results.iter().map(|result| &result.outcome).filter(|outcome| outcome.ran());
        let first = ran.next().map(Outcome::name);
        ran.any(|outcome| Some(outcome.name()) != first)
    }
}

impl CaseOutcome {
    fn not_begun() -> Self {
        Self { outcome: Outcome::Skipped("the run was interrupted".to_owned()), seconds: 0.0 }
    }
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Pass => &mut self.passed,
            Outcome::Fail(_) => &mut self.failed,
            Outcome::Error(_) => &mut self.errors,
            Outcome::Timeout(_) => &mut self.timeouts,
            Outcome::Unsupported(_) => &mut self.unsupported,
            Outcome::Skipped(_) => &mut self.skipped,
        } += 1;
    }
}

impl Plan {
    fn chooses(&self, case: &Case) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| is_named(case, name))
    }

    fn reason_to_skip(&self, case: &Case) -> Option<&str> {
        self.skip.iter().find(|(name, _)| is_named(case, name)).map(|(_, reason)| reason.as_str())
    }

    /// How many cases the plan has, those to skip included.
    pub fn count(&self) -> usize {
        crate::cases::all().iter().filter(|case| self.chooses(case)).count()
    }

    /// A name, among those to run and to skip, that matches no case.
    pub fn unknown_name(&self) -> Option<&str> {
        let cases = crate::cases::all();
        let mut names = self.only.iter().chain(self.skip.iter().map(|(name, _)| name));
        names.find(|name| !cases.iter().any(|case| is_named(case, name))).map(String::as_str)
    }
}

fn is_named(case: &Case, name: &str) -> bool {
    case.id == name
        || case.id.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        || case.rules.contains(&name)
}

fn verdict(cases: &[CaseReport], engines: usize, interrupted: bool) -> Verdict {
    let ran = |engine: usize| cases.iter().any(|case| case.results[engine].outcome.ran());
    if engines == 0 || !(0..engines).all(ran) {
        Verdict::Invalid
    } else if cases.iter().flat_map(|case| &case.results).any(|result| result.outcome.is_failure()) {
        Verdict::Red
    } else if interrupted {
        Verdict::Invalid
    } else {
        Verdict::Green
    }
}

fn slowest(cases: &[CaseReport], engines: &[Engine]) -> Vec<SlowCase> {
    let all = cases.iter().flat_map(|case| {
        let results = engines.iter().zip(&case.results);
        results.map(|(engine, result)| SlowCase { engine: engine.name.clone(), id: case.id, seconds: result.seconds })
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all.truncate(SLOWEST);
    all
}

/// The description of an engine from its health check, in a namespace that is removed afterwards.
async fn version(harness: &Arc<dyn Harness>, settings: Settings) -> Result<String> {
    if let Some(missing) = harness.missing() {
        return Err(Error::new(ErrorKind::Unavailable, missing.reason()));
    }
    let stage = Stage::new(Arc::clone(harness), settings);
    let health = async { stage.open().await?.check_health().await }.await;
    stage.remove().await?;
    let Health { engine, server_version, schema_version, durability, .. } = health?;
    Ok(format!("{engine} {server_version}, schema {schema_version}, {durability}"))
}
