//! `recall`: answers a question in words.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use memory_core::{
    Collection, DocumentQuery, Embedder, Explained, Hit, Kind, MemoryProvider, QueryBuilder, Recall, RecallOptions,
    Recalled,
};

use crate::args::{self, EmbedderArgs, LedgerArgs, RankingArgs, SpaceArgs, values, with_filter};
use crate::output::{self, Output};
use crate::serve::rest::hits::{HitBody, RecordBody};
use crate::usage::Usage;

#[derive(Debug, Args)]
#[command(group(SpaceArgs::required()))]
pub(crate) struct RecallArgs {
    /// The question in your own words, in quotes.
    #[arg(allow_hyphen_values = true)]
    question: String,
    /// Ask the documents of this collection instead of the ledger.
    #[arg(long, value_parser = values::collection)]
    collection: Option<Collection>,
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    #[command(flatten)]
    ranking: RankingArgs,
    /// Search by words alone, even if --embedder names a model.
    #[arg(long)]
    no_meaning: bool,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// The options for the answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Answer")]
struct AnswerArgs {
    /// The most hits, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::limit)]
    limit: usize,
    /// Also show this many records on each side of a hit in its container, up to 10.
    #[arg(long, value_name = "N", default_value_t = 0)]
    neighbours: usize,
    /// Also show the terms that matched, how rare they are, and the divisor of the scores.
    #[arg(long)]
    explain: bool,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &RecallArgs,
    embedder: &EmbedderArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let embedder = if args.no_meaning { None } else { embedder.open().await? };
    match &args.collection {
        None => {
            let recall = recall(args, args.conditions.query(&args.spaces), embedder)?;
            show(provider.recall(&recall).await?, output, |memory| {
                let text = output::preview(memory.trigger.as_str());
                [memory.id.to_string(), output::date(memory.created_at), memory.space_id.to_string(), text]
            })
        }
        Some(collection) => {
            if !args.conditions.is_only_filter() {
                let message = "--after, --before, --status and --exclude are conditions on memories, and --collection asks for documents";
                return Err(Usage(message.to_owned()).into());
            }
            let query = args.spaces.apply(DocumentQuery::builder(collection.clone()));
            let recall = recall(args, with_filter(query, args.conditions.filter()), embedder)?;
            show(provider.documents().recall(&recall).await?, output, |document| {
                let (id, text) = (output::printable(document.id.as_str()), output::preview(document.content.as_str()));
                [id, output::date(document.created_at), document.space_id.to_string(), text]
            })
        }
    }
}

fn recall<K: Kind>(
    args: &RecallArgs,
    query: QueryBuilder<K>,
    embedder: Option<Arc<dyn Embedder>>,
) -> Result<Recall<K>, Usage> {
    let AnswerArgs { limit, neighbours, explain } = args.answer;
    let options = RecallOptions { neighbours, explain, ..args.ranking.options() };
    let recall = Recall::with(&args.question, args::build(query.limit(limit))?, options)?;
    Ok(embedder.into_iter().fold(recall, Recall::by_meaning))
}

fn show<T: Into<RecordBody>>(
    recalled: Recalled<T>,
    output: &mut Output,
    columns: fn(&T) -> [String; 4],
) -> anyhow::Result<ExitCode> {
    let Recalled { hits, examined, complete, unembedded, explained } = recalled;
    if output.is_json() {
        hits.into_iter().try_for_each(|hit| output.json(&HitBody::from(hit)))?;
    } else {
        let has_terms = hits.iter().any(|hit| hit.terms.is_some());
        // Beside the terms, the part of the meaning in the score.
        let has_meaning = has_terms && unembedded.is_some();
        let mut header = vec!["score", "id", "created", "space", "text"];
        header.extend(has_terms.then_some("terms"));
        header.extend(has_meaning.then_some("meaning"));
        let mut table = output::table(&header);
        for Hit { score, parts, record, before, after, terms } in &hits {
            let row = |score: String, record: &T, terms: String, meaning: String| {
                let mut row = [vec![score], columns(record).to_vec()].concat();
                row.extend(has_terms.then_some(terms));
                row.extend(has_meaning.then_some(meaning));
                row
            };
            let terms = terms.iter().flatten().map(|term| format!("{} {:.2}", term.term, term.idf));
            let terms = output::printable(&terms.collect::<Vec<_>>().join(", "));
            let beside = |records: &[T]| -> Vec<_> {
                records.iter().map(|record| row(String::new(), record, String::new(), String::new())).collect()
            };
            table.add_rows(beside(before));
            table.add_row(row(format!("{score:.3}"), record, terms, format!("{:.3}", parts.meaning)));
            table.add_rows(beside(after));
        }
        output.table_or(&table, "nothing found")?;
    }
    output.flush()?;
    if let Some(explained) = explained {
        let Explained { records, average_length, words, neighbours, together, container, total, .. } = explained;
        let Explained { least_cosine, greatest_cosine, together_with_meaning, .. } = explained;
        output::note(&format!(
            "{records} records of {average_length:.1} terms on average; scores were divided by {words:.3} (words), {neighbours:.3} \
             (neighbours), {together:.3} (both), {container:.3} (container) and {total:.3} (all)"
        ));
        if unembedded.is_some() {
            output::note(&format!(
                "cosines go from {least_cosine:.3} to {greatest_cosine:.3}; words and meaning together were divided by {together_with_meaning:.3}"
            ));
        }
    }
    if let Some(unembedded) = unembedded.filter(|count| *count > 0) {
        output::note(&format!("{unembedded} of {examined} records have no vector yet"));
    }
    if !complete {
        output::note(&format!(
            "not complete: the best of the newest {examined} records, as far as they fit; name a smaller scope, or ask for less"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
