//! Points in time, and clocks.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Milliseconds since 1970-01-01T00:00Z, in the years 1696 to 2243; 0 and negative values are valid (V5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest valid time, -8.64e12 ms.
    pub const MIN: Self = Self(-8_640_000_000_000);
    /// The latest valid time, 8.64e12 ms.
    pub const MAX: Self = Self(8_640_000_000_000);

    /// Makes a time from milliseconds since 1970 UTC; `InvalidInput` outside [`Timestamp::MIN`] to [`Timestamp::MAX`].
    pub fn from_millis(millis: i64) -> Result<Self> {
        if (Self::MIN.0..=Self::MAX.0).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(Error::invalid(format!("a time must lie between {} and {} ms", Self::MIN.0, Self::MAX.0)))
        }
    }

    /// Returns the milliseconds since 1970 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Timestamp {
    type Error = Error;

    fn try_from(millis: i64) -> Result<Self> {
        Self::from_millis(millis)
    }
}

impl From<Timestamp> for i64 {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The clock of a provider: it gives `updatedAt`, commit times, and the time that expiry is compared with. Ids never
/// use it.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prints no time, because reading a clock may move it or fail.
        f.write_str("Clock")
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
        };
        Timestamp(millis.clamp(Timestamp::MIN.0, Timestamp::MAX.0))
    }
}

/// A clock that stands still until it is set; for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Makes a clock that shows `time`.
    pub fn new(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.0))
    }

    /// Moves the clock, forwards or backwards.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_includes_its_ends() {
        for millis in [-8_640_000_000_000, -1, 0, 1, 8_640_000_000_000] {
            assert_eq!(Timestamp::from_millis(millis).map(Timestamp::as_millis).ok(), Some(millis));
        }
        for millis in [i64::MIN, -8_640_000_000_001, 8_640_000_000_001, i64::MAX] {
            assert!(Timestamp::from_millis(millis).is_err());
        }
    }

    #[test]
    fn json_is_a_checked_number() {
        assert_eq!(serde_json::from_str::<Timestamp>("-7").ok(), Some(Timestamp(-7)));
        assert!(serde_json::from_str::<Timestamp>("8640000000001").is_err());
    }
}
