"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from . import _calls as calls
from . import models
from ._attempts import Attempts
from ._calls import (
    KEEP,
    Call,
    Conditions,
    Embedding,
    Expect,
    Names,
    NewDocument,
    NewMemory,
    Paged,
    Precision,
    Query,
    Question,
    Selection,
    Span,
    Status,
    Time,
    Vector,
    Watched,
)
from ._connection import STREAMS, TIMEOUT, error_of_unreadable, options, request_of, transport
from ._server import Embedder, Server
from .errors import AgentMemoryError, Closed, NotFound
from .watch import AsyncWatch

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


def _stop(started: asyncio.Future[Server]) -> None:
    """Stops a server whose start was cancelled."""
    if started.exception() is None:
        started.result().stop()


class AsyncMemory:
    """:class:`agent_memory.Memory` with methods to await. It belongs to one event loop.

    The errors, the retries and ``timeout`` are the same. A call whose task is cancelled takes effect as a whole or not at all.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = TIMEOUT) -> None:
        """Use :meth:`open` or :meth:`connect` instead."""
        self.url = url
        self.token = token
        self._timeout = timeout
        settings = options(url, token)
        self._calls = httpx.AsyncHTTPTransport(**transport(settings))
        self._streams = httpx.AsyncClient(**{**settings, **STREAMS})

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database: str | os.PathLike[str],
        *,
        timeout: float = TIMEOUT,
        embedder: str | os.PathLike[str] | None = None,
        embedder_model: str | None = None,
        embedder_width: int | None = None,
    ) -> AsyncIterator[Self]:
        """Opens a database as :meth:`Memory.open` does. Use it in an ``async with``, whose end closes it."""
        named = Embedder(embedder, embedder_model, embedder_width)
        starting = asyncio.ensure_future(asyncio.to_thread(Server, database, timeout, named))
        try:
            server = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_stop)
            raise
        try:
            async with cls(server.url, server.token, timeout=timeout) as memory:
                await memory.health()
                yield memory
        finally:
            await asyncio.to_thread(server.stop)

    @classmethod
    def connect(cls, url: str, token: str | None = None, *, timeout: float = TIMEOUT) -> Self:
        """Connects to a running server. Nothing is sent before the first call; :meth:`health` checks whether it answers."""
        return cls(url, token, timeout=timeout)

    async def close(self) -> None:
        """Closes the connections, and ends the watches. A second call does nothing."""
        await self._streams.aclose()
        await self._calls.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def store(
        self,
        space: str,
        trigger: Any,
        *,
        context: Any = KEEP,
        created_at: Time | None = None,
        metadata: Mapping[str, Any] | None = None,
        status: Status | None = None,
        idempotency_key: str | None = None,
        expires_in: Span | None = None,
        expires_at: Time | None = None,
        vector: Vector | None = None,
    ) -> str:
        """Stores a memory and returns its id, as :meth:`Memory.store`."""
        call = calls.store(space, trigger, context, created_at, metadata, status, idempotency_key, expires_in, expires_at, vector)
        return await self._do(call)

    async def store_many(self, memories: Iterable[NewMemory]) -> list[str]:
        """Stores memories, all or none, at most 10,000 and 64 MiB of text, and returns their ids in order.

        Each is a dict with the arguments of :meth:`store`: ``{"space": "ana-m1", "trigger": {"text": "Hi"}}``.
        """
        return await self._do(calls.store_many(memories))

    async def update(
        self,
        id: str,
        *,
        context: Any = KEEP,
        merge_metadata: Mapping[str, Any] | None = None,
        replace_metadata: Mapping[str, Any] | None = None,
        status: Status | None = None,
        if_revision: int | None = None,
        expires_in: Span | None = None,
        expires_at: Time | None = None,
        never_expires: bool = False,
    ) -> models.Updated:
        """Changes the context, the metadata, the status or the expiry of a memory, as :meth:`Memory.update`."""
        call = calls.update(id, context, merge_metadata, replace_metadata, status, if_revision, expires_in, expires_at, never_expires)
        return await self._do(call)

    async def get(self, id: str, *, as_of: Time | None = None) -> models.MemoryRecord | None:
        """Reads one memory, as :meth:`Memory.get`."""
        return await self._or_none(calls.get(id, as_of))

    async def history(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> models.HistoryPage:
        """Reads a page of the versions of a memory, newest first: what each was, when it was committed, and who made it."""
        return await self._do(calls.history(id, limit, cursor))

    async def query(self, **query: Unpack[Query]) -> models.MemoryPage:
        """Reads a page of memories, by spaces and conditions.

        Spaces: ``space``, ``under``, ``prefix``, ``glob``, ``regex``, each a name or several (their union), or ``all=True``. Keep tenants
        apart with ``under``: ``prefix="guild1"`` also finds ``guild12``. Conditions: ``where`` (``metadata.topic = 'rust'``), ``text``
        (words of which a memory holds at least one), ``after``, ``before`` (times, exclusive), ``status``, ``exclude`` (ids). The page:
        ``order`` (``newest`` or ``oldest`` first), ``limit`` (50 unless given, at most 1,000), ``offset``, ``cursor``.
        """
        return await self._do(calls.query(query))

    async def pages(self, **query: Unpack[Query]) -> AsyncIterator[models.MemoryPage]:
        """Reads all pages of :meth:`query`, one after the other."""
        while True:
            page = await self.query(**query)
            yield page
            if page.next is None:
                return
            query = calls.following(query, page.next)

    async def walk(self, **query: Unpack[Query]) -> AsyncIterator[models.MemoryRecord]:
        """Reads all memories that :meth:`query` finds, each once, as :meth:`Memory.walk`."""
        async for page in self.pages(**query):
            for memory in page.memories:
                yield memory
            error_of_unreadable(page.unreadable)

    async def recall(self, text: str = "", **question: Unpack[Question]) -> models.Recalled:
        """Answers a question in words, best first, as :meth:`Memory.recall`."""
        return await self._do(calls.recall(text, question))

    async def vector_model(self) -> models.VectorModel | None:
        """The vector model of the database; ``None`` if none was set yet."""
        return await self._or_none(calls.vector_model())

    async def set_vector_model(self, name: str, width: int, precision: Precision = "compact") -> models.VectorModel:
        """Sets the vector model of the database, as :meth:`Memory.set_vector_model`."""
        return await self._do(calls.set_vector_model(name, width, precision))

    async def embed(self, embeddings: Iterable[Embedding], *, model: str) -> list[bool]:
        """Keeps vectors from the caller, as :meth:`Memory.embed`."""
        return await self._do(calls.embed(embeddings, model))

    async def put_document(
        self,
        collection: str,
        id: str,
        content: str,
        *,
        space: str,
        metadata: Mapping[str, Any] | None = None,
        created_at: Time | None = None,
        expect: Expect | None = None,
        expires_in: Span | None = None,
        expires_at: Time | None = None,
        vector: Vector | None = None,
    ) -> models.Document:
        """Creates or replaces a document, and returns the result, as :meth:`Memory.put_document`."""
        call = calls.put_document(collection, id, content, space, metadata, created_at, expect, expires_in, expires_at, vector)
        return await self._do(call)

    async def add_document(
        self,
        collection: str,
        content: str,
        *,
        space: str,
        metadata: Mapping[str, Any] | None = None,
        created_at: Time | None = None,
        expires_in: Span | None = None,
        expires_at: Time | None = None,
        vector: Vector | None = None,
    ) -> models.Document:
        """Creates a document under a new id, which is made before the first attempt, so that the call can be retried."""
        id = calls.new_id()
        call = calls.put_document(collection, id, content, space, metadata, created_at, "absent", expires_in, expires_at, vector)
        return await self._do(call)

    async def put_documents(self, documents: Iterable[NewDocument]) -> list[models.PutDocument]:
        """Creates or replaces documents in any collections, all or none, as :meth:`Memory.put_documents`."""
        return await self._do(calls.put_documents(documents))

    async def get_document(self, collection: str, id: str, *, as_of: Time | None = None) -> models.Document | None:
        """Reads one document, as :meth:`get` reads a memory. A removed document is ``None`` as of any time."""
        return await self._or_none(calls.get_document(collection, id, as_of))

    async def document_history(
        self, collection: str, id: str, *, limit: int | None = None, cursor: str | None = None, removed: bool = False
    ) -> models.HistoryPage:
        """Reads a page of the versions of a document, as :meth:`history` does of a memory.

        ``removed`` includes its removals and the versions before them; it needs a token that may use everything.
        """
        return await self._do(calls.document_history(collection, id, limit, cursor, removed))

    async def query_documents(self, collection: str, **query: Unpack[Paged]) -> models.DocumentPage:
        """Reads a page of documents, as :meth:`query` does of memories."""
        return await self._do(calls.query_documents(collection, query))

    async def document_pages(self, collection: str, **query: Unpack[Paged]) -> AsyncIterator[models.DocumentPage]:
        """Reads all pages of :meth:`query_documents`, one after the other."""
        while True:
            page = await self.query_documents(collection, **query)
            yield page
            if page.next is None:
                return
            query = calls.following(query, page.next)

    async def walk_documents(self, collection: str, **query: Unpack[Paged]) -> AsyncIterator[models.Document]:
        """Reads all documents that :meth:`query_documents` finds, as :meth:`walk` does memories."""
        async for page in self.document_pages(collection, **query):
            for document in page.documents:
                yield document
            error_of_unreadable(page.unreadable)

    async def remove_documents(
        self,
        collection: str,
        *,
        ids: Iterable[str] | None = None,
        max: int = 10,
        dry_run: bool = False,
        **selection: Unpack[Selection],
    ) -> models.Removed:
        """Removes the documents that satisfy every given condition, as :meth:`Memory.remove_documents`."""
        return await self._do(calls.remove_documents(collection, ids, max, dry_run, selection))

    async def remove_document(self, collection: str, id: str) -> bool:
        """Removes one document. Returns whether it existed."""
        return bool((await self.remove_documents(collection, ids=[id], max=1)).ids)

    async def erase(
        self,
        reason: str,
        *,
        ids: Iterable[str] | None = None,
        documents: bool = False,
        collections: Iterable[str] | None = None,
        limit: int | None = None,
        **selection: Unpack[Conditions],
    ) -> models.ErasedSlice:
        """Erases a slice of the selected records, as :meth:`Memory.erase`."""
        return await self._do(calls.erase(reason, ids, documents, collections, limit, selection))

    async def spaces(
        self,
        under: str | None = None,
        *,
        collection: str | None = None,
        depth: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> list[models.SpaceLevel]:
        """Lists the spaces right below one, or the top-level ones, as :meth:`Memory.spaces`."""
        return await self._do(calls.spaces(under, collection, depth, limit, cursor))

    async def collections(self) -> list[str]:
        """The names of the collections that hold a document and that the token may use."""
        return await self._do(calls.collections())

    def watch(
        self, *, of: Watched = "memories", collection: Names | None = None, start: str = "now", **conditions: Unpack[Conditions]
    ) -> AsyncWatch:
        """Watches the records of some spaces, as :meth:`Memory.watch`.

        >>> async with memory.watch(under="guild1", start="start") as changes:    # doctest: +SKIP
        ...     async for change in changes:
        ...         ...
        """
        if self._streams.is_closed:
            raise Closed("this client was closed")
        return AsyncWatch(self._streams, calls.watch(of, collection, start, conditions), self.url, self._timeout)

    async def health(self) -> models.Health:
        """The state of the engine: version, schema, latency and durability."""
        return await self._do(calls.health())

    async def _or_none(self, call: Call[T]) -> T | None:
        try:
            return await self._do(call)
        except NotFound:
            return None

    async def _do(self, call: Call[T]) -> T:
        attempts = Attempts(call, self.url, self._timeout)
        while True:
            try:
                return await self._attempt(attempts)
            except AgentMemoryError as error:
                pause = attempts.pause_after(error)
            await asyncio.sleep(pause)

    async def _attempt(self, attempts: Attempts[T]) -> T:
        if self._streams.is_closed:
            raise Closed("this client was closed")

        async def answered() -> tuple[int, httpx.Headers, bytes]:
            answer = await self._calls.handle_async_request(request_of(self._streams, attempts.call))
            async with aclosing(answer):
                return answer.status_code, answer.headers, await answer.aread()

        try:
            status, headers, body = await asyncio.wait_for(answered(), attempts.remaining())
        except (httpx.HTTPError, httpx.InvalidURL, asyncio.TimeoutError) as error:
            raise attempts.broken(error) from error
        return attempts.read(status, headers, body.decode(errors="replace"))
