//! How long the work on a message may take, and how much of it goes on at once.

use std::time::Duration;

/// How long things may take, and how many go on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To read one attachment; half a minute by default.
    pub attachment: Duration,
    /// One call of a model; a minute by default.
    pub model: Duration,
    /// One call of a tool, with what it says while it works; a minute by default.
    pub action: Duration,
    /// To say something once; ten seconds by default. What may have been said is said once more, under its id.
    pub say: Duration,
    /// Each step of the ledger at both ends of a run: to keep who said a message, to store it or to take it up, and to keep how its run
    /// ended; half a minute by default.
    pub ledger: Duration,
    /// All evaluators that are awaited, and all others behind them; two minutes each by default.
    pub evaluators: Duration,
    /// The whole work on a message, from its attachments to its answer; an hour by default. That it waits for other messages of
    /// its room does not count.
    pub run: Duration,
    /// How long a message stays with a process that gives no sign of life; a minute by default. It is renewed each third of it.
    pub lease: Duration,
    /// How often the work on a message is begun; three times by default. One that was begun as often and never came to its end has
    /// failed, so that a message that kills its process does not do it for ever.
    pub runs: u32,
    /// How many runs learn behind their answers at once, at least one: by the evaluators that nobody waits for, and by making vectors;
    /// 16 by default. Others wait, for `evaluators` at most, and then leave it to the runs behind them.
    pub learning: u32,
    /// How many messages an HTTP trigger has taken in and not answered, at least one; 64 by default. More are `Unavailable` before
    /// anything is kept of them, and can be sent again.
    pub arrivals: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            attachment: minute / 2,
            model: minute,
            action: minute,
            say: minute / 6,
            ledger: minute / 2,
            evaluators: minute * 2,
            run: minute * 60,
            lease: minute,
            runs: 3,
            learning: 16,
            arrivals: 64,
        }
    }
}
