//! How long the work on a message may take.

use std::time::Duration;

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// To read one attachment; half a minute by default.
    pub attachment: Duration,
    /// One call of a model; a minute by default.
    pub model: Duration,
    /// One call of a tool; a minute by default.
    pub action: Duration,
    /// To say something; ten seconds by default.
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
        }
    }
}
