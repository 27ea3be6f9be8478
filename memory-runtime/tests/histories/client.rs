//! A program with some clients. Each makes its calls one after the other on one provider, and reports each before and
//! after it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::{Error, ErrorKind, MemoryProvider};
use serde::{Deserialize, Serialize};

use crate::Fallible;
use crate::log::{Action, Answer, Call, How, Line, Outcome, Version, Wanted, What, now};
use crate::memory::Memories;
use crate::plan::{Condition, PATHS, Planned, SPACES, plan, space_of};

/// Before a server that is away is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// The part of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) url: String,
    pub(crate) seed: u64,
    pub(crate) calls: usize,
    /// The number of clients of all programs: the calls of the plan go to them in turns.
    pub(crate) clients: u32,
    /// Those of this program, each with its first call that was not begun yet.
    pub(crate) own: BTreeMap<u32, u32>,
}

/// The shared knowledge of a program's clients about a record.
#[derive(Debug, Clone, Default)]
struct Seen {
    id: Option<String>,
    revision: u64,
}

struct Client {
    memories: Memories,
    seen: Mutex<BTreeMap<String, Seen>>,
}

pub(crate) async fn live(part: Part) -> Fallible {
    let provider = opened(&part.url).await?;
    let client = Arc::new(Client { memories: Memories::of(Arc::clone(&provider)), seen: Mutex::default() });
    let planned = Arc::new(plan(part.seed, part.calls));
    let mut tasks = Vec::new();
    for (number, first) in part.own {
        let (client, planned) = (Arc::clone(&client), Arc::clone(&planned));
        tasks.push(tokio::spawn(async move {
            for (place, planned) in planned.iter().enumerate().skip(first as usize) {
                if place as u32 % part.clients == number {
                    client.call(place as u32, number, planned).await;
                }
            }
        }));
    }
    for task in tasks {
        task.await?;
    }
    provider.shutdown().await?;
    Ok(())
}

/// A provider that is open, however long its server takes to be there.
pub(crate) async fn opened(url: &str) -> Fallible<Arc<dyn MemoryProvider>> {
    let provider = memory_runtime::open(url)?;
    loop {
        match provider.init().await {
            Ok(()) => return Ok(provider),
            Err(error) if is_trouble(&error) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a server that is away explains the error.
pub(crate) fn is_trouble(error: &Error) -> bool {
    [ErrorKind::Unavailable, ErrorKind::Timeout].contains(&error.kind())
}

/// Writes a line for the parent, and flushes it.
pub(crate) fn say(line: &Line) {
    let text = serde_json::to_string(line).expect("a line is JSON");
    let mut out = std::io::stdout().lock();
    // If nobody listens, the parent is gone, and this program ends.
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("the parent listens");
}

impl Client {
    async fn call(&self, number: u32, client: u32, planned: &Planned) {
        let action = self.action(planned);
        let outcome = Outcome::Unknown("no answer".to_owned());
        let call = Call { number, client, action, started: now(), ended: None, outcome };
        say(&Line::Started(call.clone()));
        let outcome = perform(&self.memories, number, &call.action).await;
        let at = now();
        self.learn(&call.action, &outcome);
        say(&Line::Ended { number, at, outcome });
    }

    /// Makes a call from a planned one. A memory whose id is not known yet is stored first, which returns the id.
    fn action(&self, planned: &Planned) -> Action {
        let seen = |record: &String| self.seen().get(record).cloned().unwrap_or_default();
        let one = |record: &String, what| Action::One { record: record.clone(), what };
        let many = |documents, path: usize, how| Action::Many { documents, under: PATHS[path].to_owned(), how };
        let store = |memory: &String, variant| one(memory, What::Store { space: space_of(memory).to_owned(), variant });
        match planned {
            Planned::Store { memory, variant } => store(memory, *variant),
            Planned::Update { memory, is_conditional } => match seen(memory) {
                Seen { id: Some(id), revision } => {
                    let if_revision = Some(revision).filter(|revision| *is_conditional && *revision > 0);
                    one(memory, What::Update { id, if_revision })
                }
                Seen { id: None, .. } => store(memory, 0),
            },
            Planned::Get { record } | Planned::Erase { record } => {
                let id = seen(record).id;
                if id.is_none() && !crate::log::is_document(record) {
                    return store(record, 0);
                }
                let is_get = matches!(planned, Planned::Get { .. });
                one(record, if is_get { What::Get { id } } else { What::Erase { id } })
            }
            Planned::Put { document, space, condition } => {
                let expect = match (condition, seen(document).revision) {
                    (Condition::None, _) => Wanted::Any,
                    (Condition::Absent, _) | (Condition::Seen, 0) => Wanted::Absent,
                    (Condition::Seen, revision) => Wanted::Revision(revision),
                };
                one(document, What::Put { space: SPACES[*space].to_owned(), expect })
            }
            Planned::Remove { document } => one(document, What::Remove),
            Planned::Query { documents, path } => many(*documents, *path, How::Query),
            Planned::Walk { documents, path, limit } => many(*documents, *path, How::Walk(*limit)),
            Planned::Recall { documents, path } => many(*documents, *path, How::Recall),
        }
    }

    fn learn(&self, action: &Action, outcome: &Outcome) {
        let mut seen = self.seen();
        match (action, outcome) {
            (Action::One { record, .. }, Outcome::Done(answer)) => {
                let seen = seen.entry(record.clone()).or_default();
                match answer {
                    Answer::Stored(id) => seen.id = Some(id.clone()),
                    Answer::Revision(revision) => seen.revision = *revision,
                    Answer::Found(found) => seen.learn(found.as_ref()),
                    Answer::Gone(_) => seen.revision = 0,
                    _ => {}
                }
            }
            (_, Outcome::Done(Answer::Pages { pages, .. })) => {
                for row in pages.iter().flat_map(|page| &page.rows) {
                    seen.entry(row.record.clone()).or_default().learn(Some(&row.version));
                }
            }
            _ => {}
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn learn(&mut self, version: Option<&Version>) {
        self.revision = version.map_or(0, |version| version.revision);
        if let Some(version) = version {
            self.id.clone_from(&version.id);
        }
    }
}

/// Makes a call, and returns its outcome.
pub(crate) async fn perform(memories: &Memories, number: u32, action: &Action) -> Outcome {
    let done = match action {
        Action::One { record, what } => memories.one(record, number, what).await,
        Action::Many { documents, under, how } => memories.many(*documents, under, *how).await,
    };
    done.map_or_else(failed, Outcome::Done)
}

fn failed(error: Error) -> Outcome {
    let kind = format!("{:?}", error.kind());
    match (error.outcome(), error.kind()) {
        (memory_core::Outcome::Unknown, _) => Outcome::Unknown(kind),
        (_, ErrorKind::Conflict) => Outcome::Done(Answer::Conflict),
        (_, ErrorKind::Erased) => Outcome::Done(Answer::Erased),
        (_, ErrorKind::NotFound) => Outcome::Done(Answer::NotFound),
        _ => Outcome::NotDone(kind),
    }
}
