//! A report to write in tests.

use conformance::{CaseOutcome, CaseReport, Engine, Outcome, Report, SlowCase, Verdict};

/// Four cases that pass on one engine; on the other, three of them end badly, each in a way of its own.
pub(super) fn red() -> Report {
    let case = |id, rules, outcome| CaseReport { id, rules, results: [Outcome::Pass, outcome].map(result).to_vec() };
    Report {
        suite: "1.2.3",
        seed: 7,
        sequences: 60,
        calls: None,
        seconds: 181.0,
        interrupted: false,
        verdict: Verdict::Red,
        engines: vec![
            Engine { name: "in-memory".to_owned(), version: Some("1.2.3".to_owned()) },
            Engine { name: "sqlite".to_owned(), version: None },
        ],
        cases: vec![
            case("store.works", &["W1"], Outcome::Pass),
            case("store.answers_wrong", &["W2", "W3"], Outcome::Fail("an id is missing".to_owned())),
            case("update.breaks", &["W7"], Outcome::Error("the file is gone".to_owned())),
            case("update.hangs", &["W8"], Outcome::Timeout("did not end within 180 s".to_owned())),
        ],
        slowest: vec![SlowCase { engine: "sqlite".to_owned(), id: "update.hangs", seconds: 180.0 }],
    }
}

fn result(outcome: Outcome) -> CaseOutcome {
    CaseOutcome { outcome, seconds: 0.5 }
}
