//! Which commands there are.

use clap::Subcommand;

#[cfg(feature = "bench")]
use crate::commands::bench;
#[cfg(feature = "suite")]
use crate::commands::conformance;
use crate::commands::{
    chat, compose, copy, doctor, document, embed, erase, eval, export, history, import, migrate, probe, prompt, query,
    recall, retention, run, serve, spaces, store, watch,
};

/// What the user asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    OnMemory(Box<MemoryCommand>),
    /// Do the steps of a pipeline for one task, and show what came of it.
    ///
    /// The task is persisted before the first step, and after each of them. Steps call the executors of the memory plugin
    /// (memory:query, memory:add_document, memory:remove_document) within the container of the task, which is the parent of
    /// its space unless it names another. Where an argument is {"$task":"/trigger/text"}, it stands for that part of the task:
    /// /trigger, /results/0, /metadata or /space. Exit code 1 when a step failed.
    Run(run::RunArgs),
    /// Try what an operator would try, one after the other, and say what is wrong.
    ///
    /// Connection, schema, indexes, the clock, versions, durability, recall, and a probe that writes and reads in a place of its
    /// own, which is removed. The exit code is 1 when something is bad.
    Doctor(doctor::DoctorArgs),
    /// Measure how much of what answers known questions recall finds, in a place of its own that is removed afterwards.
    ///
    /// For each set of questions, the memories of NAME.jsonl are stored; then each line of NAME.qa.jsonl is asked within the deepest space that
    /// holds them all: {"question": "When did Mel paint?", "evidence": ["D1:12"], "category": 2}. Evidence names memories by a key of
    /// their metadata. Shown is the mean part of the evidence among the best 5, 10, 25 and 50 hits, by category, and how long a question takes. With
    /// --embedder, the memories are embedded first, and what is meant counts too.
    Eval(eval::EvalArgs),
    /// Bring the schema up to date, as every other command does on its own.
    Migrate(migrate::MigrateArgs),
    /// Ask a server that runs whether it is ready, as the health check of a container does.
    ///
    /// The exit code is 0 when it is, and 1 when it is not, or does not answer within ten seconds.
    Probe(probe::ProbeArgs),
    /// Run the suite that proves an engine, in a place of its own that is removed afterwards.
    ///
    /// With several --url, the table has one column for each engine, and the cases on which they differ come first; memory: is
    /// the reference. What the URLs themselves name stays untouched. The exit code is 0 when every case that ran has passed,
    /// and 1 when one failed, none ran, or a signal ended the run; then no further case begins.
    #[cfg(feature = "suite")]
    Conformance(conformance::ConformanceArgs),
    /// Measure an engine at a size of your choice, in a place of its own that is removed afterwards.
    ///
    /// Loads a ledger, recalls from it, walks through it, and writes to it; tells how often in a second that goes and how long it
    /// takes, as a table in Markdown or as JSON. memory: is the reference. What the URL itself names stays untouched. Mind the
    /// space on the disk: ten million memories of 600 bytes take about 10 GB.
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
}

/// A command on a provider that is opened before it, and closed after it.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Append a memory to the ledger and print its id.
    Store(store::StoreArgs),
    /// Change the context, the metadata, the status or the expiry of a memory.
    Update(store::UpdateArgs),
    /// Show one memory, as it is or as it was.
    Get(store::GetArgs),
    /// Show the versions of a memory, newest first: when each was committed, by whom, and what it was.
    ///
    /// When there are more, the option that asks for the next page goes to standard error: "next: --cursor ...". With --json, each version
    /// is one line {"revision":...,"committedAt":...,"actor":...,"memory":...}.
    History(history::HistoryArgs),
    /// Recall memories from the spaces that you name.
    ///
    /// When there are more, the option that asks for the next page goes to standard error: "next: --cursor ...". With --json,
    /// each memory is one line on standard output, as import reads it.
    Query(query::QueryArgs),
    /// Ask a question in words: what answers it best comes first.
    ///
    /// Words count by their stems, rare ones more, and those of the neighbours in the same container with them, so that a turn of a
    /// conversation is found by the turns beside it. With --embedder, what is meant counts too. With --json, each hit is one line: its score, the parts of it, and the memory or
    /// the document.
    Recall(recall::RecallArgs),
    /// Make the vectors by which recall finds what is meant, for all records that have none yet.
    ///
    /// The model is that of --embedder, and becomes that of the database where it has none. What is embedded stays, so a run that was
    /// ended is repeated to go on; serve with --embedder does the same by itself, as records come. What the model refuses is tried again later,
    /// and makes the exit code 1.
    Embed(embed::EmbedArgs),
    /// Tell each change of memories and documents as it comes, until Ctrl-C ends it.
    ///
    /// A change is stored, updated, removed, erased, left (the record is there, and does not satisfy the conditions now) or unreadable.
    /// Nothing is lost: whoever goes on with --from and the token of the last change gets all that was committed behind it, some of it twice. With
    /// --json, each change is one line {"token":...,"kind":...} with the memory, the document, or the id; reached and progress tell how far
    /// the watch is. Without, the option that goes on stands on standard error at the end: "next: --from ...".
    Watch(watch::WatchArgs),
    /// List the spaces right below one, or the top-level ones, with how many memories each holds and when the newest was created.
    ///
    /// When a level has more spaces, the options that ask for them go to standard error: "next: --cursor ...". With --json, each space
    /// is one line.
    Spaces(spaces::SpacesArgs),
    /// Keep and search documents, the texts that an agent itself saves.
    #[command(subcommand)]
    Document(document::DocumentCommand),
    /// Keep what goes into the system prompt of an agent: its memory of the project, and the profile of its user.
    #[command(subcommand)]
    Prompt(prompt::PromptCommand),
    /// Talk to an agent at the terminal: a model behind an endpoint answers, and what is said is kept.
    ///
    /// Each line of standard input is a message, and its answer comes on standard output as it is written. The messages, what the agent
    /// thought and did, and the facts that it learned stay in the memory, and the next conversation goes on from there. Ctrl-C gives up
    /// an answer that is thought about; without one, or once more, it ends the conversation, as the end of the input does. With --json,
    /// each answer is a line {"kind":"answer",...}, what became of each line of the input is one {"kind":"end",...}, and with --verbose
    /// each call of a tool is one {"kind":"tool",...}. A message that can't be answered is reported, makes the exit code 1 in the end,
    /// and the conversation goes on.
    Chat(chat::ChatArgs),
    /// Show what an agent would know when it answers a message: its conversation, its character, what it can do.
    ///
    /// By default all providers but the dynamic and the private ones contribute. The exit code is 1 when one that was asked for
    /// is missing or has failed; the text of the others is shown all the same.
    Compose(compose::ComposeArgs),
    /// Read memories and documents from JSON lines; repeating an import changes nothing.
    ///
    /// A line is a memory, or a document if it says "kind":"document", as export writes them. With an id it is restored as
    /// it is; without, it is stored under a key (a document under an id) made from its content. Lines go in batches: one that
    /// can't be read stops the import, and nothing of its batch stays behind. One that differs from what has its id or key is
    /// reported and left out, and makes the exit code 1.
    Import(import::ImportArgs),
    /// Write memories and documents as JSON lines, oldest first.
    ///
    /// Without options, everything: all memories, then the documents of all collections. With spaces or conditions, only the
    /// memories that they select; with --documents also the documents in those spaces.
    Export(export::ExportArgs),
    /// Copy memories and documents to another engine, and verify what is there then.
    ///
    /// Without options, everything; else what the selectors of query find, with --documents also documents. Ids, revisions and
    /// keys are kept. What is there already stays as it is, so that a copy that was interrupted is repeated to go on; a record
    /// that differs is reported, and makes the exit code 1.
    ///
    /// With --follow, the target is kept up to date while programs go on to write to the source, and with --finish it takes its place.
    Copy(copy::CopyArgs),
    /// Erase memories, and documents if you like, with their history, their vectors and all else that is kept of them. There is no way back.
    ///
    /// What the selectors of query find, the memories with some ids, or what an agent knows of a person. A tombstone stays of each record,
    /// with the reason, and no import, copy or repeated store brings it back. It goes in slices: Ctrl-C ends it between two of them, and
    /// it goes on when it is said again. In the end it verifies that nothing is left; --certificate writes that to a file, and --json to
    /// standard output. The exit code is 1 when something is left. Backups, exports and copies from before are not erased.
    Erase(erase::EraseArgs),
    /// Erase what has expired, and take away the tombstones of what has expired whose time is over.
    ///
    /// A record that has expired is in no answer, whether it was swept or not, so nobody has to run this for that; serve does it by itself.
    /// It goes in slices: Ctrl-C ends it between two of them, which makes the exit code 1.
    Sweep,
    /// Show how long records are kept, or change that: rules by spaces, the longest of which holds.
    ///
    /// A rule keeps a memory for a time from when it was stored, and a document from when it was last put. It holds at once, also for
    /// what is there already, which is then in no answer any more, and is erased by a sweep: there is no way back. With --json, each rule is
    /// one line {"under":...,"keep":...}, in milliseconds. All rules are read, changed and written, so change them from one place.
    Retention(retention::RetentionArgs),
    /// Show whether the engine works, and what an acknowledged write survives.
    Health,
    /// Load a small sample and show how recall works: start here.
    Quickstart,
    /// Serve the memory to other programs: REST at /v1, and MCP at /mcp or over standard input and output.
    ///
    /// With --agent, also an agent that remembers, to any program that speaks OpenAI's chat completions.
    Serve(serve::ServeArgs),
}

impl Command {
    /// Whether it does many things at once.
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
