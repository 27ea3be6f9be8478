"""A parser of server-sent events, as specified by the WHATWG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import Unexpected

# The largest memory has 12 MiB of JSON and its metadata; the largest document has 1 MiB of text, every character of which may be escaped.
LARGEST = 16 << 20


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    data: str
    id: str | None
    """The last id in the stream, from this event or an earlier one."""


class EventReader:
    """Parses the events of one stream. Chunks may end anywhere; an incomplete event is buffered, up to ``largest`` bytes."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._line: list[bytes] = []
        self._length = 0
        self._ends_in_cr = False
        self._is_first = True
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None

    def read(self, piece: bytes) -> Iterator[Event]:
        """The events that end in this chunk. Raises :class:`Unexpected` for one that is too large."""
        if not piece:
            return
        # A CR ends its line at once, so an LF right after it belongs to the same line end.
        starts_in_lf = piece[:1] == b"\n"
        rest = piece[1:] if self._ends_in_cr and starts_in_lf else piece
        self._ends_in_cr = piece[-1:] == b"\r"
        first, *others = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._hold(first)
        for other in others:
            line = b"".join(self._line)
            self._line, self._length = [], 0
            event = self._take(line)
            if event is not None:
                yield event
            self._hold(other)

    def _hold(self, piece: bytes) -> None:
        self._line.append(piece)
        self._length += len(piece)
        if self._length + self._size > self._largest:
            raise Unexpected(f"an event of the stream has more than {self._largest >> 20} MiB: is this an agent-memory server?")

    def _take(self, line: bytes) -> Event | None:
        """Parses a line, and returns the event that it ends."""
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._ended()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._name = _text(value)
        elif name == b"id" and b"\0" not in value:
            self._id = _text(value)
        return None

    def _ended(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        # Unlike a browser, this accepts an event without data.
        return Event(name or "message", _text(b"\n".join(data)), self._id) if name or data else None


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
