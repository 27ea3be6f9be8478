//! Compares the steps that a database has applied with those that the program knows.

use memory_core::{Error, ErrorKind, Result};

use crate::{Applied, Kind, Step};

/// Returns the steps that are still to be applied. `steps` must be in ascending order of the version; `applied` may be
/// in any order.
///
/// # Errors
/// `SchemaMismatch` for every difference that applying more steps would not resolve.
pub(crate) fn pending(applied: &[Applied], steps: &[Step]) -> Result<Vec<Step>> {
    let Some(newest) = applied.iter().max_by_key(|applied| applied.version) else {
        return Ok(steps.iter().filter(|step| step.is_taken()).copied().collect());
    };
    let known = steps.last().map_or(0, |step| step.version);
    // Checked first, because a newer program may explain every other difference.
    if newest.version > known {
        return refuse(format!(
            "the database has {newest}, this program knows up to version {known}: upgrade the program"
        ));
    }
    for applied in applied {
        check_applied(applied, steps)?;
    }
    let is_applied = |step: &Step| applied.iter().any(|applied| is_of(applied, step));
    let missing = steps.iter().filter(|step| !is_applied(step) && step.is_taken());
    // The newest version may still get further steps; an earlier one may not.
    if let Some(missing) = missing.clone().find(|step| step.version < newest.version) {
        return refuse(format!(
            "{missing} is missing from the database, which has the later {newest}: restore the database from a backup"
        ));
    }
    Ok(missing.copied().collect())
}

fn is_of(applied: &Applied, step: &Step) -> bool {
    applied.version == step.version && applied.name == step.name
}

fn check_applied(applied: &Applied, steps: &[Step]) -> Result<()> {
    let Some(step) = steps.iter().find(|step| is_of(applied, step)) else {
        return refuse(format!(
            "the database has {applied}, which this program lacks: use the program that applied it, or a newer one"
        ));
    };
    if applied.checksum != step.checksum() {
        return refuse(format!("{applied} was edited after the database applied it: use the program that applied it"));
    }
    if !applied.complete && step.kind == Kind::Quick {
        return refuse(format!("{applied} was begun and never finished: restore the database from a backup"));
    }
    Ok(())
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::SchemaMismatch, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Step = Step::backfill(2, "layout", "three");
    const RETIRED: Step = Step::retired(2, "words", "four");
    const KNOWN: [Step; 5] = [
        Step::quick(1, "ledger", "one"),
        Step::quick(2, "documents", "two"),
        LONG,
        RETIRED,
        Step::quick(3, "feed", "five"),
    ];

    fn applied(steps: &[Step]) -> Vec<Applied> {
        let entry = |step: &Step| Applied {
            version: step.version,
            name: step.name.to_owned(),
            checksum: step.checksum(),
            complete: true,
        };
        steps.iter().map(entry).collect()
    }

    #[track_caller]
    fn check_refused(applied: &[Applied], steps: &[Step], sentence: &str) {
        let error = pending(applied, steps).expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert_eq!(error.message(), sentence);
    }

    #[test]
    fn what_was_not_applied_is_pending() {
        for done in 0..=KNOWN.len() {
            let applied = applied(&KNOWN[..done]);
            let left: Vec<_> = KNOWN[done..].iter().copied().filter(|step| *step != RETIRED).collect();
            assert_eq!(pending(&applied, &KNOWN).expect("a plan"), left);
        }
    }

    #[test]
    fn a_retired_step_is_known_and_never_taken() {
        let others: Vec<_> = KNOWN.into_iter().filter(|step| *step != RETIRED).collect();
        assert_eq!(pending(&[], &KNOWN).expect("a plan"), others);
        assert_eq!(pending(&applied(&others), &KNOWN).expect("a plan"), []);
        assert_eq!(pending(&applied(&KNOWN[..4]), &KNOWN).expect("a plan"), &KNOWN[4..]);
    }

    #[test]
    fn the_newest_version_gets_the_steps_that_a_newer_program_adds() {
        assert_eq!(pending(&applied(&[KNOWN[0], LONG]), &KNOWN[..3]).expect("a plan"), [KNOWN[1]]);
    }

    #[test]
    fn a_step_that_its_backfill_completes_or_completed_may_be_incomplete() {
        let mut applied = applied(&KNOWN);
        applied[2].complete = false;
        applied[3].complete = false;
        assert_eq!(pending(&applied, &KNOWN).expect("a plan"), []);
    }

    #[test]
    fn the_order_of_the_bookkeeping_does_not_matter() {
        let mut applied = applied(&KNOWN[..3]);
        applied.reverse();
        assert_eq!(pending(&applied, &KNOWN).expect("a plan"), &KNOWN[4..]);
    }

    #[test]
    fn a_newer_database_is_refused() {
        check_refused(
            &applied(&KNOWN),
            &KNOWN[..4],
            r#"the database has version 3 "feed", this program knows up to version 2: upgrade the program"#,
        );
    }

    #[test]
    fn a_newer_database_is_refused_as_newer_whatever_else_is_odd() {
        let mut applied = applied(&KNOWN);
        applied[1].checksum.clear();
        applied[4].complete = false;
        check_refused(
            &applied,
            &KNOWN[..4],
            r#"the database has version 3 "feed", this program knows up to version 2: upgrade the program"#,
        );
    }

    #[test]
    fn an_edited_step_is_refused() {
        let mut edited = KNOWN;
        edited[1].text = "two, edited";
        check_refused(
            &applied(&KNOWN[..2]),
            &edited,
            r#"version 2 "documents" was edited after the database applied it: use the program that applied it"#,
        );
    }

    #[test]
    fn an_applied_step_that_the_program_lacks_is_refused() {
        check_refused(
            &applied(&KNOWN[..3]),
            &[KNOWN[0], KNOWN[2]],
            r#"the database has version 2 "documents", which this program lacks: use the program that applied it, or a newer one"#,
        );
    }

    #[test]
    fn a_gap_in_what_was_applied_is_refused() {
        check_refused(
            &applied(&[KNOWN[0], LONG, KNOWN[4]]),
            &KNOWN,
            r#"version 2 "documents" is missing from the database, which has the later version 3 "feed": restore the database from a backup"#,
        );
    }

    #[test]
    fn a_quick_step_that_is_half_applied_is_refused() {
        let mut applied = applied(&KNOWN[..2]);
        applied[1].complete = false;
        check_refused(
            &applied,
            &KNOWN,
            r#"version 2 "documents" was begun and never finished: restore the database from a backup"#,
        );
    }
}
