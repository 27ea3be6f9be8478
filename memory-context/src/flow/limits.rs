//! The limits of runs.

use std::time::Duration;

/// The deadlines and concurrency limits of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The deadline for reading one attachment; 30 s by default.
    pub attachment: Duration,
    /// The deadline of one model call; one minute by default.
    pub model: Duration,
    /// The deadline of one tool call, including what the tool says meanwhile; one minute by default.
    pub action: Duration,
    /// The deadline for one delivery of a message by the platform; ten seconds by default. A message that may have been delivered is sent
    /// once more, under its id.
    pub say: Duration,
    /// The deadline of each ledger step at the start and the end of a run, such as storing the author, storing or claiming the message, and
    /// storing the end; 30 s by default.
    pub ledger: Duration,
    /// The deadline of all awaited evaluators together, and of all others together; two minutes each by default.
    pub evaluators: Duration,
    /// The deadline of a whole run, from reading attachments to the answer; one hour by default. Waiting for other messages of the room
    /// does not count.
    pub run: Duration,
    /// The length of a message's lease, after which other processes may take it; one minute by default. It is renewed after each third.
    pub lease: Duration,
    /// How often a message may be started; three times by default. A message that was started that often and never ended fails, so that a
    /// message that crashes its process does not do so forever.
    pub runs: u32,
    /// How many runs may learn concurrently after their answers (evaluators that are not awaited, and making vectors); at least 1, 16 by
    /// default. Other runs wait up to `evaluators` and then skip it; later runs do their work.
    pub learning: u32,
    /// How many unanswered messages a trigger may have, at least 1; 64 by default. Over it, an HTTP trigger refuses messages with
    /// `Unavailable` before it stores anything, so they can be sent again.
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
