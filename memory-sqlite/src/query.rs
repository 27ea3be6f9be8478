//! From a query of the contract to candidates in its order.

use std::rc::Rc;

use memory_core::{
    DocumentPage, DocumentQuery, Head, Memory, MemoryPage, MemoryQuery, Order, PageBuilder, Position, Query, Result,
    Selects, Status, Timestamp, Verdict, words,
};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Params, Row, Rows, params};

use crate::error::native;
use crate::paths;
use crate::slots::{Slots, Windows};
use crate::statements::{self, SLOT_BITS, column, first, prepare};

/// How many candidates of one walk are looked at before it is another's turn.
const STRIDE: usize = 64;

/// The page of a query of the ledger.
pub(crate) fn memories(connection: &Connection, query: &MemoryQuery) -> Result<MemoryPage> {
    if let Some(text) = query.text() {
        let mut seqs = prepare(connection, statements::SEQS_BY_WORDS)?;
        let mut memories = prepare(connection, statements::MEMORY_BY_SEQ)?;
        return by_words(query, text, |expression| Walk::seqs(&mut seqs, [expression], &mut memories));
    }
    let bounds = &Bounds::of(connection, query)?;
    let (by_time, by_path, in_slots, by_status) = match query.order() {
        Order::NewestFirst => (
            statements::MEMORIES_NEWEST_FIRST,
            statements::SLOTS_NEWEST_FIRST,
            statements::IN_SLOTS_NEWEST_FIRST,
            statements::OPEN_NEWEST_FIRST,
        ),
        Order::OldestFirst => (
            statements::MEMORIES_OLDEST_FIRST,
            statements::SLOTS_OLDEST_FIRST,
            statements::IN_SLOTS_OLDEST_FIRST,
            statements::OPEN_OLDEST_FIRST,
        ),
    };
    let wants = |status| query.statuses().contains(&status);
    let wants_open = !query.statuses().is_empty() && query.statuses().iter().all(|status| status.is_open());
    // Only what is needed is prepared: the walks borrow it from here.
    let (mut slots, mut memories, mut open);
    let mut walks = Vec::with_capacity(2);
    match lookup(connection, query)? {
        Lookup::Nowhere => {}
        Lookup::Paths(expression) => {
            memories = prepare(connection, in_slots)?;
            let (low, high) = (bounds.low(), bounds.high());
            let begins_at_end = query.after().is_none() && query.created_before().is_none();
            let slots = if query.order() == Order::OldestFirst || begins_at_end {
                slots = prepare(connection, by_path)?;
                Slots::Along(slots.query(params![expression, low, high]).map_err(native)?)
            } else {
                slots = prepare(connection, statements::SLOTS_OLDEST_FIRST)?;
                let wanted = query.limit() + 1;
                // As far back as the whole ledger has as many slots as a window may have: those that are found are some of them.
                let back = (high, Windows::most(wanted) as i64);
                let reach = first(connection, statements::SLOT_FURTHER_BACK, back, |row| column(row, 0))?;
                Slots::Back(Windows::new(&mut slots, expression, (low, high), wanted, reach.unwrap_or(low)))
            };
            walks.push(Walk::Slots { slots, memories: &mut memories, bounds });
        }
        Lookup::Everywhere if wants_open => {}
        Lookup::Everywhere => {
            memories = prepare(connection, by_time)?;
            walks.push(Walk::rows(&mut memories, params![bounds.far, bounds.near, bounds.id])?);
        }
    }
    if wants_open {
        open = prepare(connection, by_status)?;
        let (pending, running) = (wants(Status::Pending), wants(Status::Running));
        walks.push(Walk::rows(&mut open, params![bounds.far, bounds.near, bounds.id, pending, running])?);
    }
    race(query, walks)
}

/// The page of a query of documents.
pub(crate) fn documents(connection: &Connection, query: &DocumentQuery) -> Result<DocumentPage> {
    let collection = query.collection().as_str();
    if let Some(text) = query.text() {
        let mut seqs = prepare(connection, statements::DOCUMENT_SEQS_BY_WORDS)?;
        let mut documents = prepare(connection, statements::DOCUMENT_BY_SEQ)?;
        return by_words(query, text, |expression| Walk::seqs(&mut seqs, (expression, collection), &mut documents));
    }
    let (sql, edge) = match query.order() {
        Order::OldestFirst => (statements::DOCUMENTS_OLDEST_FIRST, i64::MIN),
        Order::NewestFirst => (statements::DOCUMENTS_NEWEST_FIRST, i64::MAX),
    };
    let (millis, id) = match query.after() {
        Some(Position { created_at, id }) => (created_at.as_millis(), String::from_utf8_lossy(id).into_owned()),
        None => (edge, String::new()),
    };
    let mut statement = prepare(connection, sql)?;
    race(query, vec![Walk::rows(&mut statement, (collection, millis, id))?])
}

/// The page of a query by text; without a word in it nothing is found.
fn by_words<'s, 'c: 's, K: Stored>(
    query: &Query<K>,
    text: &str,
    walk: impl FnOnce(String) -> Result<Walk<'s, 'c>>,
) -> Result<K::Page> {
    let words = words::distinct(text);
    let walks = if words.is_empty() { Vec::new() } else { vec![walk(paths::match_any(words))?] };
    race(query, walks)
}

/// Where the rows of a query are to be looked for.
#[derive(Debug, PartialEq)]
enum Lookup {
    Nowhere,
    /// In what this query of FTS5 finds.
    Paths(String),
    Everywhere,
}

/// Where the query says, and there only where its host confines it to.
fn lookup(connection: &Connection, query: &MemoryQuery) -> Result<Lookup> {
    let mut both = Vec::new();
    for spaces in std::iter::once(query.spaces()).chain(query.within()) {
        match paths::tokens_for(connection, spaces).map_err(native)? {
            None => {}
            Some(tokens) if tokens.is_empty() => return Ok(Lookup::Nowhere),
            Some(tokens) => both.push(format!("({})", paths::match_any(tokens))),
        }
    }
    Ok(if both.is_empty() { Lookup::Everywhere } else { Lookup::Paths(both.join(" AND ")) })
}

/// The slots that a query can find something in, in the direction of its order.
struct Bounds {
    /// The slot where a walk begins.
    near: i64,
    /// The id in that slot behind which it begins.
    id: Vec<u8>,
    /// The last slot.
    far: i64,
}

impl Bounds {
    fn of(connection: &Connection, query: &MemoryQuery) -> Result<Self> {
        let start_of = |time: i64| time << SLOT_BITS;
        let after = query.created_after().unwrap_or(Timestamp::MIN).as_millis();
        let before = query.created_before().unwrap_or(Timestamp::MAX).as_millis();
        // Bounds are exclusive; without one, the first and the last millisecond count.
        let low = start_of(after + i64::from(query.created_after().is_some()));
        let high = start_of(before + i64::from(query.created_before().is_none())) - 1;
        let (near, far) = match query.order() {
            Order::NewestFirst => (high, low),
            Order::OldestFirst => (low, high),
        };
        let mut bounds = Self { near, id: before_all(query.order()).to_vec(), far };
        if let Some(Position { created_at, id }) = query.after() {
            let millis = created_at.as_millis();
            let slot = first(connection, statements::SLOT_OF_ID, [id.as_slice()], |row| column::<i64>(row, 0))?;
            match (slot.filter(|slot| slot >> SLOT_BITS == millis), query.order()) {
                (Some(slot), Order::OldestFirst) if slot >= near => (bounds.near, bounds.id) = (slot, id.clone()),
                (Some(slot), Order::NewestFirst) if slot <= near => (bounds.near, bounds.id) = (slot, id.clone()),
                (Some(_), _) => {}
                // The row of the cursor is gone: its millisecond is looked through again.
                (None, Order::OldestFirst) => bounds.near = near.max(start_of(millis)),
                (None, Order::NewestFirst) => bounds.near = near.min(start_of(millis + 1) - 1),
            }
        }
        Ok(bounds)
    }

    fn low(&self) -> i64 {
        self.near.min(self.far)
    }

    fn high(&self) -> i64 {
        self.near.max(self.far)
    }
}

/// An id that comes before all others: one byte longer than the greatest, or the empty one.
fn before_all(order: Order) -> &'static [u8] {
    match order {
        Order::NewestFirst => &[u8::MAX; 17],
        Order::OldestFirst => &[],
    }
}

/// Candidates in the order of a query.
enum Walk<'s, 'c> {
    /// Rows as they are.
    Rows(Rows<'s>),
    /// Slots of the path index, and the statement that reads the rows of many.
    Slots { slots: Slots<'s, 'c>, memories: &'s mut CachedStatement<'c>, bounds: &'s Bounds },
    /// Numbers of rows, and the statement that reads one.
    Seqs { seqs: Rows<'s>, records: &'s mut CachedStatement<'c> },
}

/// What [`race`] reads: memories or documents.
trait Stored: Selects {
    fn read_head<'r>(row: &'r Row<'_>) -> Result<Head<'r>>;
    fn read(row: &Row<'_>, head: &Head<'_>) -> Result<Self::Record>;
}

impl Stored for memory_core::Ledger {
    fn read_head<'r>(row: &'r Row<'_>) -> Result<Head<'r>> {
        statements::memory_head(row)
    }

    fn read(row: &Row<'_>, head: &Head<'_>) -> Result<Memory> {
        statements::memory_of(row, head)
    }
}

impl Stored for memory_core::Documents {
    fn read_head<'r>(row: &'r Row<'_>) -> Result<Head<'r>> {
        statements::document_head(row)
    }

    fn read(row: &Row<'_>, _: &Head<'_>) -> Result<memory_core::Document> {
        statements::document(row)
    }
}

/// Goes along all walks in turns until the first has the page.
///
/// Each walk alone gives the whole answer, so the cost is that of the shortest: a query for open memories of a space looks
/// through the open ones and through the space, and costs what the smaller of the two does (Q9).
fn race<K: Stored>(query: &Query<K>, walks: Vec<Walk<'_, '_>>) -> Result<K::Page> {
    let mut walks: Vec<_> = walks.into_iter().map(|walk| (walk, PageBuilder::new(query))).collect();
    while !walks.is_empty() {
        for place in 0..walks.len() {
            let (walk, page) = &mut walks[place];
            if walk.advance(page, query)? == Verdict::Stop {
                return Ok(walks.swap_remove(place).1.finish());
            }
        }
    }
    Ok(PageBuilder::new(query).finish())
}

impl<'s, 'c> Walk<'s, 'c> {
    fn rows(statement: &'s mut CachedStatement<'c>, parameters: impl Params) -> Result<Self> {
        statement.query(parameters).map(Self::Rows).map_err(native)
    }

    fn seqs(
        seqs: &'s mut CachedStatement<'c>,
        parameters: impl Params,
        records: &'s mut CachedStatement<'c>,
    ) -> Result<Self> {
        Ok(Self::Seqs { seqs: seqs.query(parameters).map_err(native)?, records })
    }

    /// Offers about [`STRIDE`] candidates to the page. `Stop` when the page is complete or there are no more.
    fn advance<K: Stored>(&mut self, page: &mut PageBuilder<'_, K>, query: &Query<K>) -> Result<Verdict> {
        match self {
            Self::Rows(rows) => offer_some(page, rows, STRIDE),
            Self::Slots { slots, memories, bounds } => {
                // No more than the page can have, and one to tell that there are more.
                let wanted = STRIDE.min(query.limit() + 1);
                let mut some = Vec::with_capacity(wanted);
                let mut behind = before_all(query.order());
                while some.len() < wanted
                    && let Some(slot) = slots.next()?
                {
                    some.push(Value::Integer(slot));
                    // Alone, as only here ids have a bound.
                    if slot == bounds.near {
                        behind = &bounds.id;
                        break;
                    }
                }
                if some.is_empty() {
                    return Ok(Verdict::Stop);
                }
                let some = Rc::new(some);
                let rows = memories.query(params![some, behind]).map_err(native);
                let verdict = rows.and_then(|mut rows| offer_all(page, &mut rows));
                // The last owner of a list must not be the statement: rusqlite 0.39 gives back what holds a list, and not what
                // is in it.
                memories.clear_bindings();
                verdict
            }
            Self::Seqs { seqs, records } => {
                for _ in 0..STRIDE {
                    let Some(seq) = seqs.next().map_err(native)? else { return Ok(Verdict::Stop) };
                    let parameters = [column::<i64>(seq, 0)?];
                    if offer_all(page, &mut records.query(parameters).map_err(native)?)? == Verdict::Stop {
                        return Ok(Verdict::Stop);
                    }
                }
                Ok(Verdict::Skip)
            }
        }
    }
}

/// Offers all rows. `Stop` when the page is complete.
fn offer_all<K: Stored>(page: &mut PageBuilder<'_, K>, rows: &mut Rows<'_>) -> Result<Verdict> {
    while let Some(row) = rows.next().map_err(native)? {
        if offer(page, row)? == Verdict::Stop {
            return Ok(Verdict::Stop);
        }
    }
    Ok(Verdict::Skip)
}

/// Offers some rows. `Stop` when the page is complete or there are no more.
fn offer_some<K: Stored>(page: &mut PageBuilder<'_, K>, rows: &mut Rows<'_>, count: usize) -> Result<Verdict> {
    for _ in 0..count {
        let Some(row) = rows.next().map_err(native)? else { return Ok(Verdict::Stop) };
        if offer(page, row)? == Verdict::Stop {
            return Ok(Verdict::Stop);
        }
    }
    Ok(Verdict::Skip)
}

fn offer<K: Stored>(page: &mut PageBuilder<'_, K>, row: &Row<'_>) -> Result<Verdict> {
    page.offer(K::read_head(row), |head| K::read(row, head), || id_as_text(row))
}

/// The id of a row that can't be read, as far as it can.
fn id_as_text(row: &Row<'_>) -> String {
    match row.get_ref(0) {
        Ok(rusqlite::types::ValueRef::Blob(bytes)) => match <[u8; 16]>::try_from(bytes) {
            Ok(id) => memory_core::MemoryId::from_bytes(id).to_string(),
            Err(_) => format!("{bytes:02x?}"),
        },
        Ok(rusqlite::types::ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{MemoryProvider, Metadata, NewMemory, QueryBuilder, SpaceId, SpaceSelector, Trigger};
    use rusqlite::StatementStatus;

    use super::*;
    use crate::{Location, SqliteMemory, connection, migrate};

    #[test]
    fn a_lookup_keeps_to_what_the_host_allows() {
        let mut connection = Connection::open_in_memory().expect("a database");
        migrate::run(&mut connection).expect("a schema");
        let lookup_of = |query: QueryBuilder<memory_core::Ledger>| {
            let within = SpaceSelector::under("t-2").expect("a selector");
            lookup(&connection, &query.within(within).build().expect("a query")).expect("a lookup")
        };
        let within = r#"("e1t-2" OR "u1t-2")"#;
        assert_eq!(lookup_of(MemoryQuery::builder().all()), Lookup::Paths(within.to_owned()));
        assert_eq!(lookup_of(MemoryQuery::builder().regex("x")), Lookup::Paths(within.to_owned()));
        let both = format!(r#"("e0t" OR "u0t") AND {within}"#);
        assert_eq!(lookup_of(MemoryQuery::builder().under("t")), Lookup::Paths(both));
        assert_eq!(lookup_of(MemoryQuery::builder().prefix("nobody")), Lookup::Nowhere);
    }

    /// In steps of SQLite's virtual machine, of which a row takes some thirty.
    #[tokio::test]
    async fn a_filter_and_a_glob_examine_what_their_spaces_hold() {
        const ROWS: usize = 20_000;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("memory.db");
        let provider = SqliteMemory::open(path.clone()).expect("a provider");
        provider.init().await.expect("an open database");
        let row = |number: usize| {
            // Twenty are sparse, two hundred in each channel, and the rest is dense.
            let space = match number % 100 {
                _ if number.is_multiple_of(1_000) => "t-sparse-1".to_owned(),
                channel @ 1..=9 => format!("t-c{channel}-{number}"),
                _ => format!("t-dense-{number}"),
            };
            let trigger = Trigger::parse(r#""an event""#).expect("valid");
            let metadata = Metadata::parse(&format!(r#"{{"topic":{}}}"#, (number + number / 100) % 10)).expect("valid");
            let time = Timestamp::from_millis(number as i64).expect("valid");
            NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, time).with_metadata(metadata)
        };
        for start in (0..ROWS).step_by(10_000) {
            provider.store_many((start..start + 10_000).map(row).collect()).await.expect("a batch");
        }
        provider.shutdown().await.expect("a shutdown");

        let connection = connection::connect(&Location::File(path), memory_core::DEFAULT_DEADLINE).expect("the file");
        let statements = [
            statements::NEXT_PATH_TOKEN,
            statements::SLOTS_NEWEST_FIRST,
            statements::IN_SLOTS_NEWEST_FIRST,
            statements::MEMORIES_NEWEST_FIRST,
        ];
        let query = || MemoryQuery::builder().limit(50);
        let every_tenth = "metadata.topic = 7";
        for (query, given, examined) in [
            (query().under("t-sparse").filter_text("metadata.topic = 0"), 20, 20),
            (query().under("t-sparse").filter_text(every_tenth), 0, 20),
            (query().under("t-dense").filter_text(every_tenth), 50, 510),
            (query().glob("t-c7-*"), 50, 50),
            (query().glob("t-c7-*x"), 0, 200),
            (query().glob("t-c?-*").filter_text(every_tenth), 50, 510),
            (query().glob("t-s*").filter_text(every_tenth), 0, 20),
        ] {
            let query = query.build().expect("a query");
            assert_eq!(memories(&connection, &query).expect("a page").memories.len(), given, "{query:?}");
            let steps_of = |sql| prepare(&connection, sql).expect("a statement").reset_status(StatementStatus::VmStep);
            let steps: usize = statements.iter().map(|sql| steps_of(sql) as usize).sum();
            // Beyond them a walk looks at what is left of its stride.
            let most = 40 * (examined + STRIDE);
            assert!(
                (20 * examined..=most).contains(&steps),
                "{steps} steps where {examined} rows are to be examined: {query:?}"
            );
        }
    }
}
