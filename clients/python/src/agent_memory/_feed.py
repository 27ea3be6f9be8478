"""The position of a watch and its reconnects, which the sync and the async watch share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
from pydantic import ValidationError

from ._attempts import Attempts
from ._calls import Call
from ._events import Event, EventReader
from .errors import AgentMemoryError, Timeout, Unavailable, Unexpected
from .jsontext import loads
from .models import Change

# After this many seconds without data the connection counts as broken: a server sends something every 15 seconds.
SILENCE = 45.0
# The limit of an answer that is not a stream, in bytes.
_LARGEST_REFUSAL = 1 << 20


class Feed:
    """One watch, over all its connections."""

    def __init__(self, call: Call[Any], server: str, seconds: float) -> None:
        self.token: str | None = None
        """The token of the last change that was read."""
        self._server = server
        self._call = call
        self._attempts = Attempts(call, server, seconds, most=math.inf)
        self._brought = False

    def next_call(self) -> tuple[Call[Any], float]:
        """The request of the next connection, and the seconds until its response must begin. Raises :class:`Timeout` if none is left."""
        self._brought = False
        seconds = min(self._attempts.remaining(), SILENCE)
        if self.token is None:
            return self._call, seconds
        return replace(self._call, headers={**self._call.headers, "Last-Event-ID": self.token}), seconds

    def connected(self, request: httpx.Request, answer: httpx.Response) -> Connection:
        """The connection of a response. From now on each chunk has the full time, however little of the deadline is left."""
        # httpx reads this value when it starts to read the body.
        request.extensions["timeout"]["read"] = SILENCE
        return Connection(self, answer.status_code, answer.headers)

    def broken(self, error: Exception) -> AgentMemoryError:
        """The error for a connection that broke."""
        return self._attempts.broken(error)

    def pause_after(self, error: AgentMemoryError) -> float:
        """How many seconds to wait before the next connection; raises the error if there must be none.

        The deadline is that of a call, and restarts after each connection that has brought a change.
        """
        if self._brought:
            self._attempts.renew()
        return self._attempts.pause_after(error)

    def refused(self, status: int, headers: Mapping[str, str], text: str) -> AgentMemoryError:
        """The error for an answer that is not a stream."""
        try:
            self._attempts.read(status, headers, text)
        except AgentMemoryError as error:
            return error
        return Unexpected(f"the answer of {self._server} is not a stream of events: is this an agent-memory server?", status=status)

    def check_time(self) -> None:
        """Raises :class:`Timeout` if the deadline passes during an answer that is not a stream."""
        if self._attempts.is_late:
            raise Timeout(f"{self._server} has not answered in time")

    def change_of(self, event: Event) -> Change:
        """The change that an event holds; raises the error that it reports, if any."""
        try:
            body = loads(event.data) if event.data else {}
        except ValueError:
            body = None
        if event.name == "error":
            raise self._attempts.problem(body)
        token = event.id
        # The token becomes the value of a header.
        if not isinstance(body, dict) or not token or not token.isascii() or not token.isprintable():
            raise self._foreign()
        try:
            change = Change.model_validate({**body, "kind": event.name, "token": token})
        except ValidationError:
            # The text of this error would quote the record.
            raise self._foreign() from None
        self.token, self._brought = token, True
        return change

    def _foreign(self) -> AgentMemoryError:
        return Unexpected(f"an event of {self._server} is not a change: is this an agent-memory server?")


class Connection:
    """One connection of a watch."""

    def __init__(self, feed: Feed, status: int, headers: Mapping[str, str]) -> None:
        self._feed = feed
        self._status = status
        self._headers = headers
        self._events = EventReader()
        self._refusal = b""
        media_type = headers.get("content-type", "").split(";")[0].strip()
        self._is_stream = status == 200 and media_type == "text/event-stream"

    def read(self, piece: bytes) -> Iterator[Change]:
        """The changes that end in a chunk of the answer."""
        if self._is_stream:
            for event in self._events.read(piece):
                yield self._feed.change_of(event)
        elif len(self._refusal) < _LARGEST_REFUSAL:
            self._feed.check_time()
            self._refusal += piece
        else:
            raise self.ended()

    def ended(self) -> AgentMemoryError:
        """The error at the end of the answer, since a watch never ends by itself."""
        if self._is_stream:
            return Unavailable("the server has ended the watch", retryable=True)
        return self._feed.refused(self._status, self._headers, self._refusal.decode(errors="replace"))
