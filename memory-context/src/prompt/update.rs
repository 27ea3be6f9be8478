//! Updates of prompt memory.

use std::fmt;

use memory_core::{Error, Result, Revision};
use serde::{Deserialize, Serialize};

use super::Flags;

/// The most updates of one sync.
pub const MAX_UPDATES: usize = 1_000;

/// A store of prompt memory, in the order of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryStore {
    /// The profile of the user; shown first.
    User,
    /// The rolling context of the project.
    Memory,
}

impl MemoryStore {
    /// The name: `user` or `memory`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Appends the content after an empty line.
    Add,
    /// Replaces the whole text with the content.
    Replace,
    /// Removes every line that holds `substring_match`, byte for byte. If that is missing or empty, nothing is removed.
    Remove,
}

/// An update that an agent decided on. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryUpdate {
    /// The store to change.
    pub store: MemoryStore,
    /// The kind of the update.
    pub action: Action,
    /// The text that `Add` and `Replace` write; white space around it is trimmed.
    #[serde(default)]
    pub content: String,
    /// The text by which `Remove` finds lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substring_match: Option<String>,
}

impl MemoryUpdate {
    /// Makes an [`Action::Add`].
    pub fn add(store: MemoryStore, content: impl Into<String>) -> Self {
        Self { store, action: Action::Add, content: content.into(), substring_match: None }
    }

    /// Makes an [`Action::Replace`].
    pub fn replace(store: MemoryStore, content: impl Into<String>) -> Self {
        Self { store, action: Action::Replace, content: content.into(), substring_match: None }
    }

    /// Makes an [`Action::Remove`].
    pub fn remove(store: MemoryStore, substring_match: impl Into<String>) -> Self {
        let substring_match = Some(substring_match.into());
        Self { store, action: Action::Remove, content: String::new(), substring_match }
    }

    /// Parses the words of a model: `store` is `user` or `memory`, by default `memory`; `change` is `add`, `replace` or `remove`, by
    /// default `add`.
    pub(crate) fn of_words(store: &str, change: &str, text: &str, matched: &str) -> Result<Self, Unclear> {
        let store = match store.to_ascii_lowercase().as_str() {
            "user" => MemoryStore::User,
            "memory" | "" => MemoryStore::Memory,
            _ => return Err(Unclear { field: "store", expected: "user or memory" }),
        };
        match change.to_ascii_lowercase().as_str() {
            "add" | "replace" | "" if text.is_empty() => Err(Unclear { field: "text", expected: "what to keep" }),
            "remove" if matched.is_empty() => {
                Err(Unclear { field: "match", expected: "a part of the lines to remove" })
            }
            "add" | "" => Ok(Self::add(store, text)),
            "replace" => Ok(Self::replace(store, text)),
            "remove" => Ok(Self::remove(store, matched)),
            _ => Err(Unclear { field: "change", expected: "add, replace or remove" }),
        }
    }

    /// Fails with `TooLarge` over `max` bytes, and with `InvalidInput` if it holds U+0000.
    pub(super) fn check(&self, max: usize) -> Result<()> {
        for text in [&self.content, self.substring_match.as_ref().unwrap_or(&String::new())] {
            if text.len() > max {
                return Err(Error::too_large(format!("an update of {} bytes; at most {max} are allowed", text.len())));
            }
            if text.contains('\0') {
                return Err(Error::invalid("an update must not hold U+0000"));
            }
        }
        Ok(())
    }

    /// Returns the text after this update, and the number of lines that a removal has matched.
    pub(super) fn apply(&self, text: &str) -> (String, usize) {
        let content = trim(&self.content);
        match (self.action, self.substring_match.as_deref()) {
            (Action::Add, _) if content.is_empty() => (text.to_owned(), 0),
            (Action::Add, _) if text.is_empty() => (content.to_owned(), 0),
            (Action::Add, _) => (format!("{text}\n\n{content}"), 0),
            (Action::Replace, _) => (content.to_owned(), 0),
            (Action::Remove, None | Some("")) => (text.to_owned(), 0),
            (Action::Remove, Some(needle)) => {
                let (found, kept): (Vec<_>, Vec<_>) = text.split('\n').partition(|line| line.contains(needle));
                (trim(&kept.join("\n")).to_owned(), found.len())
            }
        }
    }
}

/// A field that a model must correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unclear {
    /// The name of the field.
    pub(crate) field: &'static str,
    /// What the field should hold.
    pub(crate) expected: &'static str,
}

impl fmt::Debug for MemoryUpdate {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.content.len() + self.substring_match.as_ref().map_or(0, String::len);
        write!(f, "MemoryUpdate({:?} {:?}, {size} bytes)", self.store, self.action)
    }
}

/// The result of a batch: one report per update, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SyncReport {
    /// One report per update, in their order.
    pub updates: Vec<UpdateReport>,
}

/// The result of one update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateReport {
    /// The store of the update.
    pub store: MemoryStore,
    /// The number of lines that a removal has matched.
    pub matched_lines: usize,
    /// Whether the text has changed.
    pub changed: bool,
    /// Whether the batch was applied before under the same key, so that it was not applied again.
    pub repeated: bool,
    /// The revision of the store after the batch, or, if the batch was applied before, after its first application. `None` if the store was
    /// never written, and always for a [`MarkdownMemory`](super::MarkdownMemory), which has no revisions.
    pub revision: Option<Revision>,
    /// The invisible characters in the update.
    pub flags: Flags,
}

/// Trims white space. A byte order mark counts as white space, as it does for `trim` in JavaScript.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || character == '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryStore::Memory;

    fn applied(text: &str, update: MemoryUpdate) -> (String, usize) {
        update.apply(text)
    }

    #[test]
    fn add_leaves_an_empty_line_between() {
        assert_eq!(applied("", MemoryUpdate::add(Memory, " a\n")), ("a".into(), 0));
        assert_eq!(applied("a", MemoryUpdate::add(Memory, "\n\nb\nc ")), ("a\n\nb\nc".into(), 0));
        assert_eq!(applied("a", MemoryUpdate::add(Memory, " \u{feff}\n")), ("a".into(), 0));
    }

    #[test]
    fn replace_takes_the_place() {
        assert_eq!(applied("a", MemoryUpdate::replace(Memory, "\u{a0}b ")), ("b".into(), 0));
        assert_eq!(applied("a", MemoryUpdate::replace(Memory, "  ")), (String::new(), 0));
    }

    #[test]
    fn remove_takes_whole_lines() {
        let text = "one\n\nTwo\nthree % _ .*\n\nfour";
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, "o")), ("three % _ .*".into(), 3));
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, "two")).1, 0, "letter case matters");
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, "%")).0, "one\n\nTwo\n\nfour");
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, ".*")).1, 1, "it is no pattern");
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, "one\n\nTwo")).1, 0, "it is looked for in single lines");
        assert_eq!(applied(text, MemoryUpdate::remove(Memory, "")), (text.into(), 0));
        let without = MemoryUpdate { substring_match: None, content: "one".into(), ..MemoryUpdate::remove(Memory, "") };
        assert_eq!(applied(text, without), (text.into(), 0), "the content is not what is looked for");
    }

    #[test]
    fn json_is_that_of_the_interface() {
        let json = r#"{"store":"memory","action":"remove","content":"","substringMatch":"first"}"#;
        let update: MemoryUpdate = serde_json::from_str(json).expect("an update");
        assert_eq!(update, MemoryUpdate::remove(Memory, "first"));
        assert_eq!(serde_json::to_string(&update).expect("JSON"), json);
        assert_eq!(format!("{update:?}"), "MemoryUpdate(Memory Remove, 5 bytes)");
        assert!(serde_json::from_str::<MemoryUpdate>(r#"{"store":"team","action":"add","content":"x"}"#).is_err());
    }
}
