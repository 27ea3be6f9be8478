//! The fields that a filter knows (F1).

use std::fmt;

/// A field of a memory or of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// `id`, a string; that of a memory has its letters in lower case.
    Id,
    /// `spaceId`, a string.
    SpaceId,
    /// `createdAt`, a number.
    CreatedAt,
    /// `updatedAt`, a number; null when there was no update.
    UpdatedAt,
    /// `status` of a memory, a string.
    Status,
    /// `text`, a string: all string values of trigger and context, one a line, or the content of a document.
    Text,
    /// `content` of a document, a string.
    Content,
    /// `metadata.<path>`: the keys that lead into the metadata, through objects.
    Metadata(Vec<String>),
}

impl Field {
    /// The fields that are a single word.
    pub(super) const PLAIN: [(&'static str, Self); 7] = [
        ("id", Self::Id),
        ("spaceId", Self::SpaceId),
        ("createdAt", Self::CreatedAt),
        ("updatedAt", Self::UpdatedAt),
        ("status", Self::Status),
        ("text", Self::Text),
        ("content", Self::Content),
    ];
    /// What a path into the metadata starts with.
    pub(super) const METADATA: &'static str = "metadata";

    /// The field of the metadata that these keys lead to; any text is a key.
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

/// Whether a key goes without quotes.
fn is_plain(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
