//! Looks whether what was erased is gone.

use memory_core::{ErrorKind, MAX_LIMIT, MemoryProvider, RecordId};

use super::certificate::Certificate;
use super::eraser::End;
use super::selection::{Part, Selection};
use crate::args;
use crate::output;
use crate::progress::Progress;

/// What was found behind an erasure.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Whether nothing is left of what was selected.
    pub(super) is_done: bool,
    /// What is true, as sentences.
    pub(super) held: Vec<String>,
    /// What should be and is not.
    pub(super) failed: Vec<String>,
}

/// After how many records it is told how far it is.
const TELLING: u64 = 100;

/// Asks for the same again, unless it is known that more is left, and then for each record that was erased.
pub(super) async fn run(
    provider: &dyn MemoryProvider,
    selection: &Selection<'_>,
    certificate: &Certificate,
    end: End,
    progress: &Progress,
) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    if end != End::Asked {
        let found = selection.find().await?;
        verdict.is_done = found.lists.is_empty();
        for part in &found.parts {
            verdict.is_done &= !is_left(provider, part, &mut verdict.failed).await?;
        }
        if verdict.is_done {
            verdict.held.push("the same selection finds nothing".to_owned());
        } else if end == End::Complete {
            verdict.failed.push("the same selection finds records, which came meanwhile: say it again".to_owned());
        }
    }
    let (mut without_tombstone, mut shown, mut done) = (0, 0, 0);
    for id in &certificate.memories {
        without_tombstone += usize::from(provider.tombstone(&(*id).into()).await?.is_none());
        shown += usize::from(!matches!(provider.get(*id).await, Err(error) if error.kind() == ErrorKind::Erased));
        done += 1;
        if done % TELLING == 0 {
            progress.verified(done);
        }
    }
    let memories = certificate.memories.len();
    verdict.judge(shown, memories > 0, format!("each of the {memories} memories answers that it was erased"));
    shown = 0;
    let documents = provider.documents();
    for name in &certificate.documents {
        let tombstone = provider.tombstone(&(name.collection.clone(), name.id.clone()).into()).await?;
        without_tombstone += usize::from(tombstone.is_none());
        // One that was put since is another one.
        let found = documents.get(&name.collection, &name.id).await?;
        let is_old = found.is_some_and(|found| tombstone.is_none_or(|tombstone| tombstone.keeps_out(&found)));
        shown += usize::from(is_old);
        done += 1;
        if done % TELLING == 0 {
            progress.verified(done);
        }
    }
    let documents = certificate.documents.len();
    verdict.judge(shown, documents > 0, format!("none of the {documents} documents is there"));
    verdict.judge(without_tombstone, done > 0, format!("a tombstone is there of each of the {done} records"));
    Ok(verdict)
}

impl Verdict {
    /// A sentence that holds of all records, unless it does not of some.
    fn judge(&mut self, exceptions: usize, is_about_something: bool, sentence: String) {
        if exceptions > 0 {
            self.failed.push(format!("this does not hold of {exceptions}: {sentence}"));
        } else if is_about_something {
            self.held.push(sentence);
        }
    }
}

/// Whether a part finds a record. What can't be read is told, since no erasure takes it.
async fn is_left(provider: &dyn MemoryProvider, part: &Part, failed: &mut Vec<String>) -> anyhow::Result<bool> {
    let mut cursor = None;
    loop {
        let (is_empty, unreadable, next) = match part {
            Part::Memories(query) => {
                let query = cursor.iter().fold(query.clone().limit(MAX_LIMIT), |query, cursor| query.cursor(cursor));
                let page = provider.query(&args::build(query)?).await?;
                let has_unreadable = output::report_unreadable("memory", &page.unreadable);
                (page.memories.is_empty(), has_unreadable, page.next)
            }
            Part::Documents(query) => {
                let query = cursor.iter().fold(query.clone().limit(MAX_LIMIT), |query, cursor| query.cursor(cursor));
                let page = provider.documents().query(&args::build(query)?).await?;
                let has_unreadable = output::report_unreadable("document", &page.unreadable);
                (page.documents.is_empty(), has_unreadable, page.next)
            }
            Part::Records(records) => {
                for record in records {
                    if is_there(provider, record).await? {
                        return Ok(true);
                    }
                }
                return Ok(false);
            }
        };
        if unreadable {
            failed.push("what can't be read is not erased".to_owned());
        }
        if !is_empty {
            return Ok(true);
        }
        cursor = next;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

/// Whether a record is there and was not erased. One that can't be read is.
pub(super) async fn is_there(provider: &dyn MemoryProvider, record: &RecordId) -> memory_core::Result<bool> {
    let found = match record {
        RecordId::Memory(id) => provider.get(*id).await.map(|found| found.is_some()),
        RecordId::Document { collection, id } => {
            provider.documents().get(collection, id).await.map(|found| found.is_some())
        }
    };
    found.or_else(|error| match error.kind() {
        ErrorKind::Erased => Ok(false),
        ErrorKind::Corrupt => Ok(true),
        _ => Err(error),
    })
}
