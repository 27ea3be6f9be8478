//! A report in the format of JUnit: one suite per engine, and one for an invalid run.

use std::time::Duration;

use conformance::{CaseReport, Outcome, Report, Verdict};
use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::table::verdict;

/// Writes the report as XML.
pub(super) fn write(report: &Report) -> Result<String, SerializeError> {
    let mut written = quick_junit::Report::new("agent-memory conformance");
    written.set_time(seconds(report.seconds));
    for (place, engine) in report.engines.iter().enumerate() {
        let mut suite = TestSuite::new(engine.name.as_str());
        suite.add_property(("suite", report.suite));
        suite.add_property(("seed", report.seed.to_string().as_str()));
        suite.add_property(("engine", engine.version.as_deref().unwrap_or("unknown")));
        let slowest = report.slowest.iter().filter(|slow| slow.engine == engine.name);
        let slowest: Vec<_> = slowest.map(|slow| format!("{} {:.1} s", slow.id, slow.seconds)).collect();
        suite.add_property(("slowest", slowest.join(", ").as_str()));
        suite.add_test_cases(report.cases.iter().map(|case| test_case(case, place)));
        written.add_test_suite(suite);
    }
    if report.verdict == Verdict::Invalid {
        // With skipped cases only, the run would count as passed.
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(verdict(report)).set_type("invalid");
        let mut suite = TestSuite::new("run");
        suite.add_test_case(TestCase::new("verdict", status));
        written.add_test_suite(suite);
    }
    written.to_string()
}

fn test_case(case: &CaseReport, place: usize) -> TestCase {
    let result = &case.results[place];
    let non_success = |kind, reason: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(reason).set_type(result.outcome.name());
        status
    };
    let status = match &result.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Fail(reason) => non_success(NonSuccessKind::Failure, reason),
        Outcome::Error(reason) | Outcome::Timeout(reason) => non_success(NonSuccessKind::Error, reason),
        Outcome::Unsupported(reason) | Outcome::Skipped(reason) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{}: {reason}", result.outcome.name()));
            status
        }
    };
    let mut test_case = TestCase::new(case.id, status);
    test_case.set_classname(case.chapter()).set_time(seconds(result.seconds));
    test_case.add_property(("rules", case.rules.join(" ").as_str()));
    test_case
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::conformance::sample;

    #[test]
    fn wrong_answers_are_failures_and_the_rest_are_errors() {
        let xml = write(&sample::red()).expect("XML");
        for expected in [
            r#"<testsuite name="sqlite" tests="4" skipped="0" errors="2" failures="1">"#,
            r#"<failure message="an id is missing" type="fail"/>"#,
            r#"<error message="the file is gone" type="error"/>"#,
            r#"<error message="did not end within 180 s" type="timeout"/>"#,
        ] {
            assert_eq!(xml.matches(expected).count(), 1, "{expected} in {xml}");
        }
        assert!(!xml.contains("verdict"), "{xml}");
    }

    #[test]
    fn an_invalid_run_has_an_error_of_its_own() {
        let report = Report { verdict: Verdict::Invalid, interrupted: true, cases: Vec::new(), ..sample::red() };
        let xml = write(&report).expect("XML");
        assert!(xml.contains(r#"<error message="invalid: the run was interrupted" type="invalid"/>"#), "{xml}");
        assert!(xml.contains(r#"<testsuite name="run" tests="1" skipped="0" errors="1" failures="0">"#), "{xml}");
    }
}
