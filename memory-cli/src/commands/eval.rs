//! `eval`: measures recall on known questions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use memory_core::{BOUNDARIES, Embedder, Json, MemoryProvider, MemoryQuery, Metadata, Recall, VectorKeeper, Version};
use memory_runtime::Sandbox;
use serde::{Deserialize, Serialize};

use super::import::{self, Source};
use super::longmemeval;
use crate::args::{self, EmbedderArgs, RankingArgs};
use crate::line::{self, Record};
use crate::line_reader::{Line, LineReader};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::{engine, input};

/// The numbers of best hits for which recall is reported.
const AT: [usize; 4] = [5, 10, 25, 50];

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The folder of the question sets: NAME.jsonl with memories, as import reads them, and NAME.qa.jsonl with questions.
    folder: PathBuf,
    /// The metadata key whose text identifies memories in the evidence.
    #[arg(long, value_name = "KEY", default_value = "diaId")]
    id: String,
    /// A file of LongMemEval; its questions are first written into the folder, each as a set.
    #[arg(long, value_name = "FILE")]
    longmemeval: Option<PathBuf>,
    #[command(flatten)]
    ranking: RankingArgs,
}

/// A line of a set of questions.
#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    /// The memories that answer the question.
    evidence: Vec<String>,
    #[serde(default)]
    category: serde_json::Value,
}

/// The results for questions of one category.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    questions: usize,
    /// The sums of the shares of the evidence that were found.
    found: [f64; AT.len()],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    category: String,
    questions: usize,
    /// The mean recall by the number of best hits.
    recall: BTreeMap<usize, f64>,
}

pub(crate) async fn run(
    url: &str,
    args: &EvalArgs,
    embedder: &EmbedderArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.longmemeval {
        longmemeval::convert(file, &args.folder)?;
    }
    let sets = sets(&args.folder)?;
    let embedder = embedder.open().await?;
    let place = engine::sandbox("eval");
    let result = async {
        let provider = place.open(url).map_err(engine::refused)?;
        provider.init().await?;
        let measured = measure(&provider, &sets, args, embedder.as_ref()).await;
        provider.shutdown().await?;
        measured
    };
    let measured = result.await;
    // A failed measurement says more than a failed removal.
    let removed = Sandbox::remove(&place, url).await;
    let (tallies, mut times) = measured?;
    removed?;
    times.sort();
    let rows: Vec<_> = tallies.into_iter().map(|(category, tally)| tally.row(category)).collect();
    let [half, most] = [50, 95].map(|share| times.get((times.len() * share / 100).min(times.len().saturating_sub(1))));
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1_000.0);
    if output.is_json() {
        output.json(&serde_json::json!({ "rows": rows, "p50Ms": millis(half), "p95Ms": millis(most) }))?;
    } else {
        let mut table = output::table(&["category", "questions", "@5", "@10", "@25", "@50"]);
        for row in rows {
            let parts = row.recall.values().map(|part| format!("{part:.3}"));
            table.add_row([output::printable(&row.category), row.questions.to_string()].into_iter().chain(parts));
        }
        output.line(table)?;
        output.line(format!("p50 {:.2} ms, p95 {:.2} ms", millis(half), millis(most)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of memories, each with its file of questions.
fn sets(folder: &Path) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let mut sets = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("the folder {} can't be read", folder.display()))? {
        let questions = entry?.path();
        let name = questions.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".qa.jsonl"));
        if let Some(name) = name {
            sets.push((folder.join(format!("{name}.jsonl")), questions));
        }
    }
    if sets.is_empty() {
        bail!("{} has no file NAME.qa.jsonl", folder.display());
    }
    sets.sort();
    Ok(sets)
}

async fn measure(
    provider: &Arc<dyn MemoryProvider>,
    sets: &[(PathBuf, PathBuf)],
    args: &EvalArgs,
    embedder: Option<&Arc<dyn Embedder>>,
) -> anyhow::Result<(BTreeMap<String, Tally>, Vec<Duration>)> {
    let mut asked = Vec::new();
    for (memories, questions) in sets {
        let (scope, ids) = load(provider.as_ref(), memories, &args.id).await?;
        asked.push((scope, ids, read(questions)?));
    }
    if let Some(embedder) = embedder {
        let kept = VectorKeeper::new(Arc::clone(provider), Arc::clone(embedder)).catch_up().await?;
        let (embedded, refused) = (kept.embedded, kept.refused);
        output::note(&format!("embedded {embedded} records, and the model refused {refused}"));
    }
    let options = args.ranking.options();
    let (mut tallies, mut times) = (BTreeMap::<String, Tally>::new(), Vec::new());
    for (scope, ids, questions) in asked {
        for question in questions {
            let evidence: Vec<_> = question.evidence.iter().filter(|id| ids.contains(*id)).collect();
            // Evidence that is not among the memories can't be found.
            if evidence.is_empty() {
                continue;
            }
            let query = args::build(MemoryQuery::builder().under(&scope).limit(AT[AT.len() - 1]))?;
            let recall = Recall::with(&question.question, query, options.clone())?;
            let recall = embedder.into_iter().cloned().fold(recall, Recall::by_meaning);
            let begun = Instant::now();
            let hits = provider.recall(&recall).await?.hits;
            times.push(begun.elapsed());
            let found: Vec<_> = hits.iter().map(|hit| text_of(&hit.record.metadata, &args.id)).collect();
            let part = |most: usize| {
                let is_found = |id: &&&String| found.iter().take(most).flatten().any(|found| found == **id);
                evidence.iter().filter(is_found).count() as f64 / evidence.len() as f64
            };
            let category = match question.category {
                serde_json::Value::String(name) => name,
                other => other.to_string(),
            };
            for category in ["all".to_owned(), category] {
                let tally = tallies.entry(category).or_default();
                tally.questions += 1;
                AT.iter().zip(&mut tally.found).for_each(|(most, sum)| *sum += part(*most));
            }
        }
    }
    Ok((tallies, times))
}

/// Imports memories. Returns the deepest space that holds all of them, and their names.
async fn load(provider: &dyn MemoryProvider, path: &Path, id: &str) -> anyhow::Result<(String, BTreeSet<String>)> {
    let progress = Progress::new(None, false);
    let imported = import::load(provider, Source::lines(open(path)?), &progress).await;
    progress.finish();
    imported?;
    let (mut scope, mut ids) = (None::<String>, BTreeSet::new());
    let mut lines = LineReader::new(open(path)?);
    // The import has read each of them.
    while let Some((_, Line::Text(line))) = lines.next()? {
        let (space, metadata) = match line::parse(line).map_err(anyhow::Error::msg)?.record {
            Record::New(memory) => (memory.space_id, memory.metadata),
            Record::Memory(memory) => (memory.space_id, memory.metadata),
            Record::Version(Version { record: Some(memory_core::Record::Memory(memory)), .. }) => {
                (memory.space_id, memory.metadata)
            }
            Record::Document(_) | Record::Version(_) | Record::Tombstone(..) | Record::VectorModel(_) => continue,
        };
        ids.extend(text_of(&metadata, id));
        scope = Some(scope.map_or_else(|| space.to_string(), |scope| shared(&scope, space.as_str()).to_owned()));
    }
    match scope.filter(|scope| !scope.is_empty()) {
        Some(scope) => Ok((scope, ids)),
        None => bail!("the memories of {} have no common space above them", path.display()),
    }
}

/// The deepest space that holds both; empty if there is none.
fn shared<'s>(left: &'s str, right: &str) -> &'s str {
    let above = left.rmatch_indices(BOUNDARIES).map(|(at, _)| &left[..at]);
    let holds =
        |path: &&str| right.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(BOUNDARIES));
    std::iter::once(left).chain(above).find(holds).unwrap_or_default()
}

fn text_of(metadata: &Metadata, key: &str) -> Option<String> {
    match metadata.to_object().remove(key) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Question>> {
    let (mut lines, mut questions) = (LineReader::new(open(path)?), Vec::new());
    while let Some((number, line)) = lines.next()? {
        let question = match line {
            Line::Text(line) => serde_json::from_slice(line).ok(),
            Line::TooLong => None,
        };
        let wanted = "a question is an object with question (a text) and evidence (a list of texts)";
        questions.push(question.with_context(|| format!("{}, line {number}: {wanted}", path.display()))?);
    }
    Ok(questions)
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    input::open(path).map(BufReader::new)
}

impl Tally {
    fn row(self, category: String) -> Row {
        let part = |(most, sum): (&usize, &f64)| (*most, sum / self.questions as f64);
        Row { category, questions: self.questions, recall: AT.iter().zip(&self.found).map(part).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_spaces_share_ends_at_a_boundary() {
        for (left, right, both) in [
            ("a-b-c", "a-b-d", "a-b"),
            ("a-b1", "a-b12", "a"),
            ("a-b", "a-b-c", "a-b"),
            ("a-b", "a-b", "a-b"),
            ("é-x", "è-x", ""),
        ] {
            assert_eq!(shared(left, right), both);
            assert_eq!(shared(right, left), both);
        }
    }
}
