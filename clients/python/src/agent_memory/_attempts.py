"""The retries of a call: whether a failed attempt is followed by another one, or by an error."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import httpx

from ._calls import Answer, Call
from .errors import (
    KINDS,
    AgentMemoryError,
    Conflict,
    InvalidInput,
    NotFound,
    Outcome,
    Timeout,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
    Unsupported,
)
from .jsontext import loads

T = TypeVar("T")

# The pause after attempt n is random, up to this many seconds times 2^n.
_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_MOST_DOUBLINGS = 20
# After an attempt that has brought changes, pauses are at most 0.8 seconds.
_KEPT = 2
_ATTEMPTS = 6
# These failures happen before anything is sent.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TOO_LONG = "the parameters of the call are longer than the 64 KiB of a URL: give fewer or shorter ones"
_BY_STATUS: dict[int, type[AgentMemoryError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    408: Timeout,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    422: InvalidInput,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Timeout,
}


class Attempts(Generic[T]):
    """The attempts of one call, within its deadline."""

    def __init__(self, call: Call[T], server: str, seconds: float, most: float = _ATTEMPTS) -> None:
        self.call = call
        self._writes = call.writes
        self._server = server
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._most = most
        self._made = 0
        self._unknown = False

    def remaining(self) -> float:
        """How many seconds are left until the deadline; raises :class:`Timeout` if it has passed."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._told(Timeout("the deadline of the call has passed"))
        return left

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._end

    def broken(self, error: Exception) -> AgentMemoryError:
        """The error for an attempt that got no complete answer."""
        if isinstance(error, _NEVER_SENT):
            message = f"nothing answers at {self._server}: start `agent-memory serve`, check the address, or let Memory.open start a server"
            return Unavailable(message, retryable=True)
        if isinstance(error, httpx.InvalidURL):
            return TooLarge(_TOO_LONG)
        outcome = self._unless_read()
        if isinstance(error, (httpx.TimeoutException, asyncio.TimeoutError)):
            return Timeout(f"{self._server} has not answered in time", outcome=outcome, retryable=True)
        return Unavailable(f"the connection to {self._server} broke", outcome=outcome, retryable=True)

    def read(self, status: int, headers: Mapping[str, str], text: str) -> T:
        """The result in an answer; raises the error that it reports, if any."""
        is_success = 200 <= status < 300
        # A proxy in between may answer in JSON too, but never with the problem details of this server.
        kind = "application/json" if is_success else "application/problem+json"
        try:
            body = loads(text) if headers.get("content-type", "").split(";")[0].strip() == kind else None
        except ValueError:
            body = None
        if not is_success or body is None:
            raise self.problem(body, status, headers)
        try:
            return self.call.read(Answer(status, body))
        except Unexpected as error:
            error.outcome = self._unless_read()
            raise

    def pause_after(self, error: AgentMemoryError) -> float:
        """How many seconds to wait before the next attempt; raises the error if there must be none."""
        if isinstance(error, Conflict) and self._unknown and self.call.settle is not None:
            self.call = self.call.settle
            return 0.0
        if isinstance(error, NotFound) and self._writes and not self.call.writes:
            error = Conflict("the document was removed meanwhile, or somebody else was first")
        self._made += 1
        self._unknown |= error.outcome is Outcome.UNKNOWN
        may_repeat = error.outcome is Outcome.NOT_DONE or self.call.repeatable
        if not (error.retryable and may_repeat) or self._made >= self._most:
            raise self._told(error)
        pause = random.uniform(0, min(_PAUSE * 2.0 ** min(self._made, _MOST_DOUBLINGS), _LONGEST_PAUSE))
        pause = max(pause, error.retry_after or 0.0)
        if time.monotonic() + pause >= self._end:
            raise self._told(error)
        return pause

    def renew(self) -> None:
        """Restarts the deadline after an attempt that has brought changes. Keeps some backoff, for connections that break repeatedly."""
        self._end = time.monotonic() + self._seconds
        self._made = min(self._made, _KEPT)

    def problem(self, body: Any, status: int | None = None, headers: Mapping[str, str] = MappingProxyType({})) -> AgentMemoryError:
        """The error that problem details describe, with their status unless another is given."""
        if status is None:
            named = body.get("status") if isinstance(body, dict) else None
            status = named if isinstance(named, int) else 500
        if not isinstance(body, dict) or not isinstance(body.get("detail"), str):
            return self._foreign(status)
        named = body.get("error")
        if named is None and status in (404, 405):
            message = f"{self._server} does not know this call: it is older than this client; upgrade it"
            return Unsupported(message, status=status)
        kind = KINDS.get(str(named)) or _BY_STATUS.get(status, Unexpected)
        message = body["detail"]
        if status == 401:
            message += ": give the token of the server to connect"
        return kind(
            message,
            outcome=Outcome.UNKNOWN if body.get("outcome") == "unknown" else Outcome.NOT_DONE,
            retryable=bool(body.get("retryable")),
            status=status,
            retry_after=_seconds(headers.get("retry-after")),
        )

    def _unless_read(self) -> Outcome:
        """The outcome of an attempt that the server may have carried out."""
        return Outcome.UNKNOWN if self.call.writes else Outcome.NOT_DONE

    def _told(self, error: AgentMemoryError) -> AgentMemoryError:
        if self._unknown and self._writes:
            error.outcome = Outcome.UNKNOWN
        return error

    def _foreign(self, status: int) -> AgentMemoryError:
        """The error for an answer of another server, such as a proxy, which does not know the outcome of the call."""
        if status in (414, 431):
            return TooLarge(_TOO_LONG, status=status)
        outcome = self._unless_read() if status >= 500 or status < 300 else Outcome.NOT_DONE
        message = f"what answers at {self._server} (status {status}) is not an agent-memory server, or is one behind a proxy that failed"
        kind = _BY_STATUS.get(status, Unexpected) if status >= 500 else Unexpected
        return kind(message, outcome=outcome, retryable=status in (429, 502, 503, 504), status=status)


def _seconds(retry_after: str | None) -> float | None:
    # This server never sends the other form, a date.
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else None
