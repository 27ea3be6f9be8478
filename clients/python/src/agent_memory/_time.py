"""Conversions between times and the server's milliseconds since 1970 UTC."""

from __future__ import annotations

import time as clock
from datetime import datetime, timedelta, timezone

from .errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def millis_of(time: int | datetime) -> int:
    """A time in milliseconds since 1970 UTC. A number is taken as such."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise InvalidInput("a datetime needs a time zone, as in datetime.now(timezone.utc)")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def expiry_of(expires_in: int | timedelta | None, expires_at: int | datetime | None) -> int | None:
    """An expiry in milliseconds since 1970 UTC, or ``None``. It is computed before the first attempt, so that retries have the same."""
    if expires_in is None:
        return None if expires_at is None else millis_of(expires_at)
    if expires_at is not None:
        raise InvalidInput("expires_in and expires_at can't be combined: leave one out")
    span = expires_in // timedelta(milliseconds=1) if isinstance(expires_in, timedelta) else expires_in
    if not isinstance(span, int) or isinstance(span, bool):
        raise InvalidInput("expires_in must be a whole number of milliseconds, or a timedelta")
    return clock.time_ns() // 1_000_000 + span


def time_of(millis: int) -> datetime:
    """The UTC time of a number of milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=millis)
