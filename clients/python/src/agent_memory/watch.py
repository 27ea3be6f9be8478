"""Watches: the changes of records, as they are committed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from ._calls import Call
from ._connection import request_of
from ._feed import Feed
from .errors import AgentMemoryError
from .models import Change

if TYPE_CHECKING:
    from typing_extensions import Self


class Watch(Iterator[Change]):
    """The changes of some records, one after the other, without end: what :meth:`Memory.watch` gives.

    As a context manager it begins with the block: it waits for its first change there, so that whatever is committed in the block
    comes, and a token that does not go on fails there. Without one it begins with the first ``next``.

    A connection that breaks, or on which nothing comes for 45 seconds, is replaced by one that goes on behind the last change, again and
    again for as long as a call may take. What then fails, and what can't succeed later, is raised, and ends the watch: :class:`FeedReset`
    means to begin anew with a snapshot. A change may come more than once.

    :meth:`close` ends it from any thread, and so do the end of the block and the end of the client. The iteration ends then.
    """

    def __init__(self, http: httpx.Client, call: Call[Any], server: str, seconds: float) -> None:
        """For :meth:`Memory.watch`."""
        self._link = _Link()
        self._changes = _changes(http, Feed(call, server, seconds), self._link)
        self._ahead: list[Change] = []

    def close(self) -> None:
        """Closes the connection. Does nothing the second time."""
        self._link.end()
        # Where another thread waits for a change, it closes what is left.
        with suppress(ValueError):
            self._changes.close()

    def __enter__(self) -> Self:
        if not self._ahead:
            self._ahead.extend(change for change in [next(self._changes, None)] if change is not None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        if self._ahead and not self._link.is_closed:
            return self._ahead.pop()
        return next(self._changes)


class AsyncWatch(AsyncIterator[Change]):
    """:class:`Watch` with ``async with`` and ``async for``. A task that is cancelled in a wait for a change can wait for it again."""

    def __init__(self, http: httpx.AsyncClient, call: Call[Any], server: str, seconds: float) -> None:
        """For :meth:`AsyncMemory.watch`."""
        self._http = http
        self._feed = Feed(call, server, seconds)
        self._link = _AsyncLink()
        self._changes = _async_changes(self._http, self._feed, self._link)
        self._ahead: list[Change] = []

    async def close(self) -> None:
        """Closes the connection. Does nothing the second time."""
        await self._link.end()
        # Where another task waits for a change, it closes what is left.
        with suppress(RuntimeError):
            await self._changes.aclose()

    async def __aenter__(self) -> Self:
        if not self._ahead:
            with suppress(StopAsyncIteration):
                self._ahead.append(await self._next())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        if self._ahead and not self._link.is_closed:
            return self._ahead.pop()
        return await self._next()

    async def _next(self) -> Change:
        try:
            return await anext(self._changes)
        except asyncio.CancelledError:
            self._changes = _async_changes(self._http, self._feed, self._link)
            raise


class _Link:
    """The connection of a watch, which any thread can end."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._socket: socket.socket | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wait(self, seconds: float) -> None:
        """Waits for the end, but not longer than so many seconds."""
        self._closed.wait(seconds)

    def hold(self, answer: httpx.Response) -> None:
        """Makes the connection of an answer the one that is ended."""
        self._socket = answer.extensions["network_stream"].get_extra_info("socket")
        if self.is_closed:
            self.end()

    def end(self) -> None:
        self._closed.set()
        held, self._socket = self._socket, None
        if held is not None:
            # Unlike a close this wakes the thread that reads, and unlike the method of a TLS socket it leaves its state to that thread.
            with suppress(OSError):
                socket.socket.shutdown(held, socket.SHUT_RDWR)


class _AsyncLink:
    """The connection of a watch, which any task can end."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._answer: httpx.Response | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def wait(self, seconds: float) -> None:
        """Waits for the end, but not longer than so many seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closed.wait(), seconds)

    async def hold(self, answer: httpx.Response) -> None:
        """Makes the connection of an answer the one that is ended."""
        self._answer = answer
        if self.is_closed:
            await self.end()

    async def end(self) -> None:
        self._closed.set()
        held, self._answer = self._answer, None
        if held is not None:
            await held.aclose()


def _changes(http: httpx.Client, feed: Feed, link: _Link) -> Generator[Change, None, None]:
    """The changes over all connections. It knows nothing of its watch, so that it ends with one that is let go."""
    while not link.is_closed and not http.is_closed:
        try:
            yield from _of_one_connection(http, feed, link)
        except AgentMemoryError as error:
            if link.is_closed or http.is_closed:
                return
            link.wait(feed.pause_after(error))


def _of_one_connection(http: httpx.Client, feed: Feed, link: _Link) -> Generator[Change, None, None]:
    call, seconds = feed.next_call()
    try:
        request = request_of(http, call, seconds)
        answer = http.send(request, stream=True)
        with closing(answer):
            link.hold(answer)
            connection = feed.connected(request, answer)
            for piece in answer.iter_bytes():
                yield from connection.read(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise feed.broken(error) from error
    raise connection.ended()


async def _async_changes(http: httpx.AsyncClient, feed: Feed, link: _AsyncLink) -> AsyncGenerator[Change, None]:
    while not link.is_closed and not http.is_closed:
        try:
            async with aclosing(_of_one_async_connection(http, feed, link)) as changes:
                async for change in changes:
                    yield change
        except AgentMemoryError as error:
            if link.is_closed or http.is_closed:
                return
            await link.wait(feed.pause_after(error))


async def _of_one_async_connection(http: httpx.AsyncClient, feed: Feed, link: _AsyncLink) -> AsyncGenerator[Change, None]:
    call, seconds = feed.next_call()
    try:
        request = request_of(http, call, seconds)
        answer = await http.send(request, stream=True)
        async with aclosing(answer):
            await link.hold(answer)
            connection = feed.connected(request, answer)
            async for piece in answer.aiter_bytes():
                for change in connection.read(piece):
                    yield change
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise feed.broken(error) from error
    raise connection.ended()
