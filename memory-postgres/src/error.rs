//! Maps PostgreSQL's errors to those of the contract.

use std::borrow::Cow;
use std::io;

use memory_core::ErrorKind::{
    self, Closed, Conflict, Corrupt, InvalidInput, SchemaMismatch, Timeout, TooLarge, Unauthorized, Unavailable,
    Unexpected,
};
use memory_core::{Error, Outcome};

/// Converts an error of the driver. The message never holds the server's own text, which can quote a value; the source
/// does, without details.
pub(crate) fn native(error: sqlx::Error) -> Error {
    let (kind, message, retryable) = match &error {
        // Triggers of the schema refuse writes of older programs.
        sqlx::Error::Database(_) if state_of(&error) == "AM002" => return Error::newer_writer().with_source(error),
        sqlx::Error::Database(_) if state_of(&error) == "AM003" => return Error::read_only(),
        sqlx::Error::Database(_) => of_state(&state_of(&error)),
        sqlx::Error::PoolTimedOut => (Unavailable, "no connection to the server in time", true),
        sqlx::Error::PoolClosed => (Closed, "the provider was shut down", false),
        error if is_encryption(error) => (Unavailable, "the encrypted connection could not be made", false),
        sqlx::Error::Configuration(_) => (InvalidInput, "the settings of the connection are not valid", false),
        sqlx::Error::ColumnDecode { .. } => (Corrupt, "a stored value has an impossible type", false),
        sqlx::Error::Decode(_) => (Corrupt, "a stored value has an impossible type", false),
        _ if is_lost(&error) => (Unavailable, "the connection to the server failed", true),
        _ => (Unexpected, "the driver refused a statement", false),
    };
    Error::new(kind, message).with_source(error).retryable_if(retryable)
}

/// Like [`native`], for a statement that may have taken effect although no answer came.
pub(crate) fn native_write(error: sqlx::Error) -> Error {
    let state = state_of(&error);
    // The server rolls back a transaction that was idle for too long before it reports so.
    let is_unknown = has_ended(&state) && state != "25P03" || is_lost(&error);
    let error = native(error);
    if is_unknown { error.with_outcome(Outcome::Unknown) } else { error }
}

/// Returns whether the same statement can succeed at once: the connection or the transaction failed for an unrelated
/// reason.
pub(crate) fn is_passing(error: &Error) -> bool {
    match of_driver(error) {
        // Only an established connection breaks temporarily; an unknown host name, for example, stays unknown.
        Some(sqlx::Error::Io(error)) => matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        ),
        Some(error) => {
            let state = state_of(error);
            is_lost(error) || has_ended(&state) || matches!(&*state, "40001" | "40P01" | "57P03")
        }
        None => false,
    }
}

/// Returns whether another transaction held a lock for longer than this one waits.
pub(crate) fn is_locked(error: &Error) -> bool {
    of_driver(error).is_some_and(|error| state_of(error) == "55P03")
}

/// Returns the driver's own error, if it caused this one.
pub(crate) fn of_driver(error: &Error) -> Option<&sqlx::Error> {
    error.source_as()
}

/// Returns the SQLSTATE; empty unless the server reported the error.
fn state_of(error: &sqlx::Error) -> Cow<'_, str> {
    error.as_database_error().and_then(|refusal| refusal.code()).unwrap_or_default()
}

/// Returns whether the server, or the session, accepts no writes.
pub(crate) fn is_read_only(error: &sqlx::Error) -> bool {
    state_of(error) == "25006"
}

/// Returns whether a server that refuses a connection like this may accept one in a moment.
pub(crate) fn is_starting(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => matches!(&*state_of(error), "53300" | "57P03"),
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        // Of several hosts, none is the primary yet, or none has answered.
        error => matches!(error, sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut),
    }
}

/// Maps a SQLSTATE to kind, message, and whether a later call can succeed.
fn of_state(state: &str) -> (ErrorKind, &'static str, bool) {
    match state {
        "23505" => (Conflict, "somebody else has stored the same key", true),
        "40001" | "40P01" => (Unavailable, "the transaction gave way to another one", true),
        "40003" => (Unavailable, "the server does not know whether the transaction was completed", true),
        "25006" => (Unauthorized, "the server or the transaction is read-only", false),
        "3D000" => (Unavailable, "the database does not exist", false),
        "AM004" => (SchemaMismatch, "the feed is so large that an operator has to make its new index first", false),
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

/// Returns whether the state means that the connection has ended, with or without the effect of its last statement.
fn has_ended(state: &str) -> bool {
    state.starts_with("08") || matches!(state, "25P03" | "40003" | "57P01" | "57P02" | "57P04" | "57P05")
}

/// Returns whether encryption failed. A problem with the peer's certificate is reported as invalid data.
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
