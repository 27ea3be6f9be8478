//! Verifies that erased records are gone.

use memory_core::{ErrorKind, MAX_LIMIT, MemoryProvider};

use super::certificate::Certificate;
use super::eraser::End;
use super::presence::{count_absent, is_kept};
use super::selection::{Part, Selection};
use crate::output;
use crate::progress::Progress;

/// The result of a verification.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Whether no selected record is left that an erasure can take.
    pub(super) is_done: bool,
    /// Whether a signal has ended the verification, so that nothing is known.
    pub(super) is_stopped: bool,
    /// The number of named records that neither exist nor were erased.
    pub(super) absent: usize,
    /// The facts that were verified, as sentences.
    pub(super) held: Vec<String>,
    /// The facts that should hold and do not, as sentences.
    pub(super) failed: Vec<String>,
}

/// The number of records between two progress reports.
const TELLING: u64 = 1_000;

/// Runs the selection again, and the parts that were found before, unless it is known that more is left. Then looks up each erased record.
pub(super) async fn run(
    provider: &dyn MemoryProvider,
    selection: &Selection<'_>,
    before: &[Part],
    certificate: &Certificate,
    end: End,
    progress: &Progress,
) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::default();
    if end != End::Asked {
        let found = selection.find().await?;
        let mut left = if found.lists.is_empty() { Left::Nothing } else { Left::Records };
        // The records that tell where a person was are erased, too, so only the earlier parts know these spaces.
        let before = if selection.is_of_person() { before } else { &[] };
        for part in found.parts.iter().chain(before) {
            left = left.max(part_left(provider, part).await?);
        }
        verdict.is_done = left != Left::Records;
        match left {
            Left::Nothing => verdict.held.push("the same selection finds nothing".to_owned()),
            Left::Unreadable => verdict.failed.push("what can't be read is not erased".to_owned()),
            Left::Records if end == End::Complete => {
                let failed = "the same selection finds records that came or changed meanwhile: repeat the command";
                verdict.failed.push(failed.to_owned());
            }
            Left::Records => {}
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
        // A document that was put since is another one.
        let found = documents.get(&name.collection, &name.id).await?;
        let is_old = found.is_some_and(|found| tombstone.is_none_or(|tombstone| tombstone.keeps_out(&found)));
        shown += usize::from(is_old);
        done += 1;
        if done % TELLING == 0 {
            progress.verified(done);
        }
    }
    verdict.absent = count_absent(provider, &selection.named()).await?;
    let documents = certificate.documents.len();
    verdict.judge(shown, documents > 0, format!("none of the {documents} documents is there"));
    verdict.judge(without_tombstone, done > 0, format!("each of the {done} records has a tombstone"));
    Ok(verdict)
}

impl Verdict {
    /// The result of a verification that a signal has ended.
    pub(super) fn stopped() -> Self {
        Self { is_stopped: true, ..Self::default() }
    }

    /// Records a sentence as verified, or as failed if there are exceptions.
    fn judge(&mut self, exceptions: usize, is_about_something: bool, sentence: String) {
        if exceptions > 0 {
            let noun = if exceptions == 1 { "exception" } else { "exceptions" };
            self.failed.push(format!("{exceptions} {noun} to: {sentence}"));
        } else if is_about_something {
            self.held.push(sentence);
        }
    }
}

/// What a part still finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nothing,
    /// Records that can't be read, which no erasure takes.
    Unreadable,
    Records,
}

async fn part_left(provider: &dyn MemoryProvider, part: &Part) -> anyhow::Result<Left> {
    if let Part::Records(records) = part {
        for record in records {
            if is_kept(provider, record).await? {
                return Ok(Left::Records);
            }
        }
    }
    let (mut cursor, mut left) = (None, Left::Nothing);
    loop {
        let page = part.page(provider, MAX_LIMIT, cursor.as_ref()).await?;
        if output::report_unreadable(page.kind, &page.unreadable) {
            left = Left::Unreadable;
        }
        if !page.records.is_empty() {
            return Ok(Left::Records);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(left);
        }
    }
}
