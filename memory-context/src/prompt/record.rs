//! The record of a store: its text and its history.

use std::collections::HashSet;
use std::fmt;

use memory_core::{Content, Document, Error, IdempotencyKey, Result, Revision, Timestamp};
use serde::{Deserialize, Serialize};

/// How many changes the history keeps. The key of a batch is known as long as its change is kept.
const MAX_CHANGES: usize = 100;
/// The most bytes of earlier text that are kept for undo.
const MAX_EARLIER_BYTES: usize = 128 << 10;

/// A text with its history. Both are in one document, so one compare-and-set changes both, and sees whether a batch was applied before.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) text: String,
    /// Oldest first.
    changes: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    revision: Revision,
    origin: Origin,
    /// The difference to the previous text; `None` for an old change, whose lines are no longer kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
}

/// The origin of a change.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Origin {
    pub(super) at: Timestamp,
    pub(super) session_id: String,
    pub(super) platform: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<Batch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<Revision>,
}

/// The idempotency key of a batch.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) key: IdempotencyKey,
    /// The hash of the updates, by which a different batch under the same key is detected.
    pub(super) digest: String,
}

/// The difference to the previous text: after `line` unchanged lines, `removed` was replaced by `added` other lines.
#[derive(Serialize, Deserialize)]
struct Back {
    line: usize,
    removed: Vec<String>,
    added: usize,
}

/// One change in the history of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The revision that the change made.
    pub revision: Revision,
    /// The time of the change.
    pub at: Timestamp,
    /// The conversation of the change.
    pub session_id: String,
    /// The platform of the conversation.
    pub platform: String,
    /// The idempotency key of the batch, if it had one.
    pub batch: Option<IdempotencyKey>,
    /// The revision of the change that it undoes, if it is an undo.
    pub undoes: Option<Revision>,
    /// The lines that it changed; `None` for an old change, whose lines are no longer kept.
    pub diff: Option<Diff>,
}

/// Lines that were replaced by others.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Diff {
    /// The number of unchanged lines before the difference.
    pub line: usize,
    /// The lines that were removed there.
    pub removed: Vec<String>,
    /// The lines that were added there.
    pub added: Vec<String>,
}

impl Record {
    /// Reads a record. Fails with `Corrupt` if the document is not one.
    pub(super) fn read(document: &Document) -> Result<Self> {
        serde_json::from_str(document.content.as_str())
            .map_err(|_| Error::corrupt(format!("the prompt memory {} holds something else", document.id)))
    }

    /// Returns the content of the record's document.
    pub(super) fn to_content(&self) -> Result<Content> {
        let json = serde_json::to_string(self)
            .map_err(|error| Error::invalid("the prompt memory has no JSON form").with_source(error))?;
        Content::parse(json)
    }

    /// Finds the change with the key of a batch. Returns its revision, and whether its updates were the same.
    pub(super) fn find(&self, batch: &Batch) -> Option<(Revision, bool)> {
        let of_key = |entry: &&Entry| entry.origin.batch.as_ref().is_some_and(|known| known.key == batch.key);
        let entry = self.changes.iter().rev().find(of_key)?;
        Some((entry.revision, entry.origin.batch.as_ref() == Some(batch)))
    }

    /// Returns the record with a new text and the change in its history.
    pub(super) fn changed(mut self, text: String, revision: Revision, origin: Origin) -> Self {
        let back = Some(Back::between(&self.text, &text));
        self.changes.push(Entry { revision, origin, back });
        self.text = text;
        self.forget_the_oldest();
        self
    }

    /// Returns the record with the same text and an empty history.
    pub(super) fn anew(self) -> Self {
        Self { text: self.text, changes: Vec::new() }
    }

    /// The changes, newest first.
    pub(super) fn history(&self) -> Vec<HistoryEntry> {
        let mut after = Some(lines(&self.text));
        let mut history = Vec::with_capacity(self.changes.len());
        for entry in self.changes.iter().rev() {
            let origin = entry.origin.clone();
            let steps = after.as_ref().zip(entry.back.as_ref());
            let diff = steps.and_then(|(after, back)| {
                let (_, added, _) = back.split(after)?;
                Some(Diff { line: back.line, removed: back.removed.clone(), added: added.to_vec() })
            });
            after = steps.and_then(|(after, back)| back.apply(after));
            history.push(HistoryEntry {
                revision: entry.revision,
                at: origin.at,
                session_id: origin.session_id,
                platform: origin.platform,
                batch: origin.batch.map(|batch| batch.key),
                undoes: origin.undoes,
                diff,
            });
        }
        history
    }

    /// Returns the newest change that is neither an undo nor undone, and the text before it; `None` if there is none whose earlier text is
    /// still kept.
    pub(super) fn before_last(&self) -> Option<(Revision, String)> {
        let undone: HashSet<_> =
            self.changes.iter().filter_map(|entry| entry.origin.undoes).map(Revision::get).collect();
        let mut text = lines(&self.text);
        for entry in self.changes.iter().rev() {
            text = entry.back.as_ref()?.apply(&text)?;
            if entry.origin.undoes.is_none() && !undone.contains(&entry.revision.get()) {
                return Some((entry.revision, text.join("\n")));
            }
        }
        None
    }

    fn forget_the_oldest(&mut self) {
        self.changes.drain(..self.changes.len().saturating_sub(MAX_CHANGES));
        let mut kept = 0;
        for entry in self.changes.iter_mut().rev() {
            kept += entry.back.as_ref().map_or(0, Back::size);
            if kept > MAX_EARLIER_BYTES {
                entry.back = None;
            }
        }
    }
}

impl fmt::Debug for Record {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes, {} changes)", self.text.len(), self.changes.len())
    }
}

impl fmt::Debug for Diff {
    /// Shows only the numbers, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Diff(line {}, {} removed, {} added)", self.line, self.removed.len(), self.added.len())
    }
}

impl Back {
    fn between(before: &str, after: &str) -> Self {
        let (before, after) = (lines(before), lines(after));
        let line = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
        let rest = before[line..].iter().rev().zip(after[line..].iter().rev());
        let end = rest.take_while(|(old, new)| old == new).count();
        Self { line, removed: before[line..before.len() - end].to_vec(), added: after.len() - end - line }
    }

    /// Computes the earlier lines from the later ones; `None` if they don't match the difference.
    fn apply(&self, after: &[String]) -> Option<Vec<String>> {
        let (head, _, tail) = self.split(after)?;
        Some([head, &self.removed, tail].concat())
    }

    /// Splits the later lines into those before the difference, those that were added, and those after it.
    fn split<'a>(&self, after: &'a [String]) -> Option<(&'a [String], &'a [String], &'a [String])> {
        let (head, rest) = after.split_at_checked(self.line)?;
        let (added, tail) = rest.split_at_checked(self.added)?;
        Some((head, added, tail))
    }

    /// The size of its lines as JSON, in which a control character takes six bytes.
    fn size(&self) -> usize {
        // Lines always have a JSON form.
        serde_json::to_string(&self.removed).map_or(0, |json| json.len())
    }
}

/// Splits a text into lines; the empty text has none.
fn lines(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split('\n').map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin(undoes: Option<Revision>) -> Origin {
        Origin { at: Timestamp::MIN, session_id: "s".into(), platform: "cli".into(), batch: None, undoes }
    }

    fn record(texts: &[&str]) -> Record {
        texts.iter().fold(Record::default(), |record, text| change(record, text, None))
    }

    fn change(record: Record, text: &str, undoes: Option<Revision>) -> Record {
        let newest = record.changes.last().map(|entry| entry.revision);
        let revision = newest.map_or(Ok(Revision::FIRST), Revision::next).expect("a revision");
        record.changed(text.to_owned(), revision, origin(undoes))
    }

    fn undone(record: Record) -> Record {
        let (revision, text) = record.before_last().expect("something to undo");
        change(record, &text, Some(revision))
    }

    #[test]
    fn undo_goes_back_step_by_step_and_over_later_changes() {
        let mut record = record(&["a", "a\n\nb", "c"]);
        for text in ["a\n\nb", "a"] {
            record = undone(record);
            assert_eq!(record.text, text);
        }
        record = change(record, "a\n\nd", None);
        for text in ["a", ""] {
            record = undone(record);
            assert_eq!(record.text, text);
        }
        assert_eq!(record.before_last(), None);
        let undoes: Vec<_> = record.history().iter().map(|change| change.undoes.map(Revision::get)).collect();
        assert_eq!(undoes, [Some(1), Some(6), None, Some(2), Some(3), None, None, None]);
    }

    #[test]
    fn history_shows_the_lines_that_changed() {
        let record = record(&["one\ntwo\nthree", "one\n2\nthree"]);
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let diffs: Vec<_> = record.history().into_iter().filter_map(|change| change.diff).collect();
        let second = Diff { line: 1, removed: owned(&["two"]), added: owned(&["2"]) };
        let first = Diff { line: 0, removed: Vec::new(), added: owned(&["one", "two", "three"]) };
        assert_eq!(diffs, [second, first]);
    }

    #[test]
    fn history_is_bounded_and_its_newest_part_can_be_undone() {
        let large = |letter: &str| letter.repeat(MAX_EARLIER_BYTES / 3);
        let letter = |number: usize| char::from(b'a' + (number % 26) as u8).to_string();
        let texts: Vec<_> = (0..MAX_CHANGES + 5).map(|number| large(&letter(number))).collect();
        let mut record = record(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let history = record.history();
        assert_eq!((history.len(), history[0].revision.get()), (MAX_CHANGES, MAX_CHANGES as u64 + 5));
        let known = history.iter().take_while(|change| change.diff.is_some()).count();
        assert_eq!(known, history.iter().filter(|change| change.diff.is_some()).count());
        assert_eq!(known, 2);
        record = undone(record);
        assert_eq!(record.text, texts[texts.len() - 2]);
        assert!(record.to_content().is_ok());
    }

    #[test]
    fn a_record_of_control_characters_fits_into_its_document() {
        // The largest text that a store takes.
        let texts = ["\u{1}", "\u{2}"].map(|character| character.repeat(128 << 10));
        let record = record(&[&texts[0], &texts[1]]);
        assert_eq!(record.text, texts[1]);
        assert!(record.to_content().is_ok());
    }

    #[test]
    fn what_is_stored_may_be_nonsense_and_harms_nothing() {
        let back = Back { line: usize::MAX, removed: Vec::new(), added: usize::MAX };
        let entry = Entry { revision: Revision::FIRST, origin: origin(None), back: Some(back) };
        let record = Record { text: "a".into(), changes: vec![entry] };
        assert_eq!(record.before_last(), None);
        assert_eq!(record.history()[0].diff, None);
    }

    proptest! {
        #[test]
        fn every_earlier_text_can_be_found_again(texts in prop::collection::vec("[ab\n]{0,12}", 1..20)) {
            let texts: Vec<_> = texts.iter().map(|text| super::super::update::trim(text)).collect();
            let record = record(&texts);
            let read: Record = serde_json::from_str(record.to_content().expect("it fits").as_str()).expect("JSON");
            let mut text = lines(&read.text);
            for (entry, expected) in read.changes.iter().rev().zip(texts.iter().rev().skip(1).chain([&""])) {
                text = entry.back.as_ref().expect("kept").apply(&text).expect("fits");
                prop_assert_eq!(&text.join("\n"), expected);
            }
        }
    }
}
