//! The mapping of redb's errors to those of the contract.

use memory_core::{Error, ErrorKind};

/// Maps an error of redb. Its own message names files at most, and never a payload.
pub(crate) fn native(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let (kind, message) = match &error {
        redb::Error::DatabaseAlreadyOpen => (ErrorKind::Unavailable, "another process has the file open"),
        redb::Error::Corrupted(_) => (ErrorKind::Corrupt, "the file is damaged"),
        redb::Error::Io(_) | redb::Error::PreviousIo => (ErrorKind::Unavailable, "the file can't be read or written"),
        _ => (ErrorKind::Unexpected, "redb refuses the call"),
    };
    let is_temporary = matches!(error, redb::Error::DatabaseAlreadyOpen);
    Error::new(kind, message).with_source(error).retryable_if(is_temporary)
}
