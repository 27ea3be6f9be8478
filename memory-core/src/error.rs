//! The one error type of the contract.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What every call of the contract returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed, where, and what became of it.
///
/// `Display` is one line; `Debug` adds the chain of causes. Neither ever holds a connection string, a password or a
/// payload: whoever builds an error leaves them out.
///
/// ```
/// use memory_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Conflict, "the revision is 3, not 2").with_operation("update").with_backend("sqlite");
/// assert_eq!(error.to_string(), "update (sqlite): Conflict: the revision is 3, not 2");
/// ```
#[derive(Clone)]
pub struct Error(Box<Report>);

/// What went wrong, for code that has to decide what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call makes no sense as it is; the message says what to change.
    InvalidInput,
    /// A value or a request is over a limit of the contract.
    TooLarge,
    /// The named memory does not exist.
    NotFound,
    /// The memory was erased, and nobody may bring it back.
    Erased,
    /// Somebody else was first: a revision, an idempotency key or an expectation does not hold.
    Conflict,
    /// A removal found more than its caller allowed.
    LimitExceeded,
    /// The engine, as it is set up, or the host lacks what the call needs.
    Unsupported,
    /// The engine can't be reached, or can't take the call now.
    Unavailable,
    /// The deadline of the call passed.
    Timeout,
    /// The engine refused the credentials or the permission.
    Unauthorized,
    /// What the engine holds can't be read.
    Corrupt,
    /// The schema is not one that this program can use.
    SchemaMismatch,
    /// The feed of changes has lost what comes behind a token, so a watch can't go on there: begin anew.
    FeedReset,
    /// The provider is not initialised yet, or was shut down.
    Closed,
    /// An engine's error that has no kind of its own.
    Unexpected,
}

/// Whether a failed call may have had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    /// Nothing was written.
    #[default]
    NotDone,
    /// The call may or may not have been carried out.
    Unknown,
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
    /// An error that wrote nothing and that a retry can't help.
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

    /// An [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// An [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TooLarge, message)
    }

    /// An [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// An [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// What an update of an unknown id answers (W5).
    pub fn not_found() -> Self {
        Self::new(ErrorKind::NotFound, "no memory has this id")
    }

    /// What a call answers that asks for a memory that was erased, or would bring it back (E2).
    pub fn erased() -> Self {
        Self::new(ErrorKind::Erased, "the memory was erased")
    }

    /// What a removal answers that found more documents than its caller allowed (D4).
    pub fn limit_exceeded(max: usize) -> Self {
        let message = format!("the removal found more than {max} documents, and removed none");
        Self::new(ErrorKind::LimitExceeded, message)
    }

    /// What a watch answers that can't go on where its token says (C6).
    pub fn feed_reset() -> Self {
        Self::new(ErrorKind::FeedReset, "the feed has lost what came behind this token: begin anew with a snapshot")
    }

    /// What a write answers when the ledger was migrated by a program of which this one is too old to write (L7).
    pub fn newer_writer() -> Self {
        Self::new(ErrorKind::SchemaMismatch, "a newer program has migrated the ledger: upgrade this program")
    }

    /// What a write answers while an operator has made the ledger read-only (L9).
    pub fn read_only() -> Self {
        let message =
            "the ledger is read-only while its operator moves it to another place: try again later, or write there";
        Self::new(ErrorKind::Unavailable, message).retryable()
    }

    /// Names the call that failed, unless it is named already.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Names the engine, unless it is named already.
    #[must_use]
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend.get_or_insert(backend);
        self
    }

    /// Tells it in other words, and leaves the rest as it is: the cause too, by which an engine knows what to try again.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Says whether the call may have had its effect.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// Makes it the error of a repetition: what an earlier attempt may have done is still unknown. A conflict shows that it did
    /// nothing.
    #[must_use]
    pub fn after(self, earlier: Outcome) -> Self {
        if earlier == Outcome::Unknown && self.kind() != ErrorKind::Conflict {
            self.with_outcome(earlier)
        } else {
            self
        }
    }

    /// Marks a failure that is known to be temporary.
    #[must_use]
    pub fn retryable(self) -> Self {
        self.retryable_if(true)
    }

    /// Marks a failure where it is known to be temporary.
    #[must_use]
    pub fn retryable_if(mut self, is_temporary: bool) -> Self {
        self.0.retryable |= is_temporary;
        self
    }

    /// The cause, if it is one of this type: by it an engine knows its own errors.
    pub fn source_as<T: StdError + 'static>(&self) -> Option<&T> {
        self.source()?.downcast_ref()
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence for a person, without operation and backend.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The call that failed.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The engine on which it failed.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Whether the call may have had its effect (W11).
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Whether the same call can succeed later without being changed.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }
}

impl From<Infallible> for Error {
    /// For conversions that can't fail, beside those that can.
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
