//! Records in an answer: stored JSON byte for byte; very long values are cut, and a sentence says so.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::page::Selects;
use crate::query::{Documents, Ledger};
use crate::{
    Collection, Content, Document, DocumentId, Error, JsonText, Memory, MemoryId, Metadata, Result, Revision, SpaceId,
    Status, Timestamp,
};

/// Maximum bytes of JSON that one value takes in an answer, so that four of them fit.
const MAX_SHOWN: usize = 15 << 10;
/// JSON that nests deeper than this is shown as text, so that an answer can be embedded in JSON that has a nesting
/// limit.
const MAX_SHOWN_DEPTH: usize = 64;

/// A record in its form for an answer.
#[derive(Debug)]
pub(super) struct Shown {
    /// The record as JSON.
    pub(super) json: Box<RawValue>,
    /// A sentence for each value that is cut or shown as text.
    pub(super) cut: Vec<String>,
}

impl Shown {
    /// Returns the bytes that it takes in an answer.
    pub(super) fn size(&self) -> usize {
        self.json.get().len() + self.cut.iter().map(String::len).sum::<usize>()
    }
}

/// A kind of record that an answer can show.
pub(super) trait Show: Selects {
    /// Converts a record to its form for an answer.
    fn show(record: &Self::Record) -> Result<Shown>;
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownMemory<'a> {
    id: &'a MemoryId,
    space_id: &'a SpaceId,
    status: Status,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    trigger: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Box<RawValue>>,
    metadata: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDocument<'a> {
    id: &'a DocumentId,
    collection: &'a Collection,
    space_id: &'a SpaceId,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    revision: Revision,
    content: &'a str,
    metadata: Box<RawValue>,
}

impl Show for Ledger {
    fn show(memory: &Memory) -> Result<Shown> {
        let mut cuts = Cuts { id: memory.id.to_string(), sentences: Vec::new() };
        let shown = ShownMemory {
            id: &memory.id,
            space_id: &memory.space_id,
            status: memory.status,
            created_at: memory.created_at,
            updated_at: memory.updated_at,
            expires_at: memory.expires_at,
            trigger: cuts.json("trigger", &memory.trigger)?,
            context: memory.context.as_ref().map(|context| cuts.json("context", context)).transpose()?,
            metadata: cuts.metadata(&memory.metadata)?,
        };
        Ok(Shown { json: to_raw_value(&shown).map_err(unexpected)?, cut: cuts.sentences })
    }
}

impl Show for Documents {
    fn show(document: &Document) -> Result<Shown> {
        let mut cuts = Cuts { id: document.id.to_string(), sentences: Vec::new() };
        let shown = ShownDocument {
            id: &document.id,
            collection: &document.collection,
            space_id: &document.space_id,
            created_at: document.created_at,
            updated_at: document.updated_at,
            expires_at: document.expires_at,
            revision: document.revision,
            content: cuts.content(&document.content),
            metadata: cuts.metadata(&document.metadata)?,
        };
        Ok(Shown { json: to_raw_value(&shown).map_err(unexpected)?, cut: cuts.sentences })
    }
}

/// The sentences about one record's cut values.
struct Cuts {
    id: String,
    sentences: Vec<String>,
}

impl Cuts {
    fn content<'a>(&mut self, content: &'a Content) -> &'a str {
        self.start("content", "is cut", content.as_str())
    }

    fn json<const MAX: usize>(&mut self, name: &str, json: &JsonText<MAX>) -> Result<Box<RawValue>> {
        self.raw(name, json.as_str(), json.depth() > MAX_SHOWN_DEPTH)
    }

    fn metadata(&mut self, metadata: &Metadata) -> Result<Box<RawValue>> {
        self.raw("metadata", metadata.as_str(), false)
    }

    fn raw(&mut self, name: &str, json: &str, is_too_deep: bool) -> Result<Box<RawValue>> {
        if json.len() <= MAX_SHOWN && !is_too_deep {
            return RawValue::from_string(json.to_owned()).map_err(unexpected);
        }
        let start = self.start(name, "is shown as text, cut", json);
        if start.len() == json.len() {
            self.sentences.push(format!("{}: {name} nests too deep and is shown as text", self.id));
        }
        to_raw_value(start).map_err(unexpected)
    }

    /// Returns the longest prefix that fits as a JSON string.
    fn start<'a>(&mut self, name: &str, what: &str, text: &'a str) -> &'a str {
        let mut bytes = 2;
        let end = text.char_indices().find_map(|(at, character)| {
            bytes += escaped_len(character);
            (bytes > MAX_SHOWN).then_some(at)
        });
        let Some(end) = end else { return text };
        self.sentences.push(format!("{}: {name} {what} to its first {end} of {} bytes", self.id, text.len()));
        &text[..end]
    }
}

/// Returns the bytes that a character takes in a JSON string.
fn escaped_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '\0'..'\u{20}' => 6,
        other => other.len_utf8(),
    }
}

fn unexpected(error: serde_json::Error) -> Error {
    Error::new(crate::ErrorKind::Unexpected, "a record can't be written as JSON").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, NewMemory, Trigger};

    fn document(content: &str) -> Document {
        Document {
            id: DocumentId::parse("a").expect("valid"),
            collection: Collection::parse("notes").expect("valid"),
            space_id: SpaceId::parse("x").expect("valid"),
            content: Content::parse(content).expect("valid"),
            metadata: Metadata::default(),
            created_at: Timestamp::MIN,
            updated_at: None,
            revision: Revision::FIRST,
            expires_at: None,
        }
    }

    #[test]
    fn a_record_keeps_its_bytes() {
        let trigger = Trigger::parse(r#"{"b":1.50,"a":"\u00e9","b":1e400}"#).expect("valid");
        let memory = NewMemory::new(SpaceId::parse("x").expect("valid"), trigger, Timestamp::MIN)
            .with_context(Context::parse("null").expect("valid"))
            .into_memory(MemoryId::from_bytes([1; 16]));
        let shown = Ledger::show(&memory).expect("shown");
        assert!(
            shown.json.get().contains(r#""trigger":{"b":1.50,"a":"\u00e9","b":1e400},"context":null"#),
            "{shown:?}"
        );
        assert!(shown.cut.is_empty());
    }

    #[test]
    fn long_values_are_cut_and_said_to_be() {
        for content in ["x".repeat(1 << 20), "é".repeat(20_000), "\u{1}".repeat(20_000), "\"".repeat(20_000)] {
            let shown = Documents::show(&document(&content)).expect("shown");
            assert!((MAX_SHOWN - 6..MAX_SHOWN + 200).contains(&shown.json.get().len()));
            let (_, said) = shown.cut[0].split_once("a: content is cut to its first ").expect("a sentence");
            assert!(said.ends_with(&format!(" of {} bytes", content.len())), "{said}");
        }
        let fits = "x".repeat(MAX_SHOWN - 2);
        assert!(Documents::show(&document(&fits)).expect("shown").cut.is_empty());
    }

    #[test]
    fn deep_values_are_shown_as_text() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let shown = |depth: usize| {
            let (space, trigger) =
                (SpaceId::parse("x").expect("valid"), Trigger::parse(&nested(depth)).expect("valid"));
            let memory = NewMemory::new(space, trigger, Timestamp::MIN).into_memory(MemoryId::from_bytes([1; 16]));
            Ledger::show(&memory).expect("shown")
        };
        assert!(shown(MAX_SHOWN_DEPTH).cut.is_empty());
        let deep = shown(MAX_SHOWN_DEPTH + 1);
        assert!(deep.json.get().contains(&format!(r#""trigger":"{}""#, nested(MAX_SHOWN_DEPTH + 1))));
        assert!(deep.cut[0].ends_with("trigger nests too deep and is shown as text"));
    }
}
