//! A report as people read it.

use conformance::{Counts, Report, Verdict};

use crate::output::{self, Output, OutputFailed};

/// Shows what failed, the matrix of cases if there are several engines, the chapters, and the slowest cases.
pub(super) fn show(report: &Report, output: &mut Output) -> Result<(), OutputFailed> {
    for case in &report.cases {
        for (engine, result) in report.engines.iter().zip(&case.results) {
            if let (true, Some(reason)) = (result.outcome.is_failure(), result.outcome.reason()) {
                let name = result.outcome.name();
                output.line(format!("{}::{} ({}): {name}: {reason}", engine.name, case.id, case.rules.join(", ")))?;
            }
        }
    }
    let names: Vec<_> = report.engines.iter().map(|engine| engine.name.as_str()).collect();
    if names.len() > 1 {
        show_matrix(report, &names, output)?;
    }
    let mut table = output::table(&[&["chapter"], names.as_slice()].concat());
    for (chapter, counts) in report.chapters() {
        table.add_row([vec![chapter.to_owned()], counts.iter().map(in_words).collect()].concat());
    }
    output.line(table)?;
    let slowest = report.slowest.iter().map(|slow| format!("{}::{} {:.1} s", slow.engine, slow.id, slow.seconds));
    output.line(format!("slowest: {}", slowest.collect::<Vec<_>>().join(", ")))?;
    for engine in &report.engines {
        output.line(format!("{}: {}", engine.name, engine.version.as_deref().unwrap_or("could not be asked")))?;
    }
    let differences = report.differences().count();
    let compared = if names.len() > 1 { format!(", {differences} differences") } else { String::new() };
    let verdict = match report.verdict {
        Verdict::Green => "green",
        Verdict::Red => "red",
        Verdict::Invalid => "invalid: on an engine nothing ran",
    };
    let (suite, seed, cases) = (report.suite, report.seed, report.cases.len());
    output.line(format!("suite {suite}, seed {seed}, {cases} cases, {:.0} s{compared}: {verdict}", report.seconds))
}

/// Every case, those on which the engines differ first.
fn show_matrix(report: &Report, names: &[&str], output: &mut Output) -> Result<(), OutputFailed> {
    let mut table = output::table(&[&["case"], names].concat());
    let same = report.cases.iter().filter(|case| !case.is_difference());
    for case in report.differences().chain(same) {
        let results = case.results.iter().map(|result| result.outcome.name());
        let id = if case.is_difference() { format!("≠ {}", case.id) } else { case.id.to_owned() };
        table.add_row(std::iter::once(id).chain(results.map(str::to_owned)));
    }
    output.line(table)
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
