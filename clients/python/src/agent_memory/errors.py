"""The errors of calls: one class for each kind of the contract, all of them derived from :class:`AgentMemoryError`."""

from __future__ import annotations

from enum import Enum


class Outcome(str, Enum):
    """Whether a failed call may have taken effect."""

    NOT_DONE = "NotDone"
    """Nothing was written."""
    UNKNOWN = "Unknown"
    """The call may or may not have been carried out."""


class AgentMemoryError(Exception):
    """A call failed. The text says what is wrong and what to do, and holds no payload.

    ``kind`` is the name of the error in the contract, and of its class here. ``outcome`` says whether the call may have taken effect, and
    ``retryable`` whether the same call can succeed later. ``status`` is the HTTP status of the answer, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        outcome: Outcome = Outcome.NOT_DONE,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.outcome = outcome
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after

    @property
    def kind(self) -> str:
        """The name of the error in the contract."""
        return type(self).__name__

    def __str__(self) -> str:
        unknown = " (it may have been carried out)" if self.outcome is Outcome.UNKNOWN else ""
        return f"{self.kind}: {self.message}{unknown}"


class InvalidInput(AgentMemoryError):
    """An argument is not valid; the message says what to change."""


class TooLarge(AgentMemoryError):
    """A value or a request is over a limit of the contract."""


class NotFound(AgentMemoryError):
    """The named record does not exist."""


class Erased(AgentMemoryError):
    """The memory was erased or has expired, and can't be restored."""


class Conflict(AgentMemoryError):
    """Another caller was first: a revision, an idempotency key or an expectation does not hold."""


class LimitExceeded(AgentMemoryError):
    """A removal found more than its caller allowed, and removed nothing."""


class Unsupported(AgentMemoryError):
    """The server can't do this, most often because it is older than this client."""


class Unavailable(AgentMemoryError):
    """The server or its engine can't be reached, or can't take the call now."""


class Timeout(AgentMemoryError):
    """The deadline of the call has passed."""


class Unauthorized(AgentMemoryError):
    """The token is missing or wrong, or does not allow this."""


class Corrupt(AgentMemoryError):
    """The stored data can't be read."""


class SchemaMismatch(AgentMemoryError):
    """The schema or the vector model of the database is not the one that the call needs."""


class FeedReset(AgentMemoryError):
    """The feed has lost changes after the token of a watch: begin again with a snapshot."""


class Closed(AgentMemoryError):
    """The client was closed, or the server is not ready."""


class Unexpected(AgentMemoryError):
    """An error that has no kind of its own."""


KINDS: dict[str, type[AgentMemoryError]] = {kind.__name__: kind for kind in AgentMemoryError.__subclasses__()}
"""The classes, by the names of their kinds."""
