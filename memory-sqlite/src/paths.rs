//! The path index: which tokens a row stands under, and which tokens a selector looks up.
//!
//! Each row has one token for its whole id and one for each ancestor, in an FTS5 table without content whose rowids are in
//! the order of time. A token is readable: its kind, the number of boundaries in its path, and the path itself. So the
//! siblings that share a prefix stand side by side in the vocabulary.

use std::fmt::Write as _;

use memory_core::{BOUNDARIES, SpaceId, SpaceRange, Spaces};
use rusqlite::{Connection, OptionalExtension, Result};

use crate::statements;

/// Up to this many siblings of a prefix are merged; above it, what their parent holds is walked.
const MAX_SIBLINGS: usize = 100;

/// The tokens of a row, separated by spaces.
pub(crate) fn tokens_of(space: &SpaceId) -> String {
    let mut tokens = token(Kind::Exact, space.as_str());
    for ancestor in space.ancestors() {
        tokens.push(' ');
        tokens.push_str(&token(Kind::Under, ancestor));
    }
    tokens
}

/// The tokens under which the rows of these spaces are, and perhaps others; `None` when that would be everywhere.
pub(crate) fn tokens_for(connection: &Connection, spaces: &Spaces) -> Result<Option<Vec<String>>> {
    let Spaces::Any(selectors) = spaces else { return Ok(None) };
    let mut tokens = Vec::new();
    for selector in selectors {
        match selector.range() {
            SpaceRange::Nowhere => {}
            SpaceRange::Everywhere => return Ok(None),
            SpaceRange::Exact(path) => tokens.push(token(Kind::Exact, path)),
            SpaceRange::Below(path) => tokens.push(token(Kind::Under, path)),
            SpaceRange::Under(path) => tokens.extend([token(Kind::Exact, path), token(Kind::Under, path)]),
            SpaceRange::Prefix(prefix) => match (siblings(connection, prefix)?, prefix.rfind(BOUNDARIES)) {
                (Some(siblings), _) => tokens.extend(siblings),
                (None, Some(parent)) => tokens.push(token(Kind::Under, &prefix[..parent])),
                (None, None) => return Ok(None),
            },
        }
    }
    tokens.sort_unstable();
    tokens.dedup();
    Ok(Some(tokens))
}

/// The query of FTS5 that finds any of these tokens.
pub(crate) fn match_any(tokens: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted: Vec<_> = tokens.into_iter().map(|token| format!("\"{}\"", token.as_ref())).collect();
    quoted.join(" OR ")
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The whole id.
    Exact,
    /// An ancestor.
    Under,
}

/// One letter for each possible number of boundaries.
const DEPTHS: &[u8; 33] = b"0123456789abcdefghijklmnopqrstuvw";

/// Lower-case letters, digits, `-_./:` and everything beyond ASCII mean themselves in FTS5's ascii tokenizer as the schema
/// sets it up; the rest, which it would fold or split at, is written in hexadecimal.
fn token(kind: Kind, path: &str) -> String {
    let mut token = String::with_capacity(path.len() + 2);
    token.push(match kind {
        Kind::Exact => 'e',
        Kind::Under => 'u',
    });
    // A selector's path may have more boundaries than any id: such a token is found nowhere.
    let depth = path.matches(BOUNDARIES).count().min(DEPTHS.len() - 1);
    token.push(char::from(DEPTHS[depth]));
    for char in path.chars() {
        match char {
            'a'..='z' | '0'..='9' | '-' | '_' | '.' | '/' | ':' | '\u{80}'.. => token.push(char),
            // Writing to a String can't fail.
            ascii => drop(write!(token, "~{:02x}", ascii as u32)),
        }
    }
    token
}

/// The tokens of all paths that start with `prefix` and have no further boundary, or `None` when there are too many.
fn siblings(connection: &Connection, prefix: &str) -> Result<Option<Vec<String>>> {
    let mut next = connection.prepare_cached(statements::NEXT_PATH_TOKEN)?;
    let mut siblings = Vec::new();
    for kind in [Kind::Exact, Kind::Under] {
        let start = token(kind, prefix);
        let mut from = start.clone();
        while let Some(token) = next.query_row([&from], |row| row.get::<_, String>(0)).optional()? {
            if !token.starts_with(&start) {
                break;
            }
            if siblings.len() == MAX_SIBLINGS {
                return Ok(None);
            }
            // The least text that is greater than the token and than no other: no token holds a `!`.
            from = format!("{token}!");
            siblings.push(token);
        }
    }
    Ok(Some(siblings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_id_and_its_ancestors() {
        let space = SpaceId::parse("plugin-A b/é").expect("valid");
        assert_eq!(tokens_of(&space), "e2plugin-~41~20b/é u0plugin u1plugin-~41~20b");
    }

    #[test]
    fn different_paths_have_different_tokens() {
        let paths = ["a", "A", "~41", "~", "~7e41", "a-", "a/", "é", "e\u{301}", " ", ""];
        let tokens: std::collections::BTreeSet<_> = paths.iter().map(|path| token(Kind::Exact, path)).collect();
        assert_eq!(tokens.len(), paths.len());
    }
}
