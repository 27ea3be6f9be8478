//! The slots that a query of the path index finds, in the order of a recall.

use memory_core::Result;
use rusqlite::{CachedStatement, Rows, params};

use crate::error::native;
use crate::statements::column;

/// By how much a window shrinks that has too many slots.
const STEP: i64 = 8;
/// How many slots a window is to have at least, however few are wanted: to find it costs more than to read them.
const FEWEST: usize = 32;
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
/// over the index of these pages from its start. Forwards it goes over that index once, which takes up to 50 µs where the list is that
/// of five million slots. So as few windows as possible are read.
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
    /// Between two slots, of which so many are wanted at least; the statement gives them forwards. `reach` is the slot that the first
    /// window goes back to.
    pub(crate) fn new(
        forwards: &'s mut CachedStatement<'c>,
        expression: String,
        (low, high): (i64, i64),
        wanted: usize,
        reach: i64,
    ) -> Self {
        let span = high.saturating_sub(reach).max(1);
        Self { forwards, expression, low, high, wanted: wanted.max(FEWEST), span, found: Vec::new() }
    }

    /// How many slots a window may have of which so many are wanted.
    pub(crate) fn most(wanted: usize) -> usize {
        SURPLUS * wanted.max(FEWEST)
    }

    fn next(&mut self) -> Result<Option<i64>> {
        let most = Self::most(self.wanted);
        while self.found.is_empty() && self.low <= self.high {
            let start = self.high.saturating_sub(self.span).max(self.low);
            let found = self.read(start, self.high, most + 1)?;
            if found.len() > most {
                self.span = (self.span / STEP).max(1);
                continue;
            }
            if found.len() < self.wanted {
                // If the slots go on like this, the next one has half of the most.
                let times = most / 2 / found.len().max(1);
                self.span = self.span.saturating_mul(times as i64);
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
