//! Maps MongoDB's errors to those of the contract.

use std::collections::HashMap;
use std::fmt;

use memory_core::{Error, ErrorKind, Outcome, Result};
use mongodb::bson::{Bson, Document};
use mongodb::error::{ErrorKind as DriverKind, TRANSIENT_TRANSACTION_ERROR, WriteFailure};

pub(crate) const DUPLICATE_KEY: i32 = 11000;
/// A row was refused: a program below the minimum writer version wrote it, or it breaks another rule.
pub(crate) const NOT_VALID: i32 = 121;
/// The transaction conflicts with another one.
pub(crate) const WRITE_CONFLICT: i32 = 112;

/// The primary was replaced.
const PRIMARY_STEPPED_DOWN: i32 = 189;

/// What the driver reported, without its texts, which quote keys and values.
#[derive(Debug)]
struct Native {
    code: Option<i32>,
    text: String,
    /// Whether the same call can succeed at once.
    is_temporary: bool,
}

impl fmt::Display for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Native {}

/// Converts an error of the driver into one of the contract.
pub(crate) fn native(error: mongodb::error::Error) -> Error {
    use ErrorKind::{Closed, InvalidInput, Unauthorized, Unavailable, Unexpected, Unsupported};
    let refused = |code, name: &str| (Some(code), format!("code {code} {name}"), meaning(code));
    let told = |text: &str, kind, message, retryable| {
        (None, text.to_owned(), Error::new(kind, message).retryable_if(retryable))
    };
    let other = |kind, message, retryable| told("an error of the driver", kind, message, retryable);
    let (code, text, meaning) = match error.kind.as_ref() {
        DriverKind::Command(refusal) => refused(refusal.code, &refusal.code_name),
        DriverKind::Write(WriteFailure::WriteError(refusal)) => {
            refused(refusal.code, refusal.code_name.as_deref().unwrap_or_default())
        }
        DriverKind::Write(WriteFailure::WriteConcernError(refusal)) => refused(refusal.code, &refusal.code_name),
        DriverKind::InsertMany(refusals) => {
            let row = refusals.write_errors.iter().flatten().map(|refusal| refused(refusal.code, "of an insert"));
            let concern = refusals.write_concern_error.iter().map(|refusal| refused(refusal.code, &refusal.code_name));
            concern.chain(row).next().unwrap_or_else(|| other(Unexpected, "an insert failed", false))
        }
        DriverKind::Io(cause) => told(&cause.to_string(), Unavailable, LOST, true),
        DriverKind::ConnectionPoolCleared { .. } => other(Unavailable, LOST, true),
        DriverKind::ServerSelection { message, .. } => {
            told(message, Unavailable, "no server that can do this answers in time", true)
        }
        DriverKind::DnsResolve { message, .. } => {
            told(message, Unavailable, "the name of the server could not be resolved", true)
        }
        DriverKind::Authentication { .. } => other(Unauthorized, "the server refused the user or its password", false),
        DriverKind::InvalidTlsConfig { .. } => other(InvalidInput, "the settings of TLS are not valid", false),
        DriverKind::Shutdown => other(Closed, "the provider was shut down", false),
        DriverKind::SessionsNotSupported | DriverKind::IncompatibleServer { .. } => {
            other(Unsupported, "the server is too old, or has no transactions", false)
        }
        _ => other(Unexpected, "the driver refused a call", false),
    };
    let is_temporary = error.contains_label(TRANSIENT_TRANSACTION_ERROR)
        || matches!(error.kind.as_ref(), DriverKind::Io(_) | DriverKind::ConnectionPoolCleared { .. })
        // Another program may have ended the transaction as abandoned.
        || code.is_some_and(|code| matches!(code, WRITE_CONFLICT | 279 | 11601) || is_moving(code) || is_unreachable(code));
    meaning.with_source(Native { code, text, is_temporary }).retryable_if(is_temporary)
}

/// Like [`native`], for a write that was sent once: the outcome is unknown unless the error shows that nothing was
/// written.
pub(crate) fn native_write(error: mongodb::error::Error) -> Error {
    use DriverKind::{
        Authentication, Command, DnsResolve, IncompatibleServer, InsertMany, InvalidArgument, InvalidTlsConfig, Io,
        ServerSelection, SessionsNotSupported, Shutdown, Write,
    };
    let is_not_done = match error.kind.as_ref() {
        Command(refusal) => !is_interruption(refusal.code),
        Write(refusal) => matches!(refusal, WriteFailure::WriteError(_)),
        InsertMany(refusals) => refusals.write_concern_error.is_none(),
        Io(cause) => cause.kind() == std::io::ErrorKind::ConnectionRefused,
        // Nothing was sent.
        ServerSelection { .. } | DnsResolve { .. } | Authentication { .. } | InvalidTlsConfig { .. } => true,
        InvalidArgument { .. } | SessionsNotSupported | IncompatibleServer { .. } | Shutdown => true,
        _ => false,
    };
    native(error).with_outcome(Outcome::unknown_if(!is_not_done))
}

/// Which documents of an unordered insert were refused, by their position, with the error codes.
pub(crate) fn refusals(error: mongodb::error::Error) -> Result<HashMap<usize, i32>> {
    match error.kind.as_ref() {
        DriverKind::InsertMany(insert) if insert.write_concern_error.is_none() => {
            let refused = insert.write_errors.iter().flatten().map(|refusal| (refusal.index, refusal.code));
            Ok(refused.collect())
        }
        _ => Err(native_write(error)),
    }
}

/// Checks that the server has done all that a command asked for; the driver checks this only for its own commands. The
/// outcome in the error is that of a command with one statement.
pub(crate) fn check(answer: &Document) -> Result<()> {
    let error = |refusal: &Document| of_code(refusal.get_i32("code").unwrap_or_default());
    let refusals = answer.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document).map(error);
    // A write that too few servers have confirmed is done all the same.
    let unconfirmed =
        answer.get_document("writeConcernError").map(|concern| error(concern).with_outcome(Outcome::Unknown));
    refusals.chain(unconfirmed).next().map_or(Ok(()), Err)
}

pub(crate) fn of_code(code: i32) -> Error {
    meaning(code).with_source(Native { code: Some(code), text: format!("code {code}"), is_temporary: false })
}

/// Whether the same call can succeed at once, because something else affected the connection, the primary or the
/// transaction.
pub(crate) fn is_temporary(error: &Error) -> bool {
    error.source_as().is_some_and(|native: &Native| native.is_temporary)
}

/// Whether the error comes from the server or the driver, and not from what was read.
pub(crate) fn is_of_server(error: &Error) -> bool {
    error.source_as::<Native>().is_some()
}

/// The error for a call whose primary was replaced before a majority had what the call has read.
pub(crate) fn replaced() -> Error {
    let code = PRIMARY_STEPPED_DOWN;
    meaning(code).with_source(Native { code: Some(code), text: format!("code {code}"), is_temporary: true })
}

/// The error for a server that does not know yet what a majority has.
pub(crate) fn not_ready() -> Error {
    let text = "the server does not know yet what a majority has";
    let source = Native { code: None, text: text.to_owned(), is_temporary: true };
    Error::new(ErrorKind::Unavailable, text).with_source(source).retryable()
}

pub(crate) fn code(error: &Error) -> Option<i32> {
    error.source_as::<Native>()?.code
}

/// Whether somebody has ended the command, or its wait for the other servers.
pub(crate) fn is_ended(error: &mongodb::error::Error) -> bool {
    let code = match error.kind.as_ref() {
        DriverKind::Command(refusal) => refusal.code,
        DriverKind::Write(WriteFailure::WriteConcernError(refusal)) => refusal.code,
        _ => return false,
    };
    matches!(code, 279 | 11601)
}

const LOST: &str = "the connection to the server failed";

/// Whether the code says that a command was cut off, so that it may have had its effect, or a part of it; or that a
/// server behind a router did not report its result.
fn is_interruption(code: i32) -> bool {
    matches!(code, 6 | 7 | 24 | 50 | 89 | 91 | 189 | 262 | 279 | 9001 | 11600 | 11601 | 11602)
}

/// Whether the code says that the server is no longer the primary, or not yet.
fn is_moving(code: i32) -> bool {
    matches!(code, 91 | 189 | 10058 | 10107 | 11600 | 11602 | 13435 | 13436)
}

/// Whether the code says that the server can't reach another one.
fn is_unreachable(code: i32) -> bool {
    matches!(code, 6 | 7 | 89 | 9001)
}

/// The meaning of each code: kind, message, and whether a later call can succeed.
/// <https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml>
fn meaning(code: i32) -> Error {
    use ErrorKind::{Conflict, Corrupt, SchemaMismatch, Timeout, TooLarge, Unauthorized, Unavailable, Unexpected};
    let (kind, message, retryable) = match code {
        DUPLICATE_KEY => (Conflict, "somebody else has stored the same key", true),
        WRITE_CONFLICT => (Unavailable, "the transaction gave way to another one", true),
        13 => (Unauthorized, "the user lacks a permission", false),
        18 | 8000 => (Unauthorized, "the server refused the user or its password", false),
        20 => (ErrorKind::Unsupported, "the server has no transactions", false),
        24 | 46 | 12587 => (Unavailable, "a lock of the server is taken, or an index is being built", true),
        26 => (SchemaMismatch, "a collection of the namespace is gone: open the provider again", false),
        50 | 262 => (Timeout, "the server gave up on a command that took too long", true),
        // A rule of the collection is being changed, or was changed after the transaction's snapshot.
        117 | 246 => (Unavailable, "the collection is being changed", true),
        64 | 100 => (Unavailable, "too few members of the replica set confirm writes", true),
        NOT_VALID => return Error::newer_writer(),
        225 | 251 | 290 => (Unavailable, "the server has ended the transaction", true),
        388 => (Unavailable, "the cache of the server is too small for the transaction", false),
        10334 | 17419 | 17420 => (TooLarge, "a value is larger than the server takes", false),
        279 | 11601 => (Unavailable, "somebody has ended the command", true),
        14031 => (Unavailable, "the disk of the server is full", true),
        code if is_unreachable(code) => (Unavailable, "the server can't reach another one", true),
        code if is_moving(code) => (Unavailable, "the server is not the primary, or no longer", true),
        213 | 214 | 266 => (Corrupt, "the data of the server is damaged", false),
        _ => (Unexpected, "the server refused a command", false),
    };
    Error::new(kind, message).retryable_if(retryable)
}
