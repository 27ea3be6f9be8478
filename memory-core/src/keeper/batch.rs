//! A batch of texts to embed together.

use std::collections::BTreeMap;

use super::own::is_own;
use crate::{
    Change, ChangeKind, Collection, Document, DocumentId, Memory, Record, RecordId, Revision, TextHash, words,
};

/// The changes of a batch, reduced to what must be embedded.
#[derive(Default)]
pub(super) struct Batch {
    /// The latest text of each record.
    pub(super) texts: BTreeMap<RecordId, Text>,
    /// Total bytes of these texts.
    pub(super) bytes: usize,
    /// Number of changes, without those of the keepers' own documents.
    pub(super) seen: usize,
    /// The token of the last change.
    pub(super) token: Option<String>,
    /// Documents of keepers that were removed.
    pub(super) own_gone: Vec<DocumentId>,
    /// Whether the watch has reached the end of the feed.
    pub(super) is_reached: bool,
    /// Whether the watch reported that nothing else is ready.
    pub(super) is_pause: bool,
}

/// A text to embed.
pub(super) struct Text {
    pub(super) record: RecordId,
    pub(super) revision: Revision,
    pub(super) texts: TextHash,
    pub(super) text: String,
}

impl Batch {
    pub(super) fn add(&mut self, change: Change, max_text: usize, embeds: impl Fn(&Collection) -> bool) {
        self.token = Some(change.token.to_string());
        match change.kind {
            ChangeKind::Stored(record) | ChangeKind::Updated(record) => self.add_record(&record, max_text, embeds),
            ChangeKind::Removed(id) | ChangeKind::Erased(id) | ChangeKind::Left(id) => {
                self.take(&id);
                self.count(&id);
                if is_own(&id)
                    && let RecordId::Document { id, .. } = id
                {
                    self.own_gone.push(id);
                }
            }
            // The feed delivers it again when it can be read.
            ChangeKind::Unreadable(_) => self.seen += 1,
            ChangeKind::Progress => self.is_pause = true,
            ChangeKind::Reached => (self.is_pause, self.is_reached) = (true, true),
        }
    }

    fn add_record(&mut self, record: &Record, max_text: usize, embeds: impl Fn(&Collection) -> bool) {
        let id = record.id();
        self.take(&id);
        self.count(&id);
        let text = match record {
            Record::Memory(memory) => Text::of_memory(memory, max_text),
            Record::Document(document) if embeds(&document.collection) => Text::of_document(document, max_text),
            Record::Document(_) => None,
        };
        if let Some(text) = text {
            self.bytes += text.text.len();
            self.texts.insert(id, text);
        }
    }

    fn take(&mut self, id: &RecordId) {
        if let Some(earlier) = self.texts.remove(id) {
            self.bytes -= earlier.text.len();
        }
    }

    fn count(&mut self, id: &RecordId) {
        self.seen += usize::from(!is_own(id));
    }
}

impl Text {
    /// Returns the text of a memory, cut to `max_text` bytes; `None` if it is blank.
    pub(super) fn of_memory(memory: &Memory, max_text: usize) -> Option<Self> {
        let text = words::text_of(&memory.trigger, memory.context.as_ref());
        Self::of(memory.id.into(), memory.revision, memory.into(), &text, max_text)
    }

    /// Returns the text of a document, cut to `max_text` bytes; `None` if it is blank.
    pub(super) fn of_document(document: &Document, max_text: usize) -> Option<Self> {
        Self::of(document.into(), document.revision, document.into(), document.content.as_str(), max_text)
    }

    fn of(record: RecordId, revision: Revision, texts: TextHash, text: &str, max_text: usize) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(max_text)];
        (!text.trim().is_empty()).then(|| Self { record, revision, texts, text: text.to_owned() })
    }
}
