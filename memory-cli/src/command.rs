//! The commands and their help.

use clap::Subcommand;

#[cfg(feature = "bench")]
use crate::commands::bench;
#[cfg(feature = "suite")]
use crate::commands::conformance;
use crate::commands::{
    chat, compose, copy, doctor, document, embed, erase, eval, export, history, import, migrate, probe, prompt, query,
    recall, retention, run, serve, spaces, store, watch,
};

/// A command of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    OnMemory(Box<MemoryCommand>),
    /// Run the steps of a pipeline for one task, and show the outcome.
    ///
    /// The task is persisted before the first step, and after each step. Steps call the executors of the memory plugin
    /// (memory:query, memory:add_document, memory:remove_document) within the container of the task, which is the parent of
    /// its space unless the task names another. An argument {"$task":"/trigger/text"} is replaced by that part of the task:
    /// /trigger, /results/0, /metadata or /space. The exit code is 1 if a step failed.
    Run(run::RunArgs),
    /// Check the database as an operator would, step by step, and say what is wrong.
    ///
    /// The checks are the connection, the schema, the indexes, the clock, versions, durability, recall, and a probe that writes and reads
    /// in a temporary database, which is removed. The exit code is 1 if a check finds something bad.
    Doctor(doctor::DoctorArgs),
    /// Measure how well recall finds the evidence for known questions, in a temporary database that is removed afterwards.
    ///
    /// For each set of questions, the memories of NAME.jsonl are stored. Then each line of NAME.qa.jsonl is asked within the deepest
    /// space that holds all of them: {"question": "When did Mel paint?", "evidence": ["D1:12"], "category": 2}. Evidence names memories
    /// by a key of their metadata. The result is the mean share of the evidence among the best 5, 10, 25 and 50 hits, by category, and
    /// the time of a question. With --embedder, the memories are embedded first, and recall also searches by meaning.
    Eval(eval::EvalArgs),
    /// Bring the schema up to date. Most other commands do this on their own.
    Migrate(migrate::MigrateArgs),
    /// Ask a running server whether it is ready, for the health check of a container.
    ///
    /// The exit code is 0 if it is ready, and 1 if it is not, or does not answer within ten seconds.
    Probe(probe::ProbeArgs),
    /// Run the conformance suite on an engine, in a temporary database that is removed afterwards.
    ///
    /// With several --url, the table has one column per engine, and the cases on which they differ come first; memory: is
    /// the reference. The databases that the URLs name stay untouched. The exit code is 0 if every case that ran has passed,
    /// and 1 if one failed, none ran, or a signal ended the run, after which no further case begins.
    #[cfg(feature = "suite")]
    Conformance(conformance::ConformanceArgs),
    /// Measure an engine at a size of your choice, in a temporary database that is removed afterwards.
    ///
    /// Loads a ledger, recalls from it, walks through it, and writes to it. Prints operations per second and latencies, as a table in
    /// Markdown or as JSON. memory: is the reference. The database that the URL names stays untouched. Mind the space on the
    /// disk: ten million memories of 600 bytes take about 10 GB.
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
}

/// A command that runs on an open provider, which is closed after it.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Append a memory to the ledger and print its id.
    Store(store::StoreArgs),
    /// Change the context, the metadata, the status or the expiry of a memory.
    Update(store::UpdateArgs),
    /// Show one memory, as it is now or as it was at a time.
    Get(store::GetArgs),
    /// Show the versions of a memory, newest first: when each was committed, by whom, and its content.
    ///
    /// If there are more, the option for the next page is printed on standard error: "next: --cursor ...". With --json, each version
    /// is one line {"revision":...,"committedAt":...,"actor":...,"memory":...}.
    History(history::HistoryArgs),
    /// Find memories in the spaces that you name.
    ///
    /// If there are more, the option for the next page is printed on standard error: "next: --cursor ...". With --json,
    /// each memory is one line on standard output, in the format that import reads.
    Query(query::QueryArgs),
    /// Ask a question in words; the best answers come first.
    ///
    /// Words are compared by their stems, and rare words count more. The words of the neighbours in the same container count, too, so
    /// that a turn of a conversation is found by the turns beside it. With --embedder, recall also searches by meaning. With --json, each
    /// hit is one line: its score, the parts of the score, and the memory or the document.
    Recall(recall::RecallArgs),
    /// Make the vectors for recall by meaning, for all records that have none yet.
    ///
    /// The model of --embedder becomes the model of the database if that has none. Vectors that were made stay, so an interrupted run
    /// continues when you repeat it. serve with --embedder makes vectors by itself, as records come. A text that the model refuses is
    /// retried later, and makes the exit code 1.
    Embed(embed::EmbedArgs),
    /// Print each change of memories and documents as it happens, until Ctrl-C.
    ///
    /// A change is stored, updated, removed, erased, left (the record exists but no longer satisfies the conditions) or unreadable.
    /// Delivery is at least once: with --from and the token of the last change, a watch continues with all later commits, some of them
    /// twice. With --json, each change is one line {"token":...,"kind":...} with the memory, the document, or the id; the kinds reached
    /// and progress say how far the watch is. Without --json, the option to continue is printed on standard error at the end: "next:
    /// --from ...".
    Watch(watch::WatchArgs),
    /// List the spaces directly below one, or the top-level spaces, with the number of memories in each and the time of the newest.
    ///
    /// If a level has more spaces, the options for them are printed on standard error: "next: --cursor ...". With --json, each space
    /// is one line.
    Spaces(spaces::SpacesArgs),
    /// Keep and search documents, the texts that an agent itself saves.
    #[command(subcommand)]
    Document(document::DocumentCommand),
    /// Show and change the texts for the system prompt of an agent: its memory of the project, and the profile of its user.
    #[command(subcommand)]
    Prompt(prompt::PromptCommand),
    /// Talk to an agent at the terminal: a model behind an endpoint answers, and the conversation is kept.
    ///
    /// Each line of standard input is a message, and its answer is streamed to standard output. The messages, the thoughts and actions of
    /// the agent, and the facts that it learned stay in the memory, and the next conversation continues from there. Ctrl-C cancels an
    /// answer in progress; if there is none, or pressed once more, it ends the conversation, as the end of the input does. With --json,
    /// each answer is a line {"kind":"answer",...}, the end of each line of the input is a line {"kind":"end",...}, and with --verbose
    /// each tool call is a line {"kind":"tool",...}. A message that can't be answered is reported and makes the exit code 1 in the end,
    /// but the conversation goes on.
    Chat(chat::ChatArgs),
    /// Show what an agent would know when it answers a message: its conversation, its character, and its tools.
    ///
    /// By default all providers except dynamic and private ones contribute. The exit code is 1 if a requested one
    /// is missing or has failed; the text of the others is shown anyway.
    Compose(compose::ComposeArgs),
    /// Import memories and documents from JSON lines; repeating an import changes nothing.
    ///
    /// A line is a memory, or a document if it says "kind":"document", as export writes them. A record with an id is restored unchanged.
    /// Without an id, a memory is stored under an idempotency key made from its content, and a document under such an id. Lines are
    /// written in batches: a line that can't be read stops the import, and nothing of its batch is written. A record that differs from
    /// the one with the same id or key is reported and left out, and makes the exit code 1.
    Import(import::ImportArgs),
    /// Export memories and documents as JSON lines, oldest first.
    ///
    /// Without options, it exports everything: all memories, then the documents of all collections. With spaces or conditions, it exports
    /// only the memories that they select; with --documents also the documents in those spaces.
    Export(export::ExportArgs),
    /// Copy memories and documents to another engine, and verify the copy.
    ///
    /// Without options, it copies everything; otherwise what the selectors of query find, with --documents also documents. Ids, revisions
    /// and keys are kept. Records that exist in the target stay as they are, so an interrupted copy continues when you repeat it. A
    /// record that differs is reported, and makes the exit code 1.
    ///
    /// With --follow, the target is kept up to date while programs write to the source; with --finish, it replaces the source.
    Copy(copy::CopyArgs),
    /// Erase memories, and documents if you like, with their history, their vectors and everything else about them. This can't be undone.
    ///
    /// It erases what the selectors of query find, the memories with the given ids, or what an agent knows of a person. A tombstone with
    /// the reason stays of each record, so that no import, copy or repeated store brings it back. It works in slices: Ctrl-C ends it
    /// between two slices, and repeating the command continues. In the end it verifies that nothing is left; --certificate writes the
    /// result to a file, and --json to standard output. The exit code is 1 if something is left. Earlier backups, exports and copies are
    /// not erased.
    Erase(erase::EraseArgs),
    /// Erase expired records, and remove the tombstones of those that expired more than 90 days ago.
    ///
    /// An expired record is in no answer, whether it was swept or not, so the command is not needed for that; serve sweeps by itself.
    /// It works in slices: Ctrl-C ends it between two slices, and makes the exit code 1.
    Sweep,
    /// Show or change how long records are kept, by rules for spaces. The rule with the longest space holds.
    ///
    /// A rule keeps a memory for a time from when it was stored, and a document from when it was last put. It holds at once, also for
    /// existing records: those over the time are in no answer any more, and a sweep erases them, which can't be undone. With --json, each
    /// rule is one line {"under":...,"keep":...}, in milliseconds. All rules are read, changed and written together, so change them from
    /// one place.
    Retention(retention::RetentionArgs),
    /// Show whether the engine works, and which failures an acknowledged write survives.
    Health,
    /// Load a small sample and show how recall works. Start here.
    Quickstart,
    /// Serve the memory to other programs: by REST at /v1, and by MCP at /mcp or over standard input and output.
    ///
    /// With --agent, it also serves an agent that remembers, to any program that speaks OpenAI's chat completions.
    Serve(serve::ServeArgs),
}

impl Command {
    /// Whether the command works in parallel, and needs a runtime with several threads.
    pub(crate) fn is_parallel(&self) -> bool {
        match self {
            #[cfg(feature = "bench")]
            Self::Bench(_) => true,
            #[cfg(feature = "suite")]
            Self::Conformance(_) => true,
            Self::OnMemory(command) => matches!(**command, MemoryCommand::Serve(_)),
            _ => false,
        }
    }
}
