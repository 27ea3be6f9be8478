//! The slots that a query of the path index finds, in the order of a recall.

use memory_core::Result;
use rusqlite::{CachedStatement, Rows, params};

use crate::error::native;
use crate::statements::{SLOT_BITS, column};

/// How long the first window is where nothing tells how close slots stand: a minute.
const FIRST_SPAN: i64 = 60_000 << SLOT_BITS;
/// By how much a window grows or shrinks.
const STEP: i64 = 8;
/// How many times as many slots as are wanted a window may have.
const SURPLUS: usize = 4;

/// Slots in order.
pub(crate) enum Slots<'s, 'c> {
    /// From an end of the list.
    Along(Rows<'s>),
    /// Back in time from its middle.
    Back(Windows<'s, 'c>),
}

impl Slots<'_, '_> {
    pub(crate) fn next(&mut self) -> Result<Option<i64>> {
        match self {
            Self::Along(rows) => rows.next().map_err(native)?.map(|row| column(row, 0)).transpose(),
            Self::Back(windows) => windows.next(),
        }
    }
}

/// Slots back in time, window by window, each read forwards.
///
/// Backwards, FTS5 looks for a place from the newest slot on: it goes over all pages of the list in between, and for each of them
/// over the index of these pages from its start. Forwards it goes over that index once.
pub(crate) struct Windows<'s, 'c> {
    forwards: &'s mut CachedStatement<'c>,
    expression: String,
    low: i64,
    high: i64,
    wanted: usize,
    span: i64,
    /// The rest of a window; the next slot is the last.
    found: Vec<i64>,
}

impl<'s, 'c> Windows<'s, 'c> {
    /// Between two slots, of which so many are wanted at least; the statement gives them forwards.
    pub(crate) fn new(
        forwards: &'s mut CachedStatement<'c>,
        expression: String,
        (low, high): (i64, i64),
        wanted: usize,
    ) -> Result<Self> {
        let mut windows = Self { forwards, expression, low, high, wanted, span: FIRST_SPAN, found: Vec::new() };
        // What comes next to them stands about as close.
        let newer = windows.read(high.saturating_add(1), i64::MAX, wanted)?;
        if let Some(last) = newer.last().filter(|_| newer.len() == wanted) {
            windows.span = last.saturating_sub(high).max(1);
        }
        Ok(windows)
    }

    fn next(&mut self) -> Result<Option<i64>> {
        let most = SURPLUS * self.wanted;
        while self.found.is_empty() && self.low <= self.high {
            let start = self.high.saturating_sub(self.span).max(self.low);
            let found = self.read(start, self.high, most + 1)?;
            if found.len() > most {
                self.span = (self.span / STEP).max(1);
                continue;
            }
            if found.len() < self.wanted {
                self.span = self.span.saturating_mul(STEP);
            }
            (self.found, self.high) = (found, start - 1);
        }
        Ok(self.found.pop())
    }

    /// The first slots of a window.
    fn read(&mut self, start: i64, end: i64, count: usize) -> Result<Vec<i64>> {
        let mut rows = self.forwards.query(params![self.expression, start, end]).map_err(native)?;
        let mut found = Vec::with_capacity(count);
        while found.len() < count
            && let Some(row) = rows.next().map_err(native)?
        {
            found.push(column(row, 0)?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::migrate;
    use crate::statements::{INSERT_PATHS, SLOTS_OLDEST_FIRST, prepare};

    #[test]
    fn windows_give_every_slot_however_far_apart_they_are() {
        let mut connection = Connection::open_in_memory().expect("a database");
        migrate::run(&mut connection).expect("a schema");
        let in_one_millisecond = 0..3_000;
        let years_apart = (1..=10).map(|year| (year * 31_536_000_000) << SLOT_BITS);
        let seconds_apart = (1..=2_000).map(|second| (400_000_000_000 + second * 1_000) << SLOT_BITS);
        let slots: Vec<i64> = in_one_millisecond.chain(years_apart).chain(seconds_apart).collect();
        for slot in &slots {
            connection.execute(INSERT_PATHS, params![slot, "a"]).expect("inserts");
        }
        for wanted in [1, 51, 1_001] {
            for (first, last) in [(0, 5_009), (0, 4_000), (0, 3_005), (0, 2_999), (7, 1_500), (5, 5)] {
                let mut forwards = prepare(&connection, SLOTS_OLDEST_FIRST).expect("a statement");
                let ends = (slots[first], slots[last]);
                let mut windows = Windows::new(&mut forwards, r#""a""#.to_owned(), ends, wanted).expect("windows");
                let mut found = Vec::new();
                while let Some(slot) = windows.next().expect("a slot") {
                    found.push(slot);
                }
                found.reverse();
                assert_eq!(found, slots[first..=last], "{wanted} of {first} to {last}");
            }
        }
    }
}
