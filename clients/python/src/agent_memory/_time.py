"""Times of the server, which are milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from .errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def millis_of(time: int | datetime) -> int:
    """The milliseconds of a time that may be milliseconds already."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise InvalidInput("a time needs its zone, as in datetime.now(timezone.utc)")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def time_of(millis: int) -> datetime:
    """The time in UTC of some milliseconds."""
    return _EPOCH + timedelta(milliseconds=millis)
