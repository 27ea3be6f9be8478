//! The slots that a query of the path index finds, in the order of a walk.

use memory_core::Result;
use rusqlite::{CachedStatement, Rows, params};

use crate::error::native;
use crate::statements::column;

/// Factor by which a window that has too many slots shrinks.
const STEP: i64 = 8;
/// Minimum number of slots that a window should have: finding a slot costs more than reading it.
const FEWEST: usize = 32;
/// Maximum number of slots in a window, as a multiple of the wanted number.
const SURPLUS: usize = 4;

/// Slots in the order of a walk.
pub(crate) enum Slots<'s, 'c> {
    /// Read from one end of the list.
    Along(Rows<'s>),
    /// Read backwards in time from the middle of the list.
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

/// Slots backwards in time: window by window, each read forwards.
///
/// To search backwards, FTS5 starts at the newest slot: it passes all pages of the list in between, and for each of
/// them the index of these pages from its start. Forwards it passes that index once, which takes up to 50 µs for a list
/// of five million slots. So this reads as few windows as possible.
pub(crate) struct Windows<'s, 'c> {
    forwards: &'s mut CachedStatement<'c>,
    expression: String,
    low: i64,
    high: i64,
    wanted: usize,
    span: i64,
    /// The rest of the current window; the next slot is the last element.
    found: Vec<i64>,
}

impl<'s, 'c> Windows<'s, 'c> {
    /// Covers the range between two slots, of which at least `wanted` are needed; the statement returns slots forwards.
    /// `reach` is the slot at which the first window starts.
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

    /// Returns the maximum number of slots in a window if `wanted` are needed.
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
                // Sized so that, at the present density, the next window has half of the maximum.
                let times = most / 2 / found.len().max(1);
                self.span = self.span.saturating_mul(times as i64);
            }
            (self.found, self.high) = (found, start - 1);
        }
        Ok(self.found.pop())
    }

    /// Reads the first slots of a window.
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
