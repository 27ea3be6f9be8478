//! The path index: which tokens a row stands under, and which tokens a selector looks up.
//!
//! Each row has one token for its whole id and one for each ancestor, in an FTS5 table without content whose rowids are in
//! the order of time. A token is readable: its kind, the number of boundaries in its path, and the path itself. So the
//! siblings that share a prefix stand side by side in the vocabulary.
//!
//! From one token FTS5 finds the next by reading through the list of the first, which may be that of half of the ledger. So some
//! rows have a marker behind each of their tokens, with a short list of its own, at which the search can begin.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use memory_core::engine::Place;
use memory_core::{BOUNDARIES, Collection, Error, Memory, MemoryId, Result, SpaceId};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::error::native;
use crate::statements::{self, bytes, column, execute, first, prepare, text};

/// Of so many rows one has markers: a list without one has few pages then, and so has that of a marker.
const MARKED: u16 = 1_024;
/// What a marker has behind its token. A boundary, which no token has beyond those that it counts; and what goes on with any other
/// character comes later in the vocabulary.
const MARKER: char = '-';
/// What the token of a whole id begins with, and what that of an ancestor.
const SPACE: char = 'e';
const BELOW: char = 'u';
/// One letter for each possible number of boundaries.
const DEPTHS: &[u8; 33] = b"0123456789abcdefghijklmnopqrstuvw";
/// How many pages of the index are merged before the writer looks for calls again: some milliseconds.
const MERGED_PAGES: i64 = 64;
/// A token that no row has, and a rowid for it.
const STRANGER: (i64, &str) = (i64::MIN, "z");
/// The part of the ledger that has to be new before all of the index is merged into one: an eighth.
const GROWTH: i64 = 8;

/// What a new row adds to the index.
#[derive(Debug)]
pub(crate) struct PathEntry {
    /// The slot of the row.
    pub(crate) slot: i64,
    /// The tokens, separated by spaces.
    pub(crate) tokens: String,
    /// Whether the slot has other rows, whose tokens are in the index already.
    pub(crate) is_shared: bool,
}

/// Writes the entries, in the order in which FTS5 takes them without flushing in between.
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

/// The tokens of rows that are gone, by their slots.
pub(crate) type Gone = BTreeMap<i64, BTreeSet<String>>;

/// Takes tokens out of the index, and out of its pages. Those that another row of the slot has stay. Tells whether FTS5 finds pages by what
/// is gone, so that the index has to be written anew.
pub(crate) fn remove(connection: &Connection, mut gone: Gone) -> Result<bool> {
    let mut shared = HashSet::new();
    for (slot, tokens) in &mut gone {
        if keep_shared(connection, *slot, tokens)? {
            shared.insert(*slot);
        }
    }
    gone.retain(|_, tokens| !tokens.is_empty());
    overwrite(connection, true)?;
    // In the order in which FTS5 takes them without flushing in between.
    for (slot, tokens) in &gone {
        let tokens: Vec<_> = tokens.iter().map(String::as_str).collect();
        execute(connection, statements::DELETE_PATHS, params![slot, tokens.join(" ")])?;
        if shared.contains(slot) {
            // FTS5 counts each time as a row, and has to find as many as it has counted.
            execute(connection, statements::INSERT_PATHS, params![slot, ""])?;
        }
    }
    overwrite(connection, false)?;
    has_separator_of(connection, &gone)
}

/// Writes the whole index anew. In a transaction.
pub(crate) fn rewrite(connection: &Connection) -> Result<()> {
    merge_with_stranger(connection, |connection| execute(connection, statements::MERGE_ALL_PATHS, []).map(drop))
}

/// Begins to write the index anew: merges go on with it, and it is done once there is nothing left to merge. In a transaction.
pub(crate) fn begin_rewrite(connection: &Connection) -> Result<()> {
    merge_with_stranger(connection, |connection| merge_pages(connection, -MERGED_PAGES).map(drop))
}

/// Goes on to merge; whether there was anything to merge.
pub(crate) fn merge_some(connection: &Connection) -> Result<bool> {
    merge_pages(connection, MERGED_PAGES)
}

/// Merges all parts while there is one more: FTS5 leaves alone what is one part, so there have to be two.
fn merge_with_stranger(connection: &Connection, merge: fn(&Connection) -> Result<()>) -> Result<()> {
    let (slot, token) = STRANGER;
    execute(connection, statements::INSERT_PATHS, params![slot, token])?;
    merge(connection)?;
    overwrite(connection, true)?;
    execute(connection, statements::DELETE_PATHS, params![slot, token])?;
    overwrite(connection, false)
}

/// Lets FTS5 take what is deleted out of its pages at once, or no longer.
fn overwrite(connection: &Connection, is_wanted: bool) -> Result<()> {
    execute(connection, statements::OVERWRITE_PATHS, [is_wanted]).map(drop)
}

/// Leaves out of the tokens what other rows of the slot have; whether there are any.
fn keep_shared(connection: &Connection, slot: i64, gone: &mut BTreeSet<String>) -> Result<bool> {
    let mut others = prepare(connection, statements::MEMORIES_OF_SLOT)?;
    let mut others = others.query([slot]).map_err(native)?;
    let mut has_others = false;
    while let Some(row) = others.next().map_err(native)? {
        has_others = true;
        // Of a damaged row nobody knows them.
        let (Ok(id), Ok(space)) = (column(row, 0), text(row, 1).and_then(SpaceId::parse)) else { continue };
        for token in tokens(MemoryId::from_bytes(id), &space) {
            gone.remove(&token);
        }
    }
    // Rows of the first programs have no markers, and FTS5 takes an index for damaged from which more is deleted than was there.
    let markers: Vec<_> = gone.iter().filter(|token| token.ends_with(MARKER)).cloned().collect();
    for marker in markers {
        if !has_token(connection, slot, &marker)? {
            gone.remove(&marker);
        }
    }
    Ok(has_others)
}

/// Whether FTS5 finds a page by the beginning of tokens that no row has any more.
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

/// The tokens of a row, separated by spaces.
pub(crate) fn tokens_of(memory: &Memory) -> String {
    tokens(memory.id, &memory.space_id).join(" ")
}

/// The tokens of a row that has this id and this space.
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

/// The query of FTS5 that finds what is in any of these places.
pub(crate) fn match_places(places: &[Place]) -> String {
    match_any(places.iter().map(|place| match place {
        Place::Space(path) => token(SPACE, path),
        Place::Below(path) => token(BELOW, path),
    }))
}

/// The query of FTS5 that finds any of these tokens.
pub(crate) fn match_any(tokens: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted: Vec<_> = tokens.into_iter().map(|token| format!("\"{}\"", token.as_ref())).collect();
    quoted.join(" OR ")
}

/// The places of the paths that start with `prefix`, have no further boundary and come behind `after`: the first ones by their bytes, at
/// least so many unless there are no more.
pub(crate) fn siblings(connection: &Connection, prefix: &str, after: &str, most: usize) -> Result<Vec<Place>> {
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

/// The same of the paths of a collection of documents.
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

/// The first paths of both kinds together.
struct Siblings {
    most: usize,
    places: Vec<Place>,
    /// The last path of a kind that goes on.
    end: Option<String>,
}

impl Siblings {
    fn new(most: usize) -> Self {
        Self { most, places: Vec::new(), end: None }
    }

    /// Adds the paths of one kind, one behind the other.
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

/// The paths of one kind that start with a prefix and have no further boundary, in the order of their bytes. Their tokens have another
/// order, in which what is written in hexadecimal comes behind all other ASCII.
struct OrderedPaths<'p, 'c> {
    kind: char,
    prefix: &'p str,
    next: CachedStatement<'c>,
}

impl OrderedPaths<'_, '_> {
    /// The first one behind another.
    fn behind(&mut self, after: &str) -> Result<Option<String>> {
        // The least text that is greater than the token and its marker, and than no other: no token holds a `!`.
        let from = format!("{}{MARKER}!", token(self.kind, after));
        let next = self.seek(&from, &token(self.kind, self.prefix))?;
        let shared = next.map_or(0, |next| shared_length(&next, after)).max(self.prefix.len());
        let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]).filter(|at| *at >= self.prefix.len());
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            let (start, passed) = (&after[..end], after[end..].chars().next());
            // Where the next token differs before, only what comes before in hexadecimal can come behind in bytes.
            if end > shared && !passed.is_some_and(is_escaped) {
                continue;
            }
            if let Some(char) = self.next_char(start, passed)? {
                return self.first(&format!("{start}{char}"));
            }
        }
        Ok(None)
    }

    /// The first path that starts with this.
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

    /// The lowest character above `passed` with which a path goes on that starts with this.
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

    /// The path of the first token from a text on, if that starts with another text.
    fn seek(&mut self, from: &str, start: &str) -> Result<Option<String>> {
        let token = self.next.query_row([from], |row| row.get::<_, String>(0)).optional().map_err(native)?;
        let Some(token) = token.filter(|token| token.starts_with(start)) else { return Ok(None) };
        let place = place_of(&token).ok_or_else(|| Error::corrupt("the path index has an unknown token"))?;
        Ok(Some(place.path().to_owned()))
    }
}

/// How many bytes two texts begin with alike.
fn shared_length(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).map(|(char, _)| char.len_utf8()).sum()
}

/// The next character; none behind the last.
fn following(char: char) -> Option<char> {
    (char..=char::MAX).nth(1)
}

/// The level of a place of documents: twice the number of boundaries in its path, and one more of an ancestor.
pub(crate) fn level_of(place: &Place) -> i64 {
    2 * place.path().matches(BOUNDARIES).count() as i64 + i64::from(matches!(place, Place::Below(_)))
}

/// Merges some of the index, whose parts a recall has to look into one by one; `true` when there is nothing left to merge.
///
/// Parts of about the same size become one. What that leaves becomes one once the ledger has grown enough, so that each row is merged
/// with all others a few times only.
pub(crate) fn merge(connection: &Connection, rows_when_whole: &mut i64) -> Result<bool> {
    if merge_pages(connection, MERGED_PAGES)? {
        return Ok(false);
    }
    let rows = last_row(connection)?;
    if rows - *rows_when_whole <= rows / GROWTH {
        return Ok(true);
    }
    // A negative number puts all parts beside each other, and merges go on from there.
    let has_begun = merge_pages(connection, -MERGED_PAGES)?;
    *rows_when_whole = rows;
    Ok(!has_begun)
}

/// The number of the memory that was stored last; 0 when there is none.
pub(crate) fn last_row(connection: &Connection) -> Result<i64> {
    Ok(first(connection, statements::LAST_SEQ, [], |row| column(row, 0))?.unwrap_or_default())
}

/// Whether there was anything to merge.
fn merge_pages(connection: &Connection, pages: i64) -> Result<bool> {
    let before = connection.total_changes();
    execute(connection, statements::MERGE_PATHS, [pages])?;
    // The command itself counts as one.
    Ok(connection.total_changes() - before > 1)
}

/// Those of the tokens that the slot does not have yet.
fn missing_tokens(connection: &Connection, slot: i64, tokens: &str) -> Result<String> {
    let mut missing = Vec::new();
    for token in tokens.split(' ') {
        if !has_token(connection, slot, token)? {
            missing.push(token);
        }
    }
    Ok(missing.join(" "))
}

/// Whether the slot has a token.
fn has_token(connection: &Connection, slot: i64, token: &str) -> Result<bool> {
    let found = first(connection, statements::SLOT_HAS_PATH, params![slot, match_any([token])], |_| Ok(()))?;
    Ok(found.is_some())
}

/// Lower-case letters, digits, `-_./:` and everything beyond ASCII mean themselves in FTS5's ascii tokenizer as the schema
/// sets it up; the rest, which it would fold or split at, is written in hexadecimal.
fn token(kind: char, path: &str) -> String {
    let mut token = String::with_capacity(path.len() + 2);
    // A path that is looked for may have more boundaries than any id: such a token is found nowhere.
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

/// Whether a token has the character in hexadecimal.
fn is_escaped(char: char) -> bool {
    !matches!(char, 'a'..='z' | '0'..='9' | '-' | '_' | '.' | '/' | ':' | '\u{80}'..)
}

/// The place that has this token.
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
