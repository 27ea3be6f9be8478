//! The path index: the tokens of each row, and the tokens that a selector looks up.
//!
//! Each row has one token for its whole id and one for each ancestor, in a contentless FTS5 table whose rowids are in
//! the order of time. A token is readable: its kind, the number of boundaries in its path, and the path itself. So
//! siblings that share a prefix are adjacent in the vocabulary.
//!
//! To get from one token to the next, FTS5 reads the whole list of the first one, which may cover half of the ledger.
//! So some rows have a marker after each of their tokens, with a short list of its own, where the search can begin.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use memory_core::engine::Place;
use memory_core::{BOUNDARIES, Collection, Error, Memory, MemoryId, Result, SpaceId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::error::native;
use crate::statements::{self, bytes, column, execute, first, prepare, text};

/// One row in this many has markers: a list without a marker is then short, and so is the list of a marker.
const MARKED: u16 = 1_024;
/// The suffix of a marker. It is a boundary, which no token has beyond those that it counts, and it sorts before every
/// other character that can continue a token.
const MARKER: char = '-';
/// The first character of the token of a whole id, and of an ancestor's.
const SPACE: char = 'e';
const BELOW: char = 'u';
/// One letter for each possible number of boundaries.
const DEPTHS: &[u8; 33] = b"0123456789abcdefghijklmnopqrstuvw";
/// Number of index pages merged before the writer checks for calls again: some milliseconds.
const MERGED_PAGES: i64 = 64;
/// A token that no row has, and a rowid for it.
const STRANGER: (i64, &str) = (i64::MIN, "z");
/// The index is merged into one part once this fraction of the ledger is new: an eighth.
const GROWTH: i64 = 8;

/// The index entry of a new row.
#[derive(Debug)]
pub(crate) struct PathEntry {
    /// The slot of the row.
    pub(crate) slot: i64,
    /// The tokens, separated by spaces.
    pub(crate) tokens: String,
    /// Whether the slot has other rows, whose tokens are already in the index.
    pub(crate) is_shared: bool,
}

/// Writes the entries in rowid order, in which FTS5 needs no flush in between.
pub(crate) fn insert(connection: &Connection, entries: &mut Vec<PathEntry>) -> Result<()> {
    entries.sort_by_key(|entry| entry.slot);
    let mut insert = prepare(connection, statements::INSERT_PATHS)?;
    for PathEntry { slot, tokens, is_shared } in entries.drain(..) {
        let tokens = if is_shared { missing_tokens(connection, slot, &tokens)? } else { tokens };
        if !tokens.is_empty() {
            insert.execute(params![slot, tokens]).map_err(native)?;
        }
    }
    Ok(())
}

/// The tokens of deleted rows, by slot.
pub(crate) type Gone = BTreeMap<i64, BTreeSet<String>>;

/// Removes tokens from the index and from its pages, except those that another row of the slot has. Returns whether a
/// page key of FTS5 still holds a removed token, so that the index must be rewritten.
pub(crate) fn remove(connection: &Connection, mut gone: Gone) -> Result<bool> {
    let mut shared = HashSet::new();
    for (slot, tokens) in &mut gone {
        if keep_shared(connection, *slot, tokens)? {
            shared.insert(*slot);
        }
    }
    gone.retain(|_, tokens| !tokens.is_empty());
    overwrite(connection, true)?;
    // In rowid order, in which FTS5 needs no flush in between.
    for (slot, tokens) in &gone {
        let tokens: Vec<_> = tokens.iter().map(String::as_str).collect();
        execute(connection, statements::DELETE_PATHS, params![slot, tokens.join(" ")])?;
        if shared.contains(slot) {
            // FTS5 counts each insert as a row, and expects to find as many rows as it has counted.
            execute(connection, statements::INSERT_PATHS, params![slot, ""])?;
        }
    }
    overwrite(connection, false)?;
    has_separator_of(connection, &gone)
}

/// Rewrites the whole index. Must run in a transaction.
pub(crate) fn rewrite(connection: &Connection) -> Result<()> {
    merge_with_stranger(connection, |connection| execute(connection, statements::MERGE_ALL_PATHS, []).map(drop))
}

/// Begins to rewrite the index; merges continue it, and it is done once nothing is left to merge. Must run in a
/// transaction.
pub(crate) fn begin_rewrite(connection: &Connection) -> Result<()> {
    merge_with_stranger(connection, |connection| merge_pages(connection, -MERGED_PAGES).map(drop))
}

/// Continues to merge; returns whether there was anything to merge.
pub(crate) fn merge_some(connection: &Connection) -> Result<bool> {
    merge_pages(connection, MERGED_PAGES)
}

/// Merges with an extra part: FTS5 does not rewrite an index of a single part, so there must be two.
fn merge_with_stranger(connection: &Connection, merge: fn(&Connection) -> Result<()>) -> Result<()> {
    let (slot, token) = STRANGER;
    execute(connection, statements::INSERT_PATHS, params![slot, token])?;
    merge(connection)?;
    overwrite(connection, true)?;
    execute(connection, statements::DELETE_PATHS, params![slot, token])?;
    overwrite(connection, false)
}

/// Sets whether FTS5 removes deleted tokens from its pages at once.
fn overwrite(connection: &Connection, is_wanted: bool) -> Result<()> {
    execute(connection, statements::OVERWRITE_PATHS, [is_wanted]).map(drop)
}

/// Drops the tokens that other rows of the slot have; returns whether there are other rows.
fn keep_shared(connection: &Connection, slot: i64, gone: &mut BTreeSet<String>) -> Result<bool> {
    let mut others = prepare(connection, statements::MEMORIES_OF_SLOT)?;
    let mut others = others.query([slot]).map_err(native)?;
    let mut has_others = false;
    while let Some(row) = others.next().map_err(native)? {
        has_others = true;
        // The tokens of a damaged row are unknown.
        let (Ok(id), Ok(space)) = (column(row, 0), text(row, 1).and_then(SpaceId::parse)) else { continue };
        for token in tokens(MemoryId::from_bytes(id), &space) {
            gone.remove(&token);
        }
    }
    // Rows of the first programs have no markers, and FTS5 treats an index as damaged if more is deleted than it holds.
    let markers: Vec<_> = gone.iter().filter(|token| token.ends_with(MARKER)).cloned().collect();
    for marker in markers {
        if !has_token(connection, slot, &marker)? {
            gone.remove(&marker);
        }
    }
    Ok(has_others)
}

/// Returns whether a page key of FTS5 is a prefix of removed tokens only.
fn has_separator_of(connection: &Connection, gone: &Gone) -> Result<bool> {
    let gone: BTreeSet<_> = gone.values().flatten().map(String::as_bytes).collect();
    let mut separators = prepare(connection, statements::PATH_SEPARATORS)?;
    let mut separators = separators.query([]).map_err(native)?;
    while let Some(row) = separators.next().map_err(native)? {
        let separator = bytes(row, 0)?;
        let is_of = |token: &[u8]| token.starts_with(separator);
        if !gone.range(separator..).next().is_some_and(|token| is_of(token)) {
            continue;
        }
        let from = [ToSqlOutput::Borrowed(ValueRef::Text(separator))];
        let next = first(connection, statements::NEXT_PATH_TOKEN, from, |row| bytes(row, 0).map(is_of))?;
        if next != Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the tokens of a row, separated by spaces.
pub(crate) fn tokens_of(memory: &Memory) -> String {
    tokens(memory.id, &memory.space_id).join(" ")
}

/// Returns the tokens of a row with this id and space.
pub(crate) fn tokens(id: MemoryId, space: &SpaceId) -> Vec<String> {
    let above = space.ancestors().map(|ancestor| token(BELOW, ancestor));
    let mut tokens: Vec<_> = std::iter::once(token(SPACE, space.as_str())).chain(above).collect();
    // The last bytes of an id are random.
    let [.., first, second] = *id.as_bytes();
    if u16::from_be_bytes([first, second]).is_multiple_of(MARKED) {
        let markers: Vec<_> = tokens.iter().map(|token| format!("{token}{MARKER}")).collect();
        tokens.extend(markers);
    }
    tokens
}

/// Returns the FTS5 query for rows in any of these places.
pub(crate) fn match_places(places: &[Place]) -> String {
    match_any(places.iter().map(|place| match place {
        Place::Space(path) => token(SPACE, path),
        Place::Below(path) => token(BELOW, path),
    }))
}

/// Returns the FTS5 query for rows with any of these tokens.
pub(crate) fn match_any(tokens: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted: Vec<_> = tokens.into_iter().map(|token| format!("\"{}\"", token.as_ref())).collect();
    quoted.join(" OR ")
}

/// Returns the places of the paths that start with `prefix` and have no further boundary: at least `most`, or all. With
/// `after` these are the first ones in byte order that come after it.
pub(crate) fn siblings(connection: &Connection, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Place>> {
    let (mut some, are_all) = any_siblings(connection, prefix, most)?;
    let Some(after) = after else { return Ok(some) };
    if are_all {
        // The first path may be empty.
        some.retain(|place| after.is_empty() || place.path() > after);
        some.sort();
        return Ok(some);
    }
    let mut siblings = Siblings::new(most);
    for (kind, place) in [(SPACE, Place::Space as fn(String) -> Place), (BELOW, Place::Below)] {
        let mut paths = OrderedPaths { kind, prefix, next: prepare(connection, statements::NEXT_PATH_TOKEN)? };
        siblings.add(place, after, |last| match last {
            Some(last) => paths.behind(last),
            None => paths.first(prefix),
        })?;
    }
    Ok(siblings.into_places())
}

/// Returns siblings in the order of their tokens, with one search for each: [`OrderedPaths`] needs one for each
/// character. Also returns whether these are all: it stops at `most` of a kind.
fn any_siblings(connection: &Connection, prefix: &str, most: usize) -> Result<(Vec<Place>, bool)> {
    let mut next = prepare(connection, statements::NEXT_PATH_TOKEN)?;
    let mut siblings = Vec::new();
    for kind in [SPACE, BELOW] {
        let (start, end) = (token(kind, prefix), siblings.len() + most);
        let mut from = start.clone();
        while let Some(token) = next_token(&mut next, &from, &start)? {
            if siblings.len() == end {
                return Ok((siblings, false));
            }
            siblings.push(found_place(&token)?);
            from = behind(&token);
        }
    }
    Ok((siblings, true))
}

/// Like [`siblings`], for the paths of a collection of documents.
pub(crate) fn document_siblings(
    connection: &Connection,
    collection: &Collection,
    prefix: &str,
    after: &str,
    most: usize,
) -> Result<Vec<Place>> {
    let mut siblings = Siblings::new(most);
    let mut next = prepare(connection, statements::NEXT_DOCUMENT_PATH)?;
    for place in [Place::Space as fn(String) -> Place, Place::Below] {
        let level = level_of(&place(prefix.to_owned()));
        siblings.add(place, after, |last| {
            let from = last.map_or_else(|| prefix.to_owned(), Place::behind_space);
            let path = next.query_row(params![collection.as_str(), level, from], |row| row.get::<_, String>(0));
            Ok(path.optional().map_err(native)?.filter(|path| path.starts_with(prefix)))
        })?;
    }
    Ok(siblings.into_places())
}

/// The first paths of both kinds, merged.
struct Siblings {
    most: usize,
    places: Vec<Place>,
    /// The last path of a kind that has more; beyond it the result is incomplete.
    end: Option<String>,
}

impl Siblings {
    fn new(most: usize) -> Self {
        Self { most, places: Vec::new(), end: None }
    }

    /// Adds the paths of one kind in their order.
    fn add(
        &mut self,
        place: fn(String) -> Place,
        after: &str,
        mut behind: impl FnMut(Option<&str>) -> Result<Option<String>>,
    ) -> Result<()> {
        let mut last = Some(after.to_owned()).filter(|after| !after.is_empty());
        for _ in 0..self.most {
            let Some(path) = behind(last.as_deref())? else { return Ok(()) };
            self.places.push(place(path.clone()));
            last = Some(path);
        }
        self.end = self.end.take().into_iter().chain(last).min();
        Ok(())
    }

    fn into_places(mut self) -> Vec<Place> {
        self.places.retain(|place| self.end.as_deref().is_none_or(|end| place.path() <= end));
        self.places
    }
}

/// The paths of one kind that start with a prefix and have no further boundary, in byte order. Their tokens have
/// another order: characters that are escaped in hexadecimal sort after all other ASCII.
struct OrderedPaths<'p, 'c> {
    kind: char,
    prefix: &'p str,
    next: CachedStatement<'c>,
}

impl OrderedPaths<'_, '_> {
    /// Returns the first path after another one.
    fn behind(&mut self, after: &str) -> Result<Option<String>> {
        let next = self.seek(&behind(&token(self.kind, after)), &token(self.kind, self.prefix))?;
        let shared = next.map_or(0, |next| shared_length(&next, after)).max(self.prefix.len());
        let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]).filter(|at| *at >= self.prefix.len());
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            let (start, passed) = (&after[..end], after[end..].chars().next());
            // If the next token differs earlier, only an escaped character can still come later in byte order.
            if end > shared && !passed.is_some_and(is_escaped) {
                continue;
            }
            if let Some(char) = self.next_char(start, passed)? {
                return self.first(&format!("{start}{char}"));
            }
        }
        Ok(None)
    }

    /// Returns the first path that starts with a text.
    fn first(&mut self, start: &str) -> Result<Option<String>> {
        let all = token(self.kind, start);
        let Some(mut path) = self.seek(&all, &all)? else { return Ok(None) };
        let mut at = start.len();
        while let Some(char) = path[at..].chars().next() {
            let escaped = format!("{}~", token(self.kind, &path[..at]));
            let other = if is_escaped(char) || !char.is_ascii() { None } else { self.seek(&escaped, &escaped)? };
            match other.as_deref().and_then(|other| other[at..].chars().next()) {
                Some(lower) if lower < char => {
                    path = other.unwrap_or_default();
                    at += lower.len_utf8();
                }
                _ => at += char.len_utf8(),
            }
        }
        Ok(Some(path))
    }

    /// Returns the lowest character above `passed` that continues `start` in a path.
    fn next_char(&mut self, start: &str, passed: Option<char>) -> Result<Option<char>> {
        let Some(least) = passed.map_or(Some(' '), following) else { return Ok(None) };
        let all = token(self.kind, start);
        let mut char_from = |from: String, start_of_token: &str| -> Result<Option<char>> {
            let path = self.seek(&from, start_of_token)?;
            Ok(path.and_then(|path| path[start.len()..].chars().next()))
        };
        if least.is_ascii() {
            // A boundary would be a marker.
            let plain = char_from(format!("{all}{}", least.max('.')), &all)?;
            let plain = plain.filter(|char| char.is_ascii() && !is_escaped(*char));
            let escaped = char_from(format!("{all}~{:02x}", u32::from(least)), &format!("{all}~"))?;
            if let Some(char) = plain.into_iter().chain(escaped).min() {
                return Ok(Some(char));
            }
        }
        char_from(format!("{all}{}", least.max('\u{80}')), &all)
    }

    /// Returns the path of the first token at or after a text, if the token starts with another text.
    fn seek(&mut self, from: &str, start: &str) -> Result<Option<String>> {
        let Some(token) = next_token(&mut self.next, from, start)? else { return Ok(None) };
        Ok(Some(found_place(&token)?.path().to_owned()))
    }
}

/// Returns the first token at or after a text, if it starts with another text.
fn next_token(next: &mut CachedStatement<'_>, from: &str, start: &str) -> Result<Option<String>> {
    let token = next.query_row([from], |row| row.get::<_, String>(0)).optional().map_err(native)?;
    Ok(token.filter(|token| token.starts_with(start)))
}

/// Returns the lowest text above a token and its marker: no token holds a `!`.
fn behind(token: &str) -> String {
    format!("{token}{MARKER}!")
}

fn found_place(token: &str) -> Result<Place> {
    place_of(token).ok_or_else(|| Error::corrupt("the path index has an unknown token"))
}

/// Returns the length of the common prefix, in bytes.
fn shared_length(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).map(|(char, _)| char.len_utf8()).sum()
}

/// Returns the next character; `None` after the last.
fn following(char: char) -> Option<char> {
    (char..=char::MAX).nth(1)
}

/// Returns the level of a place of documents: twice the number of boundaries in its path, plus 1 for an ancestor.
pub(crate) fn level_of(place: &Place) -> i64 {
    2 * place.path().matches(BOUNDARIES).count() as i64 + i64::from(matches!(place, Place::Below(_)))
}

/// Merges some parts of the index, because a recall searches each part; returns `true` if nothing is left to merge.
///
/// Parts of about the same size are merged. The remaining parts are merged into one once the ledger has grown enough,
/// so that each row is merged with all others only a few times.
pub(crate) fn merge(connection: &Connection, rows_when_whole: &mut i64) -> Result<bool> {
    if merge_pages(connection, MERGED_PAGES)? {
        return Ok(false);
    }
    let rows = last_row(connection)?;
    if rows - *rows_when_whole <= rows / GROWTH {
        return Ok(true);
    }
    // A negative number puts all parts on one level; later merges continue from there.
    let has_begun = merge_pages(connection, -MERGED_PAGES)?;
    *rows_when_whole = rows;
    Ok(!has_begun)
}

/// Returns the number of the newest memory; 0 if there is none.
pub(crate) fn last_row(connection: &Connection) -> Result<i64> {
    Ok(first(connection, statements::LAST_SEQ, [], |row| column(row, 0))?.unwrap_or_default())
}

/// Merges pages; returns whether there was anything to merge.
fn merge_pages(connection: &Connection, pages: i64) -> Result<bool> {
    let before = connection.total_changes();
    execute(connection, statements::MERGE_PATHS, [pages])?;
    // The command itself counts as one change.
    Ok(connection.total_changes() - before > 1)
}

/// Returns those of the tokens that the slot does not have yet.
fn missing_tokens(connection: &Connection, slot: i64, tokens: &str) -> Result<String> {
    let mut missing = Vec::new();
    for token in tokens.split(' ') {
        if !has_token(connection, slot, token)? {
            missing.push(token);
        }
    }
    Ok(missing.join(" "))
}

/// Returns whether the slot has a token.
fn has_token(connection: &Connection, slot: i64, token: &str) -> Result<bool> {
    let found = first(connection, statements::SLOT_HAS_PATH, params![slot, match_any([token])], |_| Ok(()))?;
    Ok(found.is_some())
}

/// Returns the token of a path. Lower-case letters, digits, `-_./:` and everything beyond ASCII are kept as they are by
/// FTS5's ascii tokenizer, as the schema configures it; other characters, which it would fold or split at, are written
/// in hexadecimal.
fn token(kind: char, path: &str) -> String {
    let mut token = String::with_capacity(path.len() + 2);
    // A searched path may have more boundaries than any id; its token is never found.
    let depth = path.matches(BOUNDARIES).count().min(DEPTHS.len() - 1);
    token.extend([kind, char::from(DEPTHS[depth])]);
    for char in path.chars() {
        match is_escaped(char) {
            false => token.push(char),
            // Writing to a String can't fail.
            true => drop(write!(token, "~{:02x}", u32::from(char))),
        }
    }
    token
}

/// Returns whether a character is written in hexadecimal.
fn is_escaped(char: char) -> bool {
    !matches!(char, 'a'..='z' | '0'..='9' | '-' | '_' | '.' | '/' | ':' | '\u{80}'..)
}

/// Returns the place of a token.
fn place_of(token: &str) -> Option<Place> {
    let mut chars = token.chars();
    let (kind, _depth) = (chars.next()?, chars.next()?);
    let mut path = String::with_capacity(token.len());
    while let Some(char) = chars.next() {
        path.push(match char {
            '~' => {
                let (code, rest) = chars.as_str().split_at_checked(2)?;
                chars = rest.chars();
                char::from(u8::from_str_radix(code, 16).ok()?)
            }
            char => char,
        });
    }
    match kind {
        SPACE => Some(Place::Space(path)),
        BELOW => Some(Place::Below(path)),
        _ => None,
    }
}
