//! The feed: the change stream of the database, in which the server delivers majority-committed writes in the order of
//! its log.
//!
//! Each page opens its own stream at a place, so that nothing is held open between two calls.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use memory_core::engine::{FeedEntry, FeedPage, FeedPosition, FeedWrite};
use memory_core::{Error, ErrorKind, KeyedHash, MemoryId, RecordId, Result, path_hash};
use mongodb::bson::{Bson, Document, RawDocument, Timestamp, doc, serialize_to_bson};
use mongodb::change_stream::ChangeStream;

use crate::connection::MongoSession;
use crate::erasure::record_of;
use crate::error::{code, native, not_ready};
use crate::find::all;
use crate::row::{memory_id, memory_id_of, text, uuid};

/// How long the server waits for another event before it answers that there is none: for a page, and for a waiting
/// watch.
const AT_ONCE: Duration = Duration::from_millis(1);
const AWAITED: Duration = Duration::from_secs(1);
/// A watch without events moves on to where the server has looked, once that is this many seconds ahead, since the
/// server forgets old log entries.
const AHEAD: u32 = 10;
/// How many times the wanted number of events may be read for one time: each page begins at its time again.
const OF_ONE_TIME: usize = 16;
/// The collection whose events are erasures.
const TOMBSTONES: &str = "tombstones";
/// The number that stands for all events of a time.
const ALL: u32 = u32::MAX;
/// The error codes of a server whose log doesn't go back so far, or is another one.
const LOST: [i32; 4] = [136, 260, 280, 286];

/// A place in the feed: a time of the server's log, and the number of an event at that time, counted from 1. A
/// transaction has a single time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    time: Timestamp,
    number: u32,
    /// Distinguishes the event from another one that took its place.
    mark: i64,
}

/// The events after a place.
struct Events {
    stream: ChangeStream<Document>,
    behind: Place,
    /// Whether the event of that place has come; all events from then on are after it.
    is_found: bool,
    at: Place,
    /// The keys of the documents that are removed at this time.
    removed: HashSet<String>,
}

/// What an event says about a record.
enum Noted {
    /// `None` if the space must be looked up.
    Memory {
        id: MemoryId,
        space: Option<String>,
    },
    Other(FeedWrite),
}

/// The end of the feed.
pub(crate) async fn newest(session: &MongoSession) -> Result<FeedPosition> {
    Place::end(known(session).await?).to_position()
}

/// The next entries after a place.
pub(crate) async fn changes(session: &MongoSession, after: &FeedPosition, most: usize) -> Result<FeedPage> {
    let place = Place::parse(after).ok_or_else(Error::feed_reset)?;
    let known = known(session).await?;
    if place.time > known {
        // Each primary knows what was majority-committed, unless the servers were rolled back.
        return Err(Error::feed_reset());
    }
    if most == 0 && place.number == ALL {
        return Ok(FeedPage { entries: Vec::new(), reached: after.clone(), is_end: false });
    }
    // The next event tells whether that of the place is still there.
    let most = most.max(1);
    let mut events = Events::behind(session, place, most, AT_ONCE).await?;
    let (mut noted, mut reached, mut is_end) = (Vec::new(), place, false);
    for count in 0..most * OF_ONE_TIME {
        let Some(event) = events.next().await? else {
            is_end = true;
            break;
        };
        if count >= most && events.at.number == 1 {
            break;
        }
        reached = events.at;
        noted.extend(events.noted(&event)?.map(|one| (reached, one)));
    }
    if is_end
        && let Some(scanned) = events.scanned()
        && scanned.time >= reached.time.time.saturating_add(AHEAD)
    {
        reached = Place::end(scanned);
    }
    let spaces = spaces(session, &noted).await?;
    let entry = |(place, noted): (Place, Noted)| {
        let write = match noted {
            Noted::Memory { id, space } => FeedWrite::Memory { id, space: space.or_else(|| spaces.get(&id).cloned())? },
            Noted::Other(write) => write,
        };
        Some(place.to_position().map(|position| FeedEntry { position, write }))
    };
    let entries = noted.into_iter().filter_map(entry).collect::<Result<_>>()?;
    Ok(FeedPage { entries, reached: reached.to_position()?, is_end })
}

/// Waits until there is an event after a place, or until this time.
pub(crate) async fn changed(session: &MongoSession, after: &FeedPosition, until: Instant) -> Result<()> {
    let Some(place) = Place::parse(after) else { return Ok(()) };
    let mut events = Events::behind(session, place, 1, AWAITED).await?;
    while Instant::now() < until && events.next().await?.is_none() {}
    Ok(())
}

/// The time of the last majority-committed write, as the primary knows it.
async fn known(session: &MongoSession) -> Result<Timestamp> {
    let hello = doc! { "hello": 1, "maxTimeMS": session.left()?.as_millis() as i64 };
    let hello = session.on.database.run_command(hello).await.map_err(native)?;
    let last_write = hello.get_document("lastWrite").and_then(|last| last.get_document("majorityOpTime"));
    let time = last_write.and_then(|last| last.get_timestamp("ts"));
    time.map_err(|_| match hello.get_str("msg") {
        Ok("isdbgrid") => {
            Error::new(ErrorKind::Unsupported, "a router does not tell what a majority has: no feed behind it")
        }
        // It has just started.
        _ => not_ready(),
    })
}

/// The spaces of memories that were changed.
async fn spaces(session: &MongoSession, noted: &[(Place, Noted)]) -> Result<HashMap<MemoryId, String>> {
    let ids = noted.iter().filter_map(|(_, noted)| match noted {
        Noted::Memory { id, space: None } => Some(uuid(id.as_bytes())),
        _ => None,
    });
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let find = session.reads().memories.find(doc! { "_id": { "$in": ids } }).projection(doc! { "spaceId": 1 });
    // A memory without a readable space can't be delivered to anybody.
    let space =
        |row: &RawDocument| Ok(memory_id(row, "_id").and_then(|id| Ok((id, text(row, "spaceId")?.to_owned()))).ok());
    Ok(all(session, find, space).await?.into_iter().flatten().collect())
}

/// The pipeline of the stream. It selects only the fields that an entry needs, since an event has at most 16 MiB.
fn pipeline() -> [Document; 2] {
    let writes = ["insert", "update", "replace", "delete", "drop", "rename"];
    let collections = ["memories", "documents", TOMBSTONES].as_slice();
    let rows = doc! { "ns.coll": { "$in": collections }, "operationType": { "$in": writes.as_slice() } };
    let ends = doc! { "operationType": { "$in": ["dropDatabase", "invalidate"] } };
    [
        doc! { "$match": { "$or": [rows, ends] } },
        doc! { "$project": {
            "operationType": 1,
            "clusterTime": 1,
            "of": "$ns.coll",
            "key": "$documentKey._id",
            "space": "$fullDocument.spaceId",
            "before": "$fullDocument.before",
            "revision": { "$ifNull": ["$fullDocument.revision", "$updateDescription.updatedFields.revision"] },
            "removed": "$updateDescription.updatedFields.removed",
            "places": "$fullDocument.places",
        } },
    ]
}

fn of_stream(error: mongodb::error::Error) -> Error {
    let error = native(error);
    if code(&error).is_some_and(|code| LOST.contains(&code)) { Error::feed_reset() } else { error }
}

impl Events {
    async fn behind(session: &MongoSession, behind: Place, most: usize, awaited: Duration) -> Result<Self> {
        let stream = session.on.database.watch().pipeline(pipeline()).start_at_operation_time(behind.time);
        let stream = stream.batch_size(most.clamp(100, 1_000) as u32).max_await_time(awaited);
        let stream = stream.await.map_err(of_stream)?.with_type();
        let is_found = behind.number == ALL;
        Ok(Self { stream, behind, is_found, at: Place { number: 0, ..behind }, removed: HashSet::new() })
    }

    /// The next event; `None` if there is none now.
    async fn next(&mut self) -> Result<Option<Document>> {
        while let Some(event) = self.stream.next_if_any().await.map_err(of_stream)? {
            let kind = event.get_str("operationType").unwrap_or_default();
            if matches!(kind, "drop" | "rename" | "dropDatabase" | "invalidate") {
                return Err(Error::feed_reset());
            }
            let time = event.get_timestamp("clusterTime").map_err(|_| Error::corrupt("an event has no time"))?;
            if time != self.at.time {
                self.at = Place { time, number: 0, mark: 0 };
                self.removed.clear();
            }
            let key = event.get("key").unwrap_or(&Bson::Null);
            self.at.number += 1;
            self.at.mark = path_hash(&format!("{kind} {key}"));
            if event.contains_key("removed") {
                self.removed.insert(key.to_string());
            }
            if time == self.behind.time && self.at.number <= self.behind.number {
                self.is_found |= self.at == self.behind;
                continue;
            }
            if !self.is_found {
                return Err(Error::feed_reset());
            }
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// A time up to which the server has looked through its log without finding an event after the last one; `None` if
    /// it does not say.
    fn scanned(&self) -> Option<Timestamp> {
        let Bson::Document(token) = serialize_to_bson(&self.stream.resume_token()?).ok()? else { return None };
        before(token.get_str("_data").ok()?)
    }

    /// What the last event says.
    fn noted(&self, event: &Document) -> Result<Option<Noted>> {
        let kind = event.get_str("operationType").unwrap_or_default();
        let string = |name: &str| event.get_str(name).ok().map(str::to_owned);
        let revision = event.get_i64("revision").ok();
        let record = || event.get("key").and_then(record_of);
        let of = event.get_str("of").unwrap_or_default();
        if of == TOMBSTONES {
            let places = event.get_binary_generic("places").ok().and_then(|places| KeyedHash::all_of(places));
            let erasure = record().zip(places).map(|(record, places)| FeedWrite::Erasure { record, places });
            return Ok(erasure.map(Noted::Other));
        }
        if of == "memories" {
            // Calls delete only the row of an erased memory, together with its tombstone. A write that leaves the
            // revision unchanged changes nothing in the record. The erasure of a memory is delivered by its tombstone.
            let is_written = kind != "delete" && revision.is_some_and(|revision| revision > 0);
            let id = event.get("key").and_then(memory_id_of).filter(|_| is_written);
            return Ok(id.map(|id| Noted::Memory { id, space: string("space") }));
        }
        if kind == "delete" {
            let is_noted = event.get("key").is_some_and(|key| self.removed.contains(&key.to_string()));
            // A program of an older version has removed it without noting its space.
            return if is_noted { Ok(None) } else { Err(Error::feed_reset()) };
        }
        let Some(RecordId::Document { collection, id }) = record() else { return Ok(None) };
        if let Some(space) = string("removed") {
            // An erasure has an empty space here.
            let removal = (!space.is_empty()).then_some(FeedWrite::Removal { collection, id, space });
            return Ok(removal.map(Noted::Other));
        }
        let (Some(space), Some(revision)) = (string("space"), revision) else { return Ok(None) };
        let (before, revision) = (string("before"), u64::try_from(revision).unwrap_or_default());
        Ok(Some(Noted::Other(FeedWrite::Document { collection, id, space, before, revision })))
    }
}

/// The last time before that of a token, whose own time may have more events. A token begins with its time, encoded
/// like an index key: the type, the seconds, and the number within the second.
fn before(token: &str) -> Option<Timestamp> {
    let number = |place: usize| u32::from_str_radix(token.strip_prefix("82")?.get(8 * place..8 * place + 8)?, 16).ok();
    let (time, increment) = (number(0)?, number(1)?);
    Some(match increment.checked_sub(1) {
        Some(increment) => Timestamp { time, increment },
        None => Timestamp { time: time.checked_sub(1)?, increment: u32::MAX },
    })
}

impl Place {
    /// The place after all events of a time.
    fn end(time: Timestamp) -> Self {
        Self { time, number: ALL, mark: 0 }
    }

    fn to_position(self) -> Result<FeedPosition> {
        let Self { time, number, mark } = self;
        let numbers = [time.time, time.increment, number].map(u32::to_be_bytes);
        FeedPosition::new([numbers.as_flattened(), &mark.to_be_bytes()].concat())
    }

    fn parse(position: &FeedPosition) -> Option<Self> {
        let bytes: [u8; 20] = position.as_bytes().try_into().ok()?;
        let number = |place: usize| {
            let bytes = bytes.get(4 * place..4 * place + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let time = Timestamp { time: number(0)?, increment: number(1)? };
        let mark = i64::from_be_bytes(bytes.get(12..)?.try_into().ok()?);
        Some(Self { time, number: number(2)?, mark })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_its_time() {
        let of = |token| before(token).map(|Timestamp { time, increment }| (time, increment));
        let high_water_mark = "8265F0A1B2000000032B0429296E1404";
        assert_eq!(of(high_water_mark), Some((0x65F0_A1B2, 2)));
        assert_eq!(of("8265F0A1B2000000002B0429296E1404"), Some((0x65F0_A1B1, u32::MAX)));
        for other in ["", "82", "8265F0A1B2", "8165F0A1B200000003"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
