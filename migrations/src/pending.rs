//! Comparing what a database has with what the program knows.

use memory_core::{Error, ErrorKind, Result};

use crate::{Applied, Migration};

/// The steps that are still to be applied. `migrations` is in ascending order; `applied` in any.
///
/// # Errors
/// `SchemaMismatch` for every difference that applying more steps would not mend.
pub(crate) fn pending<'a>(applied: &[Applied], migrations: &'a [Migration]) -> Result<&'a [Migration]> {
    let Some(newest) = applied.iter().max_by_key(|step| step.version) else {
        return Ok(migrations);
    };
    let known = migrations.last().map_or(0, |migration| migration.version);
    // First, because a newer program may also explain whatever else looks odd.
    if newest.version > known {
        return refuse(format!(
            "the database has {newest}, this program knows up to version {known}: upgrade the program"
        ));
    }
    for step in applied {
        check_step(step, migrations)?;
    }
    let done = migrations.partition_point(|migration| migration.version <= newest.version);
    let is_applied = |migration: &Migration| applied.iter().any(|step| step.version == migration.version);
    if let Some(missing) = migrations[..done].iter().find(|migration| !is_applied(migration)) {
        return refuse(format!(
            "{missing} is missing from the database, which has the later {newest}: restore the database from a backup"
        ));
    }
    Ok(&migrations[done..])
}

fn check_step(step: &Applied, migrations: &[Migration]) -> Result<()> {
    if !step.complete {
        return refuse(format!("{step} was begun and never finished: restore the database from a backup"));
    }
    let Some(migration) = migrations.iter().find(|migration| migration.version == step.version) else {
        return refuse(format!("the database has {step}, which this program lacks: use the program that applied it"));
    };
    if step.name != migration.name {
        return refuse(format!(
            "the database has {step} where this program has {migration}: use the program that applied it"
        ));
    }
    if step.checksum != migration.checksum() {
        return refuse(format!("{step} was edited after the database applied it: use the program that applied it"));
    }
    Ok(())
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::SchemaMismatch, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 3] = [
        Migration { version: 1, name: "ledger", text: "one" },
        Migration { version: 2, name: "documents", text: "two" },
        Migration { version: 3, name: "words", text: "three" },
    ];

    fn applied(migrations: &[Migration]) -> Vec<Applied> {
        let entry = |migration: &Migration| Applied {
            version: migration.version,
            name: migration.name.to_owned(),
            checksum: migration.checksum(),
            complete: true,
        };
        migrations.iter().map(entry).collect()
    }

    #[track_caller]
    fn check_refused(applied: &[Applied], migrations: &[Migration], sentence: &str) {
        let error = pending(applied, migrations).expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert_eq!(error.message(), sentence);
    }

    #[test]
    fn what_was_not_applied_is_pending() {
        for done in 0..=KNOWN.len() {
            let applied = applied(&KNOWN[..done]);
            assert_eq!(pending(&applied, &KNOWN).expect("a plan"), &KNOWN[done..]);
        }
    }

    #[test]
    fn the_order_of_the_bookkeeping_does_not_matter() {
        let mut applied = applied(&KNOWN[..2]);
        applied.reverse();
        assert_eq!(pending(&applied, &KNOWN).expect("a plan"), &KNOWN[2..]);
    }

    #[test]
    fn a_newer_database_is_refused() {
        check_refused(
            &applied(&KNOWN),
            &KNOWN[..2],
            r#"the database has version 3 "words", this program knows up to version 2: upgrade the program"#,
        );
    }

    #[test]
    fn a_newer_database_is_refused_as_newer_whatever_else_is_odd() {
        let mut applied = applied(&KNOWN);
        applied[1].checksum.clear();
        applied[2].complete = false;
        check_refused(
            &applied,
            &KNOWN[..2],
            r#"the database has version 3 "words", this program knows up to version 2: upgrade the program"#,
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
    fn a_renamed_step_is_refused() {
        let mut renamed = KNOWN;
        renamed[1].name = "texts";
        check_refused(
            &applied(&KNOWN),
            &renamed,
            r#"the database has version 2 "documents" where this program has version 2 "texts": use the program that applied it"#,
        );
    }

    #[test]
    fn an_applied_step_that_the_program_lacks_is_refused() {
        check_refused(
            &applied(&KNOWN),
            &[KNOWN[0], KNOWN[2]],
            r#"the database has version 2 "documents", which this program lacks: use the program that applied it"#,
        );
    }

    #[test]
    fn a_gap_in_what_was_applied_is_refused() {
        check_refused(
            &applied(&[KNOWN[0], KNOWN[2]]),
            &KNOWN,
            r#"version 2 "documents" is missing from the database, which has the later version 3 "words": restore the database from a backup"#,
        );
    }

    #[test]
    fn a_half_applied_step_is_refused() {
        let mut applied = applied(&KNOWN[..2]);
        applied[1].complete = false;
        check_refused(
            &applied,
            &KNOWN,
            r#"version 2 "documents" was begun and never finished: restore the database from a backup"#,
        );
    }
}
