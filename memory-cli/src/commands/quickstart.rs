//! `quickstart`: loads a small sample and shows recall on it.

use std::process::ExitCode;

use clap::Parser;
use memory_core::MemoryProvider;

use super::{document, exit_code, import, query};
use crate::engine::{self, DEFAULT_URL};
use crate::output::Output;
use crate::progress::Progress;

/// A conversation of two guilds, as `import` reads it. Their names show why `under` is safer than `prefix`.
const SAMPLE: &str = include_str!("../quickstart.jsonl");

/// The commands to show and run, each with its purpose.
const TOUR: [(&str, &[&str]); 8] = [
    ("One space", &["query", "--space", "plugin-discord-guild1-general-ana-m1"]),
    ("A channel and all below it", &["query", "--under", "plugin-discord-guild1-music", "--order", "oldest"]),
    ("What guild1 has left to do", &["query", "--under", "plugin-discord-guild1", "--status", "pending"]),
    (
        "The same with a prefix tells what guild12 has left to do: keep tenants apart with --under",
        &["query", "--prefix", "plugin-discord-guild1", "--status", "pending"],
    ),
    ("A pattern: what Ben said anywhere", &["query", "--glob", "*-ben-*"]),
    ("A regular expression: the first message of each channel", &["query", "--regex", "-m1$", "--order", "oldest"]),
    (
        "A condition, in every space",
        &["query", "--all", "--where", "metadata.topic = 'birthday' AND text ILIKE '%march%'"],
    ),
    ("Documents by their words", &["document", "query", "--collection", "notes", "--all", "--text", "birthday pie"]),
];

/// A command of the tour.
#[derive(Debug, Parser)]
enum Stop {
    Query(query::QueryArgs),
    #[command(subcommand)]
    Document(document::DocumentCommand),
}

pub(crate) async fn run(provider: &dyn MemoryProvider, url: &str, output: &mut Output) -> anyhow::Result<ExitCode> {
    let summary = import::load(provider, import::Source::lines(SAMPLE.as_bytes()), &Progress::Quiet).await?;
    let address = engine::parse(url)?;
    let location = address.location();
    let code = exit_code(summary.conflicts > 0);
    if output.is_json() {
        output.json(&serde_json::json!({
            "location": location,
            "lines": summary.lines,
            "written": summary.written,
        }))?;
        return Ok(code);
    }
    let program = match url {
        DEFAULT_URL => "agent-memory".to_owned(),
        _ if address.is_file() => format!("agent-memory --url {}", quoted(url)),
        // The URL of a server is not shown, since it can hold a password.
        _ => "agent-memory --url URL".to_owned(),
    };
    output.line(format!("A sample of {} lines ({} new) is in {location}\n", summary.lines, summary.written))?;
    for (title, args) in TOUR {
        let words: Vec<_> = args.iter().copied().map(quoted).collect();
        output.line(format!("# {title}\n$ {program} {}", words.join(" ")))?;
        match Stop::try_parse_from(["agent-memory"].iter().chain(args))? {
            Stop::Query(args) => query::run(provider, &args, output).await?,
            Stop::Document(command) => document::run(provider, &command, output).await?,
        };
        output.line("")?;
    }
    output.line(format!(
        "Try next:\n\
         \x20 {program} store --space plugin-discord-guild1-general-ana-m11 --trigger '{{\"text\":\"Hello again\"}}'\n\
         \x20 {program} query --under plugin-discord-guild1 --limit 3\n\
         \x20 {program} query --all --status pending --json\n\
         \x20 {program} document put --collection notes --space plugin-discord-guild1 --content 'Cem cooks on Sunday'\n\
         \x20 {program} export -o backup.jsonl\n\
         \x20 {program} --help"
    ))?;
    Ok(code)
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:".contains(character);
    match word {
        word if word.chars().all(is_plain) => word.to_owned(),
        word if word.contains('\'') => format!("\"{word}\""),
        word => format!("'{word}'"),
    }
}
