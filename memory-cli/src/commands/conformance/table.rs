//! A report for people.

use conformance::{Counts, Report, Verdict};

use crate::output;

/// Writes the failures, the matrix of cases if there are several engines, the chapters, and the slowest cases.
pub(super) fn write(report: &Report) -> String {
    let mut parts = failures(report);
    let names: Vec<_> = report.engines.iter().map(|engine| engine.name.as_str()).collect();
    if names.len() > 1 {
        parts.push(matrix(report, &names));
    }
    let mut table = output::table(&[&["chapter"], names.as_slice()].concat());
    for (chapter, counts) in report.chapters() {
        table.add_row([vec![chapter.to_owned()], counts.iter().map(in_words).collect()].concat());
    }
    parts.push(table.to_string());
    let slowest = report.slowest.iter().map(|slow| format!("{}::{} {:.1} s", slow.engine, slow.id, slow.seconds));
    parts.push(format!("slowest: {}", slowest.collect::<Vec<_>>().join(", ")));
    for engine in &report.engines {
        parts.push(format!("{}: {}", engine.name, engine.version.as_deref().unwrap_or("could not be asked")));
    }
    let differences = report.differences().count();
    let compared = if names.len() > 1 { format!(", {differences} differences") } else { String::new() };
    let verdict = verdict(report);
    let (suite, seed, cases) = (report.suite, report.seed, report.cases.len());
    parts.push(format!("suite {suite}, seed {seed}, {cases} cases, {:.0} s{compared}: {verdict}", report.seconds));
    parts.join("\n")
}

/// Lists the failures with their engines, rules and reasons, a line each.
fn failures(report: &Report) -> Vec<String> {
    let mut failures = Vec::new();
    for case in &report.cases {
        for (engine, result) in report.engines.iter().zip(&case.results) {
            if let (true, Some(reason)) = (result.outcome.is_failure(), result.outcome.reason()) {
                let (name, rules) = (result.outcome.name(), case.rules.join(", "));
                failures.push(format!("{}::{} ({rules}): {name}: {reason}", engine.name, case.id));
            }
        }
    }
    failures
}

/// Lists every case, those on which the engines differ first.
fn matrix(report: &Report, names: &[&str]) -> String {
    let mut table = output::table(&[&["case"], names].concat());
    let same = report.cases.iter().filter(|case| !case.is_difference());
    for case in report.differences().chain(same) {
        let results = case.results.iter().map(|result| result.outcome.name());
        let id = if case.is_difference() { format!("≠ {}", case.id) } else { case.id.to_owned() };
        table.add_row(std::iter::once(id).chain(results.map(str::to_owned)));
    }
    table.to_string()
}

fn in_words(counts: &Counts) -> String {
    let parts = [
        (counts.passed, "passed"),
        (counts.failed, "failed"),
        (counts.errors, "errors"),
        (counts.timeouts, "timeouts"),
        (counts.unsupported, "unsupported"),
        (counts.skipped, "skipped"),
    ];
    let parts: Vec<_> = parts.iter().filter(|part| part.0 > 0).map(|(count, what)| format!("{count} {what}")).collect();
    parts.join(", ")
}

/// The verdict at the end of a report.
pub(super) fn verdict(report: &Report) -> &'static str {
    match (report.verdict, report.interrupted) {
        (Verdict::Green, _) => "green",
        (Verdict::Red, false) => "red",
        (Verdict::Red, true) => "red, and interrupted",
        (Verdict::Invalid, false) => "invalid: on an engine nothing ran",
        (Verdict::Invalid, true) => "invalid: the run was interrupted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::conformance::sample;

    #[test]
    fn what_failed_is_told_first_and_what_differs_is_marked() {
        let text = write(&sample::red());
        let failures: Vec<_> = text.lines().take(3).collect();
        assert_eq!(
            failures,
            [
                "sqlite::store.answers_wrong (W2, W3): fail: an id is missing",
                "sqlite::update.breaks (W7): error: the file is gone",
                "sqlite::update.hangs (W8): timeout: did not end within 180 s",
            ]
        );
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in {text}"));
        let differing = ["≠ store.answers_wrong", "≠ update.breaks", "≠ update.hangs"].map(place);
        assert!(differing.is_sorted() && differing[2] < place("store.works"), "{text}");
        assert!(!text.contains("≠ store.works"), "{text}");
        assert!(text.contains("1 passed, 1 failed") && text.contains("1 errors, 1 timeouts"), "{text}");
        assert!(text.contains("slowest: sqlite::update.hangs 180.0 s"), "{text}");
        assert!(text.contains("sqlite: could not be asked"), "{text}");
        assert!(text.ends_with("4 cases, 181 s, 3 differences: red"), "{text}");
    }
}
