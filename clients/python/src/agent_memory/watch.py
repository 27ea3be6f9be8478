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
    """An endless iterator over the changes of some records, returned by :meth:`Memory.watch`.

    As a context manager it begins with the block: it waits for its first change there, so that everything committed in the block comes,
    and a token that can't be resumed fails there. Otherwise it begins with the first ``next``.

    If a connection breaks, or is silent for 45 seconds, the watch reconnects and resumes after the last change, repeatedly until the
    deadline of a call has passed. Then, or if the error is permanent, it raises the error and ends; :class:`FeedReset` means to begin again
    with a snapshot. A change may come more than once.

    :meth:`close`, which any thread may call, the end of the block, and closing the client end the iteration.
    """

    def __init__(self, http: httpx.Client, call: Call[Any], server: str, seconds: float) -> None:
        """Use :meth:`Memory.watch` instead."""
        self._link = _Link()
        self._changes = _changes(http, Feed(call, server, seconds), self._link)
        self._ahead: list[Change] = []

    def close(self) -> None:
        """Closes the connection, which ends the iteration. A second call does nothing."""
        self._link.end()
        # If another thread waits for a change, that thread closes the generator.
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
    """:class:`Watch` for ``async with`` and ``async for``. A cancelled wait for a change loses nothing: the next wait gets it."""

    def __init__(self, http: httpx.AsyncClient, call: Call[Any], server: str, seconds: float) -> None:
        """Use :meth:`AsyncMemory.watch` instead."""
        self._http = http
        self._feed = Feed(call, server, seconds)
        self._link = _AsyncLink()
        self._changes = _async_changes(self._http, self._feed, self._link)
        self._ahead: list[Change] = []

    async def close(self) -> None:
        """Closes the connection, which ends the iteration. A second call does nothing."""
        await self._link.end()
        # If another task waits for a change, that task closes the generator.
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
    """The present connection of a watch. Any thread can end it."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._socket: socket.socket | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wait(self, seconds: float) -> None:
        """Waits until the watch is closed, for at most ``seconds``."""
        self._closed.wait(seconds)

    def hold(self, answer: httpx.Response) -> None:
        """Sets the connection of an answer as the present one."""
        self._socket = answer.extensions["network_stream"].get_extra_info("socket")
        if self.is_closed:
            self.end()

    def end(self) -> None:
        self._closed.set()
        held, self._socket = self._socket, None
        if held is not None:
            # Unlike `close`, this wakes the reading thread; unlike the method of a TLS socket, it leaves the TLS state to that thread.
            with suppress(OSError):
                socket.socket.shutdown(held, socket.SHUT_RDWR)


class _AsyncLink:
    """The present connection of a watch. Any task can end it."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._answer: httpx.Response | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def wait(self, seconds: float) -> None:
        """Waits until the watch is closed, for at most ``seconds``."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._closed.wait(), seconds)

    async def hold(self, answer: httpx.Response) -> None:
        """Sets the connection of an answer as the present one."""
        self._answer = answer
        if self.is_closed:
            await self.end()

    async def end(self) -> None:
        self._closed.set()
        held, self._answer = self._answer, None
        if held is not None:
            await held.aclose()


def _changes(http: httpx.Client, feed: Feed, link: _Link) -> Generator[Change, None, None]:
    """The changes over all connections. It holds no reference to its watch, so that it ends when the watch is garbage-collected."""
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
