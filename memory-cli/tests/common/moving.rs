//! A move of a ledger to another place while a program writes to it.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use memory_core::{
    Collection, Content, DocumentId, DocumentSelection, DocumentStore, DocumentWrite, Error, ErrorKind, MemoryId,
    MemoryPatch, MemoryProvider, NewMemory, Outcome, Result, Revision, SpaceId, Status, Timestamp, Trigger,
};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Cli, Random, eventually, stderr, stdout};

/// How many documents the writer puts, removes and puts again.
const DOCUMENTS: usize = 12;
/// How many calls the writer makes at most until it is asked to go on. Without a limit, a slower target might never be up to date.
const AHEAD: usize = 500;

/// `copy --follow` as a process. Killed when it is dropped.
pub(crate) struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Follower {
    pub(crate) fn start(cli: &Cli, from: &str, to: &str) -> Self {
        let mut command = cli.command();
        command.args(["--url", from, "copy", "--follow", "--progress", "--to", to]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the binary runs");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// Waits for a line of standard error that begins with this.
    pub(crate) fn wait_for(&mut self, start: &str) {
        let mut told = Vec::new();
        while !told.last().is_some_and(|line: &String| line.starts_with(start)) {
            let line = self.lines.next().unwrap_or_else(|| panic!("it ended before {start:?}: {told:?}"));
            told.push(line.expect("a line"));
        }
    }

    /// Waits until it has ended by itself.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(mut self) -> ExitStatus {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
        self.child.wait().expect("it ends")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that stores, updates, puts, removes and puts again, until it is refused.
pub(crate) struct Writer {
    thread: JoinHandle<Written>,
    progress: Arc<Progress>,
}

/// How far a writer is, and may go.
struct Progress {
    calls: AtomicUsize,
    allowed: Semaphore,
}

/// The acknowledged writes of a writer, and how it ended.
pub(crate) struct Written {
    pub(crate) memories: BTreeMap<MemoryId, Revision>,
    pub(crate) error: Error,
}

impl Writer {
    pub(crate) fn start(url: &str) -> Self {
        let (url, calls, allowed) = (url.to_owned(), AtomicUsize::default(), Semaphore::new(AHEAD));
        let progress = Arc::new(Progress { calls, allowed });
        let own = Arc::clone(&progress);
        let thread = std::thread::spawn(move || write(&url, &own));
        Self { thread, progress }
    }

    /// Lets it go on, and waits until it has written more.
    pub(crate) fn goes_on(&self) {
        let Progress { calls, allowed } = &*self.progress;
        let before = calls.load(Ordering::Relaxed);
        allowed.add_permits(AHEAD);
        eventually("the writer goes on", || {
            assert!(!self.thread.is_finished(), "the writer has ended");
            calls.load(Ordering::Relaxed) > before + 60
        });
    }

    /// Lets it go on until it is refused.
    pub(crate) fn end(self) -> Written {
        self.progress.allowed.close();
        self.thread.join().expect("no panic")
    }
}

#[tokio::main]
async fn write(url: &str, progress: &Progress) -> Written {
    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("opens");
    let (documents, mut memories, mut random) = (provider.documents(), BTreeMap::new(), Random::new());
    println!("{random:?}");
    let error = loop {
        // Closed, it is no limit any more.
        if let Ok(permit) = progress.allowed.acquire().await {
            permit.forget();
        }
        if let Err(error) = write_once(&*provider, &*documents, &mut memories, &mut random).await {
            break error;
        }
        progress.calls.fetch_add(1, Ordering::Relaxed);
    };
    provider.shutdown().await.expect("closes");
    Written { memories, error }
}

async fn write_once(
    provider: &dyn MemoryProvider,
    documents: &dyn DocumentStore,
    memories: &mut BTreeMap<MemoryId, Revision>,
    random: &mut Random,
) -> Result<()> {
    let number = memories.len();
    let id = DocumentId::parse(format!("d{}", random.below(DOCUMENTS)))?;
    let notes = Collection::parse("notes")?;
    match random.below(5) {
        0 | 1 => {
            let trigger = Trigger::parse(&number.to_string())?;
            let memory = NewMemory::new(space(number)?, trigger, Timestamp::from_millis(number as i64)?);
            memories.insert(provider.store(memory).await?, Revision::FIRST);
        }
        2 => {
            if let Some((id, revision)) = memories.iter_mut().nth(random.below(number.max(1))) {
                let patch = MemoryPatch::new().with_status(Status::Completed);
                *revision = provider.update(*id, patch).await?.revision;
            }
        }
        3 => {
            let content = Content::parse(number.to_string())?;
            let write = DocumentWrite::new(notes, space(number)?, content, Timestamp::from_millis(number as i64)?);
            documents.put(write.with_id(id)).await?;
        }
        _ => drop(documents.remove(&DocumentSelection::ids(notes, [id])?, 1).await?),
    }
    Ok(())
}

fn space(number: usize) -> Result<SpaceId> {
    SpaceId::parse(format!("writer-{}", number % 7))
}

/// Makes a place read-only, for no move.
#[tokio::main]
pub(crate) async fn fence(url: &str) {
    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("opens");
    provider.set_read_only(true).await.expect("fenced");
    provider.shutdown().await.expect("closes");
}

/// All records of a place, without the bookkeeping of a target.
pub(crate) fn export(cli: &Cli, url: &str) -> Vec<String> {
    cli.ok(&["--url", url, "export"]).lines().map(str::to_owned).collect()
}

/// Moves a ledger that a program writes to: it is followed, the follower is killed again and again, and in the end the target takes the place
/// of the source with all that was acknowledged.
pub(crate) fn check_move(cli: &Cli, from: &str, to: &str) {
    let writer = Writer::start(from);
    writer.goes_on();
    for _ in 0..4 {
        let mut follower = Follower::start(cli, from, to);
        follower.wait_for("done: ");
        writer.goes_on();
        // Killed within a batch or between two.
        drop(follower);
        writer.goes_on();
    }
    let mut follower = Follower::start(cli, from, to);
    follower.wait_for("up to date: ");
    writer.goes_on();
    assert!(follower.interrupt().success());

    let finish = ["--url", from, "copy", "--follow", "--finish", "--to", to, "--json"];
    let moved = cli.run(&finish);
    assert!(moved.status.success(), "{} {}", stdout(&moved), stderr(&moved));
    assert!(stdout(&moved).contains(r#""verified":true"#), "{}", stdout(&moved));
    let written = writer.end();
    assert_eq!(
        (written.error.kind(), written.error.outcome(), written.error.is_retryable()),
        (ErrorKind::Unavailable, Outcome::NotDone, true),
        "{}",
        written.error
    );
    let (source, target) = (export(cli, from), export(cli, to));
    assert_eq!(source, target);
    let lines = target.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let moved: HashMap<_, _> = lines.map(|record| (record["id"].to_string(), record["revision"].to_string())).collect();
    for (id, revision) in &written.memories {
        assert_eq!(moved.get(&format!("\"{id}\"")), Some(&revision.to_string()), "{id}");
    }

    let refused = cli.fails(1, &["--url", from, "store", "--space", "a", "--trigger", "1"]);
    assert!(refused.contains("read-only"), "{refused}");
    let told = cli.ok(&["--url", from, "doctor", "--read-only"]);
    let noted = told.lines().find(|line| line.starts_with("note writes: the ledger is read-only"));
    assert!(noted.is_some_and(|line| line.contains("copy --unfence")), "{told}");
    let stored = cli.ok(&["--url", to, "store", "--space", "a", "--trigger", "1"]);
    assert!(cli.ok(&finish).contains(r#""verified":true"#), "a repetition");
    let refused = cli.fails(2, &["--url", from, "copy", "--follow", "--to", to]);
    assert!(refused.contains("taken over already"), "{refused}");
    cli.ok(&["--url", to, "get", stored.trim()]);

    cli.ok(&["--url", from, "copy", "--unfence", "--to", to]);
    cli.ok(&["--url", from, "store", "--space", "a", "--trigger", "2"]);
}
