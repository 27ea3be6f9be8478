//! The fields that a filter can name (F1).

use std::fmt;

/// A field of a memory or of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// `id`, a string; a memory's id is in lower case.
    Id,
    /// `spaceId`, a string.
    SpaceId,
    /// `createdAt`, a number: milliseconds since 1970.
    CreatedAt,
    /// `updatedAt`, a number: milliseconds since 1970; null before the first update.
    UpdatedAt,
    /// `status` of a memory, a string.
    Status,
    /// `text`, a string: all string values of trigger and context, joined by line breaks, or the content of a document.
    Text,
    /// `content` of a document, a string.
    Content,
    /// `metadata.<path>`: the keys of nested objects, outermost first.
    Metadata(Vec<String>),
}

impl Field {
    /// The fields written as a single word.
    pub(super) const PLAIN: [(&'static str, Self); 7] = [
        ("id", Self::Id),
        ("spaceId", Self::SpaceId),
        ("createdAt", Self::CreatedAt),
        ("updatedAt", Self::UpdatedAt),
        ("status", Self::Status),
        ("text", Self::Text),
        ("content", Self::Content),
    ];
    /// The word that starts a path into the metadata.
    pub(super) const METADATA: &'static str = "metadata";

    /// Makes a field from a path of metadata keys; any text may be a key.
    pub fn metadata(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Metadata(keys.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Metadata(keys) = self {
            f.write_str(Self::METADATA)?;
            return keys.iter().try_for_each(|key| {
                if is_plain(key) { write!(f, ".{key}") } else { write!(f, ".\"{}\"", key.replace('"', "\"\"")) }
            });
        }
        let name = Self::PLAIN.iter().find(|(_, field)| field == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// Returns whether a key needs no quotes.
fn is_plain(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
