//! The path index: which tokens a row stands under, and which tokens a selector looks up.
//!
//! Each row has one token for its whole id and one for each ancestor, in an FTS5 table without content whose rowids are in
//! the order of time. A token is readable: its kind, the number of boundaries in its path, and the path itself. So the
//! siblings that share a prefix stand side by side in the vocabulary.
//!
//! From one token FTS5 finds the next by reading through the list of the first, which may be that of half of the ledger. So some
//! rows have a marker behind each of their tokens, with a short list of its own, at which the search can begin.

use std::fmt::Write as _;

use memory_core::{BOUNDARIES, Memory, SpaceRange, Spaces};
use rusqlite::{Connection, OptionalExtension, Result};

use crate::statements;

/// Up to this many siblings of a prefix are merged; above it, what their parent holds is walked.
const MAX_SIBLINGS: usize = 100;
/// Of so many rows one has markers: a list without one has few pages then, and so has that of a marker.
const MARKED: u16 = 1_024;
/// What a marker has behind its token. A boundary, which no token has beyond those that it counts; and what goes on with any other
/// character comes later in the vocabulary.
const MARKER: char = '-';

/// The tokens of a row, separated by spaces.
pub(crate) fn tokens_of(memory: &Memory) -> String {
    let under = memory.space_id.ancestors().map(|ancestor| token(Kind::Under, ancestor));
    let mut tokens: Vec<_> = std::iter::once(token(Kind::Exact, memory.space_id.as_str())).chain(under).collect();
    // The last bytes of an id are random.
    let [.., first, second] = *memory.id.as_bytes();
    if u16::from_be_bytes([first, second]).is_multiple_of(MARKED) {
        let markers: Vec<_> = tokens.iter().map(|token| format!("{token}{MARKER}")).collect();
        tokens.extend(markers);
    }
    tokens.join(" ")
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
            // The least text that is greater than the token and its marker, and than no other: no token holds a `!`.
            from = format!("{token}{MARKER}!");
            siblings.push(token);
        }
    }
    Ok(Some(siblings))
}

#[cfg(test)]
mod tests {
    use memory_core::{MemoryId, NewMemory, SpaceId, Timestamp, Trigger};

    use super::*;

    fn memory(id: u128, space: &str) -> Memory {
        let trigger = Trigger::parse("1").expect("valid");
        let memory = NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, Timestamp::MIN);
        memory.into_memory(MemoryId::from_bytes(id.to_be_bytes()))
    }

    #[test]
    fn tokens_are_the_id_and_its_ancestors() {
        assert_eq!(tokens_of(&memory(1, "plugin-A b/é")), "e2plugin-~41~20b/é u0plugin u1plugin-~41~20b");
        assert_eq!(tokens_of(&memory(0, "a-b")), "e1a-b u0a e1a-b- u0a-");
    }

    #[test]
    fn the_search_for_a_sibling_does_not_read_through_the_list_of_another() {
        let connection = Connection::open_in_memory().expect("a database");
        let schema = migrations::sqlite()[0].text;
        connection.execute_batch(schema).expect("the schema");
        connection.execute_batch("BEGIN").expect("a transaction");
        let mut insert = connection.prepare(statements::INSERT_PATHS).expect("a statement");
        for number in 0..50_000_i64 {
            let space = if number < 49_999 { "a-b" } else { "a-c" };
            let slot = number << statements::SLOT_BITS;
            insert.execute((slot, tokens_of(&memory(number as u128, space)))).expect("inserts");
        }
        connection
            .execute_batch("COMMIT; INSERT INTO memory_paths (memory_paths) VALUES ('optimize')")
            .expect("one part");
        // The vocabulary has an entry for each page that begins with a token; FTS5 looks for the last that is not greater.
        let page =
            "SELECT pgno >> 1 FROM memory_paths_idx WHERE term <= CAST('0' || ?1 AS BLOB) ORDER BY term DESC LIMIT 1";
        let page = |token: &str| connection.query_row(page, [token], |row| row.get::<_, i64>(0)).expect("a page");
        let [first, begin, next] = ["e1a-b", "e1a-b-!", "e1a-c"].map(page);
        assert!(next - first > 30, "a long list has {first} to {next}");
        assert!(next - begin < 3, "the search begins at {begin} for {next}");
        assert_eq!(siblings(&connection, "a-").expect("reads").expect("few"), ["e1a-b", "e1a-c"]);
    }

    #[test]
    fn different_paths_have_different_tokens() {
        let paths = ["a", "A", "~41", "~", "~7e41", "a-", "a/", "é", "e\u{301}", " ", ""];
        let tokens: std::collections::BTreeSet<_> = paths.iter().map(|path| token(Kind::Exact, path)).collect();
        assert_eq!(tokens.len(), paths.len());
    }
}
