//! PostgreSQL's errors as those of the contract.

use std::error::Error as _;
use std::io;

use memory_core::{Error, ErrorKind, Outcome};

/// The SQLSTATE by which the schema refuses the writes of older programs.
const NEWER_WRITER: &str = "AM002";

/// The error that the driver gave, as the contract has it. The message never holds the server's own, which can quote a value;
/// the source does, without its details.
pub(crate) fn native(error: sqlx::Error) -> Error {
    if matches!(&error, sqlx::Error::Database(refusal) if refusal.code().as_deref() == Some(NEWER_WRITER)) {
        return Error::newer_writer().with_source(error);
    }
    let (kind, message, retryable) = match &error {
        sqlx::Error::Database(refusal) => of_state(&refusal.code().unwrap_or_default()),
        sqlx::Error::PoolTimedOut => {
            (ErrorKind::Unavailable, "no connection to the server within the time for it", true)
        }
        sqlx::Error::PoolClosed => (ErrorKind::Closed, "the provider was shut down", false),
        error if is_encryption(error) => (ErrorKind::Unavailable, "the encrypted connection could not be made", false),
        sqlx::Error::Configuration(_) => {
            (ErrorKind::InvalidInput, "the settings of the connection are not valid", false)
        }
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            (ErrorKind::Corrupt, "a stored value has an impossible type", false)
        }
        _ if is_lost(&error) => (ErrorKind::Unavailable, "the connection to the server failed", true),
        _ => (ErrorKind::Unexpected, "the driver refused a statement", false),
    };
    let error = Error::new(kind, message).with_source(error);
    if retryable { error.retryable() } else { error }
}

/// As [`native`], for a statement that may have had its effect although no answer came.
pub(crate) fn native_write(error: sqlx::Error) -> Error {
    let is_unknown = match &error {
        sqlx::Error::Database(refusal) => has_ended(&refusal.code().unwrap_or_default()),
        error => is_lost(error),
    };
    let error = native(error);
    if is_unknown { error.with_outcome(Outcome::Unknown) } else { error }
}

/// Whether the driver gave the error.
pub(crate) fn is_native(error: &Error) -> bool {
    of_driver(error).is_some()
}

/// Whether the same statement can succeed at once: the connection or the transaction was a victim of something else.
pub(crate) fn is_passing(error: &Error) -> bool {
    match of_driver(error) {
        Some(sqlx::Error::Database(refusal)) => {
            let state = refusal.code().unwrap_or_default();
            has_ended(&state) || matches!(&*state, "40001" | "40P01" | "57P03")
        }
        // Only an established connection breaks; a name that is unknown, say, stays so.
        Some(sqlx::Error::Io(error)) => matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        ),
        Some(error) => is_lost(error),
        None => false,
    }
}

/// Whether another transaction has held a lock for longer than this one waits.
pub(crate) fn is_locked(error: &Error) -> bool {
    matches!(of_driver(error), Some(sqlx::Error::Database(refusal)) if refusal.code().as_deref() == Some("55P03"))
}

fn of_driver(error: &Error) -> Option<&sqlx::Error> {
    error.source()?.downcast_ref()
}

/// Whether a server that refuses a connection so may take one in a moment.
pub(crate) fn is_starting(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(refusal) => matches!(&*refusal.code().unwrap_or_default(), "53300" | "57P03"),
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        // Of several hosts, none is the primary yet, or none has answered.
        error => matches!(error, sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut),
    }
}

/// What each SQLSTATE means: kind, message, and whether a later call can succeed.
fn of_state(state: &str) -> (ErrorKind, &'static str, bool) {
    use ErrorKind::{Conflict, Corrupt, SchemaMismatch, Timeout, TooLarge, Unauthorized, Unavailable, Unexpected};
    match state {
        "23505" => (Conflict, "somebody else has stored the same key", true),
        "40001" | "40P01" => (Unavailable, "the transaction gave way to another one", true),
        "40003" => (Unavailable, "the server does not know whether the transaction was completed", true),
        "25006" => (Unauthorized, "the server or the transaction is read-only", false),
        "3D000" => (Unavailable, "the database does not exist", false),
        "3F000" | "42P01" => (SchemaMismatch, "the schema of the namespace is gone: open the provider again", false),
        "42703" => (SchemaMismatch, "the tables of the namespace are not those of this program", false),
        "42501" => (Unauthorized, "the role lacks a permission", false),
        "53100" => (Unavailable, "the disk of the server is full", true),
        "53200" => (Unavailable, "the server is out of memory", true),
        "53300" => (Unavailable, "the server has no connection left", true),
        "54000" => (TooLarge, "a value is larger than the server takes", false),
        "55P03" => (Unavailable, "a lock of the server is taken", true),
        "57014" => (Timeout, "the server gave up on a statement that took too long", true),
        "57P03" => (Unavailable, "the server is starting up or shutting down", true),
        "XX001" | "XX002" => (Corrupt, "the data of the server is damaged", false),
        state if has_ended(state) => (Unavailable, "the server ended the connection", true),
        state if state.starts_with("28") => (Unauthorized, "the server refused the role or its password", false),
        state if state.starts_with("53") => (Unavailable, "the server has run out of something", true),
        state if state.starts_with("58") => (Unavailable, "the server can't read or write its files", false),
        _ => (Unexpected, "the server refused a statement", false),
    }
}

/// Whether the state says that the connection has ended, with or without the effect of its last statement.
fn has_ended(state: &str) -> bool {
    state.starts_with("08") || matches!(state, "40003" | "57P01" | "57P02" | "57P04" | "57P05")
}

/// Whether the encryption failed; what a peer's certificate lacks comes as data that is not valid.
fn is_encryption(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        error => matches!(error, sqlx::Error::Tls(_)),
    }
}

fn is_lost(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_leaves_a_write_unknown_and_a_read_not_done() {
        let lost = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        let (read, write) = (native(lost()), native_write(lost()));
        assert_eq!((read.kind(), read.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
        assert_eq!((write.kind(), write.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
        assert!(read.is_retryable() && write.is_retryable() && is_passing(&read) && is_passing(&write));
    }

    #[test]
    fn states_have_kinds() {
        for (state, kind, retryable) in [
            ("23505", ErrorKind::Conflict, true),
            ("40P01", ErrorKind::Unavailable, true),
            ("28P01", ErrorKind::Unauthorized, false),
            ("3D000", ErrorKind::Unavailable, false),
            ("57014", ErrorKind::Timeout, true),
            ("57P01", ErrorKind::Unavailable, true),
            ("08006", ErrorKind::Unavailable, true),
            ("42601", ErrorKind::Unexpected, false),
            ("", ErrorKind::Unexpected, false),
        ] {
            let (of_state, _, can_retry) = of_state(state);
            assert_eq!((of_state, can_retry), (kind, retryable), "{state}");
        }
    }
}
