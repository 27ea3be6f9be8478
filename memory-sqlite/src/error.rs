//! Maps SQLite's errors to those of the contract.

use memory_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Converts an error of SQLite. The message never holds SQLite's own text, which can quote a path; the source does.
pub(crate) fn native(error: rusqlite::Error) -> Error {
    let (kind, message, retryable) = match error.sqlite_error_code() {
        // SQLite has waited for the other program for nearly the whole deadline.
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
    Error::new(kind, message).with_source(error).retryable_if(retryable)
}
