//! Identifiers: each is a type of its own, and rejects values that the contract forbids.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Error, Result, Timestamp};

/// The id of a memory: any UUID. A provider makes it of version 7, ascending within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemoryId(Uuid);

impl MemoryId {
    /// Returns a new id, greater than all that this process made before.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Parses the form with 36 characters, of any UUID version, in lower or upper case; every other form is
    /// `InvalidInput`. Output is always lower case, which is also what a filter compares (F1).
    pub fn parse(id: &str) -> Result<Self> {
        match Uuid::try_parse(id) {
            Ok(uuid) if id.len() == 36 => Ok(Self(uuid)),
            _ => Err(Error::invalid("a memory id must be a UUID of 36 characters")),
        }
    }

    /// Returns when the id was made, by the clock of the machine that made it; `None` unless it is of version 7.
    pub fn made_at(&self) -> Option<Timestamp> {
        let made_at = self.0.get_timestamp().filter(|_| self.0.get_version_num() == 7)?;
        let (seconds, nanos) = made_at.to_unix();
        let millis = i64::try_from(seconds).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos) / 1_000_000)?;
        Timestamp::from_millis(millis).ok()
    }

    /// Makes an id from its 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the 16 bytes, by which ids are ordered.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryId({self})")
    }
}

impl std::str::FromStr for MemoryId {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self> {
        Self::parse(id)
    }
}

impl TryFrom<String> for MemoryId {
    type Error = Error;

    fn try_from(id: String) -> Result<Self> {
        Self::parse(&id)
    }
}

impl From<MemoryId> for String {
    fn from(id: MemoryId) -> Self {
        id.to_string()
    }
}

/// Defines a string type that is checked once, at construction. Arguments: its docs, its name, and the check.
macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks the text: `InvalidInput` if it breaks a rule, `TooLarge` if it is over a limit.
            pub fn parse(text: impl AsRef<str>) -> $crate::Result<Self> {
                let text = text.as_ref();
                $check(text)?;
                Ok(Self(text.into()))
            }

            /// Returns the text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Error;

            fn try_from(text: String) -> $crate::Result<Self> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0.as_ref().to_owned()
            }
        }
    };
}
pub(crate) use checked_string;

checked_string! {
    /// The id of a document, unique in its collection: 1 to 256 bytes without control characters, chosen by the caller
    /// or made by the provider.
    DocumentId, |text| check_text("a document id", text, 256)
}

checked_string! {
    /// The name of a collection of documents: 1 to 64 bytes of `[a-z0-9_-]`. Names that begin with `_` are reserved for
    /// the host.
    Collection, |text: &str| {
        check_text("a collection name", text, 64)?;
        if text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')) {
            Ok(())
        } else {
            Err(Error::invalid("a collection name must hold only a-z, 0-9, _ and -"))
        }
    }
}

checked_string! {
    /// The key by which a repeated `store` finds the memory of the first one (W3): 1 to 256 bytes without control
    /// characters.
    IdempotencyKey, |text| check_text("an idempotency key", text, 256)
}

impl Collection {
    /// Returns whether the collection is reserved for the host: no plugin reaches it, whatever its scope allows.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with('_')
    }
}

impl DocumentId {
    /// Returns a new id, greater than all that this process made before.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string().into())
    }
}

pub(crate) fn check_text(what: &str, text: &str, limit: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    if text.len() > limit {
        return Err(Error::too_large(format!("{what} of {} bytes; at most {limit} are allowed", text.len())));
    }
    if text.contains(char::is_control) {
        return Err(Error::invalid(format!("{what} must not hold control characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_memory_id_is_written_in_one_way() {
        let id = MemoryId::generate();
        assert_eq!(MemoryId::parse(&id.to_string()).ok(), Some(id));
        let id = MemoryId::from_bytes([0xAB; 16]);
        assert_eq!(id.to_string(), "abababab-abab-abab-abab-abababababab");
        assert_eq!(MemoryId::parse(&id.to_string().to_uppercase()).ok(), Some(id));
        let simple = id.to_string().replace('-', "");
        for text in
            ["", &simple, &format!("{{{id}}}"), &format!("urn:uuid:{id}"), "zzzzzzzz-0000-0000-0000-000000000000"]
        {
            assert_eq!(MemoryId::parse(text).map_err(|error| error.kind()), Err(ErrorKind::InvalidInput), "{text}");
        }
    }

    #[test]
    fn generated_ids_ascend() {
        let ids: Vec<_> = (0..1000).map(|_| MemoryId::generate()).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn strings_are_checked_at_their_limits() {
        assert!(DocumentId::parse("é".repeat(128)).is_ok());
        assert_eq!(DocumentId::parse("x".repeat(257)).map_err(|e| e.kind()), Err(ErrorKind::TooLarge));
        assert_eq!(IdempotencyKey::parse("a\u{85}").map_err(|e| e.kind()), Err(ErrorKind::InvalidInput));
        assert!(Collection::parse("notes_2-x").is_ok_and(|notes| !notes.is_reserved()));
        assert!(Collection::parse("_prompt").is_ok_and(|prompt| prompt.is_reserved()));
        for name in ["", "Notes", "a b", "é", "a/b"] {
            assert_eq!(Collection::parse(name).map_err(|e| e.kind()), Err(ErrorKind::InvalidInput), "{name}");
        }
    }
}
