//! The binary format of a tombstone, and of the names of records among the tombstones and in the feed.

use memory_core::engine::corrupt;
use memory_core::{Actor, Collection, DocumentId, Error, KeyedHash, MemoryId, Reason, RecordId, Result, Tombstone};

use crate::rows::{self, Reader, time};

/// The format of a tombstone that this program writes.
const FORM: u8 = 1;
const MEMORY: u8 = b'm';
const DOCUMENT: u8 = b'd';
const HASH: u8 = b'k';
/// Precedes the hash of an idempotency key, if there is one.
const IS_KEYED: u8 = 1;

/// Returns the name of a record among the tombstones and in the feed. Neither a collection name nor an id holds a zero
/// byte.
pub(crate) fn name(record: &RecordId) -> Vec<u8> {
    match record {
        RecordId::Memory(id) => [&[MEMORY], id.as_bytes().as_slice()].concat(),
        RecordId::Document { collection, id } => format!("d{collection}\0{id}").into_bytes(),
    }
}

/// Returns the name of an idempotency key's hash among the tombstones.
pub(crate) fn hash_name(hash: KeyedHash) -> Vec<u8> {
    [&[HASH], hash.0.as_slice()].concat()
}

/// Encodes the name of a record, followed by its place hashes.
pub(crate) fn with_places(tombstone: &Tombstone) -> Vec<u8> {
    let mut bytes = name(&tombstone.record);
    if matches!(tombstone.record, RecordId::Document { .. }) {
        bytes.push(0);
    }
    tombstone.places.iter().for_each(|place| bytes.extend(place.0));
    bytes
}

/// Decodes what [`with_places`] has written; `None` for anything else.
pub(crate) fn read_with_places(bytes: &[u8]) -> Option<(RecordId, Vec<KeyedHash>)> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        MEMORY => {
            let (id, places) = rest.split_first_chunk()?;
            Some((MemoryId::from_bytes(*id).into(), KeyedHash::all_of(places)?))
        }
        DOCUMENT => {
            let mut parts = rest.splitn(3, |byte| *byte == 0);
            let (collection, id) = (str::from_utf8(parts.next()?).ok()?, str::from_utf8(parts.next()?).ok()?);
            let record = (Collection::parse(collection).ok()?, DocumentId::parse(id).ok()?).into();
            Some((record, KeyedHash::all_of(parts.next()?)?))
        }
        _ => None,
    }
}

/// Decodes the record of a name; `None` if it is no record's.
pub(crate) fn record_of(name: &[u8]) -> Option<RecordId> {
    match name.split_first()? {
        (&MEMORY, id) => Some(MemoryId::from_bytes(id.try_into().ok()?).into()),
        (&DOCUMENT, rest) => {
            let (collection, id) = str::from_utf8(rest).ok()?.split_once('\0')?;
            Some((Collection::parse(collection).ok()?, DocumentId::parse(id).ok()?).into())
        }
        _ => None,
    }
}

/// Encodes a tombstone without its record, which is in the name: format, time in six bytes, reason, actor, and hashes.
pub(crate) fn tombstone_of(Tombstone { record: _, at, reason, actor, key, places }: &Tombstone) -> Vec<u8> {
    let mut bytes = vec![FORM];
    bytes.extend(time(at.as_millis()));
    rows::push_text(&mut bytes, Some(reason.as_str()));
    rows::push_text(&mut bytes, actor.as_ref().map(Actor::as_str));
    bytes.push(key.map_or(0, |_| IS_KEYED));
    key.iter().chain(places).for_each(|hash| bytes.extend(hash.0));
    bytes
}

pub(crate) fn read_tombstone(record: &RecordId, bytes: &[u8]) -> Result<Tombstone> {
    let bad = || Error::corrupt("a tombstone can't be read");
    let mut reader = Reader(bytes);
    let [form] = reader.take()?;
    if form != FORM {
        return Err(bad());
    }
    let since_earliest = reader.take::<6>()?.iter().fold(0, |time, byte| time << 8 | u64::from(*byte));
    let at = rows::time_since_earliest(since_earliest)?;
    let (reason, actor) = (reader.text()?, reader.optional_text()?);
    let [is_keyed] = reader.take()?;
    let key = if is_keyed == IS_KEYED { Some(KeyedHash(reader.take()?)) } else { None };
    let Reader(places) = reader;
    Ok(Tombstone {
        record: record.clone(),
        at,
        reason: Reason::parse(reason).map_err(corrupt)?,
        actor: actor.map(Actor::parse).transpose().map_err(corrupt)?,
        key,
        places: KeyedHash::all_of(places).ok_or_else(bad)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::{HashKey, IdempotencyKey, SpaceId, Timestamp};

    fn tombstone(record: RecordId, actor: Option<&str>, is_keyed: bool) -> Tombstone {
        let hash_key = HashKey::generate().expect("random numbers");
        let space = SpaceId::parse("guild-1/ana").expect("a space");
        Tombstone {
            record,
            at: Timestamp::from_millis(-5).expect("a time"),
            reason: Reason::parse("somebody asked for it").expect("a reason"),
            actor: actor.map(|actor| Actor::parse(actor).expect("an actor")),
            key: is_keyed.then(|| hash_key.of_key(&IdempotencyKey::parse("k").expect("a key"))),
            places: hash_key.of_space(&space),
        }
    }

    fn records() -> [RecordId; 2] {
        let document = (Collection::parse("notes").expect("valid"), DocumentId::parse("a:b").expect("valid"));
        [MemoryId::generate().into(), document.into()]
    }

    #[test]
    fn a_tombstone_is_read_as_it_was_written() {
        for record in records() {
            for (actor, is_keyed) in [(None, false), (Some("ana"), false), (None, true), (Some("ana"), true)] {
                let tombstone = tombstone(record.clone(), actor, is_keyed);
                let bytes = tombstone_of(&tombstone);
                assert_eq!(read_tombstone(&record, &bytes).expect("it can be read"), tombstone);
                // Nothing else in the bytes tells the number of places, so a cut between two places can't be noticed.
                let begin = bytes.len() - tombstone.places.len() * KeyedHash::BYTES;
                for end in 0..begin {
                    assert!(read_tombstone(&record, &bytes[..end]).is_err(), "{end} bytes");
                }
            }
        }
    }

    #[test]
    fn an_erasure_is_told_with_the_places_of_its_record() {
        for record in records() {
            let tombstone = tombstone(record.clone(), None, false);
            let told = with_places(&tombstone);
            assert_eq!(read_with_places(&told), Some((record, tombstone.places)));
            assert_eq!(read_with_places(&told[..told.len() - 1]), None);
        }
    }
}
