//! The feed: a stream to which each script adds its writes. The server numbers entries by its clock, never backwards.

use std::collections::BTreeSet;
use std::time::Instant;

use memory_core::engine::{FeedEntry, FeedPage, FeedPosition, FeedWrite};
use memory_core::{Collection, Document, DocumentId, Error, Memory, MemoryId, Result, Tombstone};
use redis::Pipeline;

use crate::connection::{Connections, command};
use crate::statements::FEED;
use crate::tombstone::{read_with_places, with_places};

/// Length of the stamp, which comes first in a field, before the kind of the write.
const STAMP: usize = 8;
const MEMORY: u8 = b'm';
const PUT: u8 = b'd';
const REMOVAL: u8 = b'r';
const ERASURE: u8 = b'e';
/// Number of entries that are read at once in a search for entries of some records.
const LOOKED_AT: usize = 1_000;

/// Entries of the stream: the number of each, and a field for each record that it describes.
type Entries = Vec<(String, Vec<(String, Vec<u8>)>)>;

/// The number of a stream entry, and the stamp of a record in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    millis: u64,
    number: u64,
    stamp: [u8; STAMP],
}

/// Makes the feed fields of one write, each with a unique stamp. If a server goes back to an earlier state, another
/// entry may get the number of a lost one, even from the same provider if the new primary's clock is behind; the stamp
/// tells them apart.
#[derive(Debug)]
pub(crate) struct Stamps(u64);

impl Stamps {
    pub(crate) fn new() -> Self {
        let [.., a, b, c, d, e, f, g, h] = *MemoryId::generate().as_bytes();
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Encodes that a memory is appended or replaced.
    pub(crate) fn of_memory(&mut self, memory: &Memory) -> Vec<u8> {
        self.entry(MEMORY, &[memory.id.as_bytes(), memory.space_id.as_str().as_bytes()])
    }

    /// Encodes that a document is put, over another version or as a new one.
    pub(crate) fn of_put(&mut self, before: Option<&Document>, after: &Document) -> Vec<u8> {
        let before = before.map(|before| before.space_id.as_str()).filter(|space| *space != after.space_id.as_str());
        let revision = after.revision.get().to_be_bytes();
        // None of them holds a control character.
        let text = format!("{}\0{}", named(after), before.unwrap_or_default());
        self.entry(PUT, &[&revision, text.as_bytes()])
    }

    /// Encodes that a document is removed.
    pub(crate) fn of_removal(&mut self, document: &Document) -> Vec<u8> {
        self.entry(REMOVAL, &[named(document).as_bytes()])
    }

    /// Encodes that a record is erased.
    pub(crate) fn of_erasure(&mut self, tombstone: &Tombstone) -> Vec<u8> {
        self.entry(ERASURE, &[&with_places(tombstone)])
    }

    /// Encodes an entry without a write.
    fn of_none(&mut self) -> Vec<u8> {
        self.stamp().to_vec()
    }

    fn entry(&mut self, kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        let mut entry = Vec::with_capacity(STAMP + 1 + parts.iter().map(|part| part.len()).sum::<usize>());
        entry.extend(self.stamp());
        entry.push(kind);
        parts.iter().for_each(|part| entry.extend(*part));
        entry
    }

    fn stamp(&mut self) -> [u8; STAMP] {
        self.0 = self.0.wrapping_add(1);
        self.0.to_be_bytes()
    }
}

/// Returns the end of the feed. If the stream was deleted, or evicted by the server, creates it with an entry that
/// describes no write.
pub(crate) async fn newest(on: &Connections, until: Instant) -> Result<FeedPosition> {
    if let Some(last) = last(on).await? {
        return Ok(last);
    }
    let mut begin = Pipeline::with_capacity(1);
    begin.cmd("XADD").arg(on.keys.of(FEED)).arg("*").arg("w").arg(Stamps::new().of_none());
    on.write(begin, until).await?;
    last(on).await?.ok_or_else(|| Error::corrupt("the feed of changes has no entry"))
}

/// Returns the position of the last record in the feed, if there is one.
pub(crate) async fn last(on: &Connections) -> Result<Option<FeedPosition>> {
    let read = command("XREVRANGE", &[&on.keys.of(FEED), b"+", b"-", b"COUNT", b"1"]);
    let entry = on.read_one::<Entries>(&read).await?;
    told(&entry).last().map(|(number, told)| Place::of(number, told)?.to_position()).transpose()
}

/// Returns the next entries after a position.
pub(crate) async fn changes(on: &Connections, after: &FeedPosition, most: usize) -> Result<FeedPage> {
    let place = Place::parse(after).ok_or_else(Error::feed_reset)?;
    // The entry of the position itself, and enough to have more than a page after it, unless it is near the end.
    let (from, count) = (place.number(), (most + 2).to_string());
    let read = command("XRANGE", &[&on.keys.of(FEED), from.as_bytes(), b"+", b"COUNT", count.as_bytes()]);
    let found = on.read_one::<Entries>(&read).await?;
    let mut told = told(&found);
    // As long as the position exists, nothing after it is lost.
    loop {
        match told.next() {
            Some((number, _)) if *number != from => return Err(Error::feed_reset()),
            Some((number, told)) if Place::of(number, told)? == place => break,
            Some(_) => {}
            None => return Err(Error::feed_reset()),
        }
    }
    let (mut entries, mut reached) = (Vec::new(), after.clone());
    for (number, told) in told.by_ref().take(most) {
        reached = Place::of(number, told)?.to_position()?;
        let write = told.get(STAMP..).and_then(write_of);
        entries.extend(write.map(|write| FeedEntry { position: reached.clone(), write }));
    }
    Ok(FeedPage { entries, reached, is_end: told.next().is_none() })
}

/// Returns the newest entry number up to which the feed describes none of these records, except their erasure, given
/// that it describes none up to `silent`; `None` if it does describe one. An empty number stands for the beginning.
pub(crate) async fn silent_up_to(on: &Connections, names: &BTreeSet<Vec<u8>>, silent: &str) -> Result<Option<String>> {
    let first = if silent.is_empty() { "-".to_owned() } else { format!("({silent}") };
    // Newest first, because a record that is erased soon is found soon.
    let (feed, count, mut last) = (on.keys.of(FEED), LOOKED_AT.to_string(), "+".to_owned());
    let mut newest = None;
    loop {
        let read = command("XREVRANGE", &[&feed, last.as_bytes(), first.as_bytes(), b"COUNT", count.as_bytes()]);
        let entries = on.read_one::<Entries>(&read).await?;
        if told(&entries).any(|(_, told)| name_of(told).is_some_and(|name| names.contains(&name))) {
            return Ok(None);
        }
        newest = newest.or_else(|| entries.first().map(|(number, _)| number.clone()));
        match entries.last() {
            Some((number, _)) if entries.len() == LOOKED_AT => last = format!("({number}"),
            _ => return Ok(Some(newest.unwrap_or_else(|| silent.to_owned()))),
        }
    }
}

/// Returns the name of the record that a field describes; `None` if the field reports an erasure. The scripts that copy
/// the feed and erase use the same rule.
fn name_of(told: &[u8]) -> Option<Vec<u8>> {
    let (kind, rest) = told.get(STAMP..)?.split_first()?;
    let text = match *kind {
        MEMORY => return Some([&[MEMORY], rest.get(..16)?].concat()),
        PUT => rest.get(8..)?,
        REMOVAL => rest,
        _ => return None,
    };
    let mut zeros = text.iter().enumerate().filter(|(_, byte)| **byte == 0);
    let end = zeros.nth(1).map_or(text.len(), |(place, _)| place);
    Some([b"d", &text[..end]].concat())
}

/// Iterates over the fields of entries, with the number of the entry.
fn told(entries: &Entries) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    entries.iter().flat_map(|(number, told)| told.iter().map(move |(_, told)| (number, told)))
}

impl Place {
    fn of(number: &str, told: &[u8]) -> Result<Self> {
        let parts =
            number.split_once('-').and_then(|(millis, number)| Some((millis.parse().ok()?, number.parse().ok()?)));
        let (millis, number) = parts.ok_or_else(|| Error::corrupt("an entry of the feed has no number"))?;
        // The first field of all has no stamp.
        let stamp = told.first_chunk().copied().unwrap_or_default();
        Ok(Self { millis, number, stamp })
    }

    fn number(&self) -> String {
        format!("{}-{}", self.millis, self.number)
    }

    fn to_position(&self) -> Result<FeedPosition> {
        FeedPosition::new([self.millis.to_be_bytes(), self.number.to_be_bytes(), self.stamp].concat())
    }

    fn parse(position: &FeedPosition) -> Option<Self> {
        let (millis, rest) = position.as_bytes().split_first_chunk()?;
        let (number, stamp) = rest.split_first_chunk()?;
        let (millis, number) = (u64::from_be_bytes(*millis), u64::from_be_bytes(*number));
        Some(Self { millis, number, stamp: stamp.try_into().ok()? })
    }
}

/// Decodes a field after its stamp; `None` if it names no record.
fn write_of(told: &[u8]) -> Option<FeedWrite> {
    let (kind, rest) = told.split_first()?;
    match *kind {
        MEMORY => {
            let (id, space) = rest.split_first_chunk()?;
            Some(FeedWrite::Memory { id: MemoryId::from_bytes(*id), space: str::from_utf8(space).ok()?.to_owned() })
        }
        PUT => {
            let (revision, rest) = rest.split_first_chunk()?;
            let (revision, mut texts) = (u64::from_be_bytes(*revision), str::from_utf8(rest).ok()?.split('\0'));
            let (collection, id) = (Collection::parse(texts.next()?).ok()?, DocumentId::parse(texts.next()?).ok()?);
            let (space, before) = (texts.next()?.to_owned(), texts.next().filter(|before| !before.is_empty()));
            Some(FeedWrite::Document { collection, id, space, before: before.map(str::to_owned), revision })
        }
        REMOVAL => {
            let mut texts = str::from_utf8(rest).ok()?.split('\0');
            let (collection, id) = (Collection::parse(texts.next()?).ok()?, DocumentId::parse(texts.next()?).ok()?);
            Some(FeedWrite::Removal { collection, id, space: texts.next()?.to_owned() })
        }
        ERASURE => {
            let (record, places) = read_with_places(rest)?;
            Some(FeedWrite::Erasure { record, places })
        }
        _ => None,
    }
}

fn named(document: &Document) -> String {
    format!("{}\0{}\0{}", document.collection, document.id, document.space_id)
}
