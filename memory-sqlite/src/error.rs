//! SQLite's errors as those of the contract.

use memory_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// The error that SQLite gave, as the contract has it. The message never holds SQLite's own, which can quote a path; the
/// source does.
pub(crate) fn native(error: rusqlite::Error) -> Error {
    let (kind, message, retryable) = match error.sqlite_error_code() {
        // SQLite has waited for the other program nearly as long as the call may take.
        Some(ErrorCode::DatabaseBusy) => (ErrorKind::Timeout, "another program holds the database locked", true),
        Some(ErrorCode::DatabaseLocked) => (ErrorKind::Unavailable, "a table of the database is locked", true),
        Some(ErrorCode::DiskFull) => (ErrorKind::Unavailable, "the disk is full, or the database may not grow", true),
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Unavailable, "the file can't be read or written", false),
        Some(ErrorCode::CannotOpen) => (ErrorKind::Unavailable, "the database file can't be opened", false),
        Some(ErrorCode::OutOfMemory) => (ErrorKind::Unavailable, "SQLite is out of memory", true),
        Some(ErrorCode::DatabaseCorrupt) => (ErrorKind::Corrupt, "the database file is damaged", false),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Corrupt, "the file is not an SQLite database", false),
        Some(ErrorCode::ReadOnly) => (ErrorKind::Unauthorized, "the database file is read-only", false),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Unauthorized, "the database file may not be accessed", false)
        }
        Some(ErrorCode::TooBig) => (ErrorKind::TooLarge, "a value is larger than SQLite takes", false),
        Some(ErrorCode::OperationInterrupted) => (ErrorKind::Timeout, "the statement was interrupted", true),
        Some(ErrorCode::SchemaChanged) => (ErrorKind::Unavailable, "the schema changed meanwhile", true),
        _ => (ErrorKind::Unexpected, "SQLite refused a statement", false),
    };
    let error = Error::new(kind, message).with_source(error);
    if retryable { error.retryable() } else { error }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[track_caller]
    fn check(result: rusqlite::Result<()>, kind: ErrorKind, message: &str, retryable: bool) {
        let error = native(result.expect_err("SQLite refuses it"));
        assert_eq!((error.kind(), error.message()), (kind, message), "{error:?}");
        assert_eq!(error.is_retryable(), retryable);
    }

    #[test]
    fn a_full_database_can_be_tried_again() {
        let connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch("PRAGMA max_page_count = 2; CREATE TABLE t (value)").expect("a small database");
        let full = connection.execute_batch("INSERT INTO t VALUES (zeroblob(100000))");
        check(full, ErrorKind::Unavailable, "the disk is full, or the database may not grow", true);
    }

    #[test]
    fn a_locked_table_can_be_tried_again() {
        let connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch("CREATE TABLE t (value); INSERT INTO t VALUES (1), (2)").expect("a table");
        let mut reading = connection.prepare("SELECT value FROM t").expect("a statement");
        let mut rows = reading.query([]).expect("a reader");
        assert!(rows.next().expect("a row").is_some());
        let locked = connection.execute_batch("DROP TABLE t");
        check(locked, ErrorKind::Unavailable, "a table of the database is locked", true);
    }

    #[test]
    fn an_interrupted_statement_can_be_tried_again() {
        let connection = Connection::open_in_memory().expect("memory");
        let mut counting = connection
            .prepare("WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c")
            .expect("a statement");
        let mut rows = counting.query([]).expect("a reader");
        assert!(rows.next().expect("a row").is_some());
        connection.get_interrupt_handle().interrupt();
        check(rows.next().map(drop), ErrorKind::Timeout, "the statement was interrupted", true);
    }

    #[test]
    fn a_value_over_the_limits_of_sqlite_is_too_large() {
        let connection = Connection::open_in_memory().expect("memory");
        let size = connection.query_row("SELECT length(zeroblob(2000000000))", [], |_| Ok(()));
        check(size, ErrorKind::TooLarge, "a value is larger than SQLite takes", false);
    }

    #[test]
    fn what_has_no_kind_of_its_own_is_unexpected() {
        let connection = Connection::open_in_memory().expect("memory");
        check(connection.execute_batch("SELECT"), ErrorKind::Unexpected, "SQLite refused a statement", false);
    }
}
