//! Updates, and what they do to a text.

use std::fmt;

use memory_core::{Error, Result, Revision};
use serde::{Deserialize, Serialize};

use super::Flags;

/// The most updates of one sync.
pub const MAX_UPDATES: usize = 1_000;

/// Which text an update is about. In the order of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryStore {
    /// Who the human is. Shown first.
    User,
    /// The rolling context of the project.
    Memory,
}

impl MemoryStore {
    /// `user` or `memory`.
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

/// What an update does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Puts the content behind the text, after an empty line.
    Add,
    /// Puts the content in the place of the text.
    Replace,
    /// Takes every line out that holds `substring_match`, byte for byte. Without one, or with an empty one, nothing.
    Remove,
}

/// One change that an agent decided on. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryUpdate {
    /// The text it is about.
    pub store: MemoryStore,
    /// What it does.
    pub action: Action,
    /// What `Add` and `Replace` put there; white space around it is left out.
    #[serde(default)]
    pub content: String,
    /// What `Remove` looks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substring_match: Option<String>,
}

impl MemoryUpdate {
    /// An [`Action::Add`].
    pub fn add(store: MemoryStore, content: impl Into<String>) -> Self {
        Self { store, action: Action::Add, content: content.into(), substring_match: None }
    }

    /// An [`Action::Replace`].
    pub fn replace(store: MemoryStore, content: impl Into<String>) -> Self {
        Self { store, action: Action::Replace, content: content.into(), substring_match: None }
    }

    /// An [`Action::Remove`].
    pub fn remove(store: MemoryStore, substring_match: impl Into<String>) -> Self {
        let substring_match = Some(substring_match.into());
        Self { store, action: Action::Remove, content: String::new(), substring_match }
    }

    /// What a model wants, in its words: `store` is `user` or `memory`, and the latter where it is empty; `change` is `add`, `replace`
    /// or `remove`, and `add` where it is empty.
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

    /// `TooLarge` over `max` bytes, `InvalidInput` with U+0000.
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

    /// The text after this update, and in how many lines a removal found what it looked for.
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

/// What a model has to say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unclear {
    /// What it said it in.
    pub(crate) field: &'static str,
    /// What that should be.
    pub(crate) expected: &'static str,
}

impl fmt::Debug for MemoryUpdate {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.content.len() + self.substring_match.as_ref().map_or(0, String::len);
        write!(f, "MemoryUpdate({:?} {:?}, {size} bytes)", self.store, self.action)
    }
}

/// What became of a batch: one report for each update, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SyncReport {
    /// As many as there were updates.
    pub updates: Vec<UpdateReport>,
}

/// What became of one update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateReport {
    /// The store that it was about.
    pub store: MemoryStore,
    /// In how many lines a removal found what it looked for.
    pub matched_lines: usize,
    /// Whether the text is another one now.
    pub changed: bool,
    /// Whether the batch had been applied before, under the same key. It is not applied again.
    pub repeated: bool,
    /// The revision of the store after the batch, or when it was applied first; `None` when nothing was ever kept there.
    pub revision: Option<Revision>,
    /// Characters of the update that a reader does not see.
    pub flags: Flags,
}

/// Without the white space around it. A byte order mark counts as such, as it does where the rule comes from.
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
