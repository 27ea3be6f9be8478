//! The one error type of the contract.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The result of every call of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed, in which operation and engine, whether it may have had its effect, and whether a retry can help.
///
/// `Display` is one line; `Debug` adds the chain of causes. Neither holds a connection string, a password or a payload:
/// the code that builds an error must leave them out.
///
/// ```
/// use memory_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Conflict, "the revision is 3, not 2").with_operation("update").with_backend("sqlite");
/// assert_eq!(error.to_string(), "update (sqlite): Conflict: the revision is 3, not 2");
/// ```
#[derive(Clone)]
pub struct Error(Box<Report>);

/// The class of an error, by which code decides what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is not valid; the message says what to change.
    InvalidInput,
    /// A value or a request exceeds a limit of the contract.
    TooLarge,
    /// The named memory does not exist.
    NotFound,
    /// The memory was erased or has expired, and nobody may bring it back.
    Erased,
    /// A revision or expectation does not hold, or an idempotency key is taken, often because a concurrent write won.
    Conflict,
    /// A limit on effects or open resources was reached; for example, a removal found too many documents, a call would
    /// replace too many bytes, or too many watches are open.
    LimitExceeded,
    /// The engine, as it is configured, or the host lacks what the call needs.
    Unsupported,
    /// The engine can't be reached, or can't take the call now.
    Unavailable,
    /// The deadline of the call passed.
    Timeout,
    /// The engine refused the credentials, or the caller lacks a permission.
    Unauthorized,
    /// Stored data can't be read.
    Corrupt,
    /// The schema, or a setting stored in it, does not fit this program or call.
    SchemaMismatch,
    /// The feed has lost changes after a token, so the watch can't continue: begin again.
    FeedReset,
    /// The provider is not initialised yet, or was shut down.
    Closed,
    /// An engine error without a kind of its own.
    Unexpected,
}

/// Whether a failed call may have taken effect (W11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    /// Nothing was written.
    #[default]
    NotDone,
    /// The call may or may not have taken effect.
    Unknown,
}

impl Outcome {
    /// Returns [`Unknown`](Self::Unknown) if a part of the call may have been written before it failed, else
    /// [`NotDone`](Self::NotDone).
    pub fn unknown_if(may_have_written: bool) -> Self {
        if may_have_written { Self::Unknown } else { Self::NotDone }
    }
}

#[derive(Clone)]
struct Report {
    kind: ErrorKind,
    message: String,
    operation: Option<&'static str>,
    backend: Option<&'static str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    outcome: Outcome,
    retryable: bool,
}

impl Error {
    /// Makes an error with outcome `NotDone` that is not retryable.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            kind,
            message: message.into(),
            operation: None,
            backend: None,
            source: None,
            outcome: Outcome::NotDone,
            retryable: false,
        }))
    }

    /// Makes an error of kind [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Makes an error of kind [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// Makes an error of kind [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Makes an error of kind [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The error of an update of an unknown id (W5).
    pub fn not_found() -> Self {
        Self::new(ErrorKind::NotFound, "no memory has this id")
    }

    /// The error of a call that reads an erased memory, or would bring it back (E2).
    pub fn erased() -> Self {
        Self::new(ErrorKind::Erased, "the memory was erased")
    }

    /// The error of a removal that found more documents than its caller allows (D4).
    pub fn limit_exceeded(max: usize) -> Self {
        let message = format!("the removal found more than {max} documents, and removed none");
        Self::new(ErrorKind::LimitExceeded, message)
    }

    /// The error of a watch that can't continue at its token (C6).
    pub fn feed_reset() -> Self {
        Self::new(ErrorKind::FeedReset, "the feed has lost the changes after this token: begin again with a snapshot")
    }

    /// The error of a write by a program that is too old for the migrated ledger (L7).
    pub fn newer_writer() -> Self {
        Self::new(ErrorKind::SchemaMismatch, "a newer program has migrated the ledger: upgrade this program")
    }

    /// The error of a write while an operator has made the ledger read-only (L9).
    pub fn read_only() -> Self {
        let message =
            "the ledger is read-only while its operator moves it to another database: try again later, or write there";
        Self::new(ErrorKind::Unavailable, message).retryable()
    }

    /// Sets the operation that failed, unless it is already set.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Sets the engine, unless it is already set.
    #[must_use]
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend.get_or_insert(backend);
        self
    }

    /// Replaces the message. Kind, outcome and source stay; an engine decides by the source whether to retry.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Sets whether the call may have taken effect.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// Turns this into the error of a repeated attempt: an unknown outcome of an earlier attempt stays unknown. A
    /// `Conflict` proves that the earlier attempt had no effect.
    #[must_use]
    pub fn after(self, earlier: Outcome) -> Self {
        if earlier == Outcome::Unknown && self.kind() != ErrorKind::Conflict {
            self.with_outcome(earlier)
        } else {
            self
        }
    }

    /// Marks the failure as temporary: the same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        self.retryable_if(true)
    }

    /// Marks the failure as temporary if `is_temporary`; never takes the mark back.
    #[must_use]
    pub fn retryable_if(mut self, is_temporary: bool) -> Self {
        self.0.retryable |= is_temporary;
        self
    }

    /// Returns the direct cause if it has this type, by which an engine recognises its own errors.
    pub fn source_as<T: StdError + 'static>(&self) -> Option<&T> {
        self.source()?.downcast_ref()
    }

    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the sentence for a person, without operation and engine.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the name of the call that failed.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the name of the engine.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Returns whether the call may have taken effect (W11).
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Returns whether the same call can succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }
}

impl From<Infallible> for Error {
    /// For generic code that also takes conversions that can't fail.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.operation, self.0.backend) {
            (Some(operation), Some(backend)) => write!(f, "{operation} ({backend}): ")?,
            (Some(place), None) | (None, Some(place)) => write!(f, "{place}: ")?,
            (None, None) => {}
        }
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} [outcome: {:?}, retryable: {}]", self.0.outcome, self.0.retryable)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_in_a_fixed_order() {
        let error = Error::new(ErrorKind::Unavailable, "the file is locked");
        assert_eq!(error.to_string(), "Unavailable: the file is locked");
        let error = error.with_backend("sqlite");
        assert_eq!(error.to_string(), "sqlite: Unavailable: the file is locked");
        let error = error.with_operation("store").with_operation("ignored: the first name stays");
        assert_eq!(error.to_string(), "store (sqlite): Unavailable: the file is locked");
    }

    #[test]
    fn debug_is_the_report() {
        let error = Error::corrupt("a row can't be read")
            .with_source(std::io::Error::other("bad page"))
            .with_outcome(Outcome::Unknown)
            .retryable();
        assert_eq!(
            format!("{error:?}"),
            "Corrupt: a row can't be read [outcome: Unknown, retryable: true]\n  caused by: bad page"
        );
    }

    #[test]
    fn a_result_stays_small() {
        assert_eq!(size_of::<Result<crate::MemoryId>>(), 24);
    }
}
