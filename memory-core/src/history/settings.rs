//! The history settings of a program.

use std::str::FromStr;
use std::sync::Arc;

use crate::engine::parameter;
use crate::{Error, Json, JsonObject, Metadata, Result};

/// A program's settings for the history of a namespace (H6, H8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistorySettings {
    /// Whether the namespace keeps a history. The first program that opens the namespace decides for good; `None` then
    /// means yes. Later `None` accepts that decision, and any other value must agree with it, else `SchemaMismatch`.
    pub is_kept: Option<bool>,
    /// Members of the metadata of memories that are left out of versions.
    pub transient: TransientKeys,
}

/// Members of the metadata of memories that change often and have no lasting meaning, such as until when a task is
/// leased. An update that changes nothing else leaves no version (H8).
///
/// ```
/// let keys: memory_core::TransientKeys = "task.leaseUntil".parse()?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransientKeys(Arc<[Vec<String>]>);

impl HistorySettings {
    /// Sets a URL parameter: `history` (`all` or `none`) or `transient`. Returns `false` if it is neither.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match (name, value) {
            ("history", "all") => self.is_kept = Some(true),
            ("history", "none") => self.is_kept = Some(false),
            ("history", _) => return Err(Error::invalid("history must be all or none")),
            ("transient", _) => self.transient = parameter(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl TransientKeys {
    /// Makes keys from paths, each from the outermost member to the innermost. `InvalidInput` for an empty path.
    pub fn new<K: Into<String>>(paths: impl IntoIterator<Item = impl IntoIterator<Item = K>>) -> Result<Self> {
        let path = |path: Vec<String>| match path.is_empty() {
            true => Err(Error::invalid("a transient key has an empty path")),
            false => Ok(path),
        };
        let paths = paths.into_iter().map(|keys| path(keys.into_iter().map(Into::into).collect()));
        paths.collect::<Result<Vec<_>>>().map(|paths| Self(paths.into()))
    }

    /// Returns whether no key is transient.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes these members, and objects that then hold nothing else.
    pub(crate) fn strip(&self, metadata: &Metadata) -> Result<Metadata> {
        if self.is_empty() {
            return Ok(metadata.clone());
        }
        let mut object = metadata.to_object();
        self.0.iter().for_each(|path| remove(&mut object, path));
        Metadata::from_object(&object)
    }
}

impl FromStr for TransientKeys {
    type Err = Error;

    /// Parses keys separated by commas, each a path of members separated by dots.
    fn from_str(text: &str) -> Result<Self> {
        if text.split([',', '.']).any(str::is_empty) {
            return Err(Error::invalid("transient keys are written as key.key,key"));
        }
        Self::new(text.split(',').map(|path| path.split('.')))
    }
}

fn remove(object: &mut JsonObject, path: &[String]) {
    match path {
        [] => {}
        [key] => drop(object.remove(key)),
        [key, rest @ ..] => {
            if let Some(Json::Object(inner)) = object.get_mut(key)
                && !inner.is_empty()
            {
                remove(inner, rest);
                if inner.is_empty() {
                    object.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_at_paths_are_left_out() {
        let keys: TransientKeys = "task.leaseUntil,seen".parse().expect("keys");
        for (metadata, left) in [
            (r#"{"seen":1,"task":{"holder":"a","leaseUntil":7}}"#, r#"{"task":{"holder":"a"}}"#),
            (r#"{"leaseUntil":7,"task":{"leaseUntil":{"leaseUntil":1}}}"#, r#"{"leaseUntil":7}"#),
            (r#"{"task":{}}"#, r#"{"task":{}}"#),
            (r#"{"task":[{"leaseUntil":7}],"unseen":1.0}"#, r#"{"task":[{"leaseUntil":7}],"unseen":1.0}"#),
        ] {
            let metadata: Metadata = metadata.parse().expect("metadata");
            assert_eq!(keys.strip(&metadata).expect("metadata").as_str(), left);
            assert_eq!(TransientKeys::default().strip(&metadata).expect("metadata"), metadata);
        }
    }

    #[test]
    fn what_names_no_member_is_refused() {
        for text in ["", ",", "a,", "a..b", "a.", ".a"] {
            assert!(text.parse::<TransientKeys>().is_err(), "{text:?}");
        }
        assert!(TransientKeys::new([[""; 0]]).is_err());
    }

    #[test]
    fn a_url_says_whether_there_is_a_history() {
        let mut settings = HistorySettings::default();
        for (name, value, is_kept) in [("history", "none", Some(false)), ("history", "all", Some(true))] {
            assert!(settings.set(name, value).expect("a setting"));
            assert_eq!(settings.is_kept, is_kept);
        }
        assert!(settings.set("transient", "a.b").expect("a setting"));
        assert_eq!(settings.transient, "a.b".parse().expect("keys"));
        assert!(settings.set("history", "some").is_err() && settings.set("transient", "").is_err());
        assert!(!settings.set("language", "none").expect("another setting"));
    }
}
