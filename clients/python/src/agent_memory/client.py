"""The synchronous client."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
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
from .watch import Watch

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


class Memory:
    """A memory for agents: a ledger of what happened, documents, and recall. Safe to share between threads.

    Errors are those of :mod:`agent_memory.errors`. A failed attempt is retried only if that can't repeat an effect: reads, stores (each
    gets an idempotency key before the first attempt), and writes that name a revision. Any other call is retried only if the error says
    that nothing was written. ``timeout``, in seconds, is the limit for a call with all its attempts.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = TIMEOUT, server: Server | None = None) -> None:
        """Use :meth:`open` or :meth:`connect` instead."""
        self.url = url
        self.token = token
        self._timeout = timeout
        self._server = server
        settings = options(url, token)
        self._calls = httpx.HTTPTransport(**transport(settings))
        self._streams = httpx.Client(**{**settings, **STREAMS})
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._watching = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        database: str | os.PathLike[str],
        *,
        timeout: float = TIMEOUT,
        embedder: str | os.PathLike[str] | None = None,
        embedder_model: str | None = None,
        embedder_width: int | None = None,
    ) -> Self:
        """Starts a server for a database. The server ends when this object is closed, or when this process ends.

        ``database`` is the path of a SQLite file, which is created if it is missing, or the URL of any engine, such as
        ``postgres://app@localhost/agents``.

        ``embedder`` is the embedding model of the server, with which :meth:`recall` also finds by meaning: the folder of a model that runs
        in the server, or the base URL of an endpoint with OpenAI's embeddings API, such as ``http://localhost:11434/v1``. An endpoint needs
        ``embedder_model``, the name of the model, and ``embedder_width``, the length of its vectors; its key is taken from
        ``AGENT_MEMORY_MODEL_KEY`` in the environment.
        """
        server = Server(database, timeout, Embedder(embedder, embedder_model, embedder_width))
        try:
            memory = cls(server.url, server.token, timeout=timeout, server=server)
            memory.health()
        except BaseException:
            server.stop()
            raise
        return memory

    @classmethod
    def connect(cls, url: str, token: str | None = None, *, timeout: float = TIMEOUT) -> Self:
        """Connects to a running server. Nothing is sent before the first call; :meth:`health` checks whether it answers."""
        return cls(url, token, timeout=timeout)

    def close(self) -> None:
        """Closes the connections, ends the watches, and stops the server of :meth:`open`. A second call does nothing."""
        with self._watching:
            self._is_closed = True
            watches = list(self._watches)
        # After the flag is set: a call that begins now fails, instead of opening a new connection.
        self._calls.close()
        for watch in watches:
            watch.close()
        self._streams.close()
        if self._server is not None:
            self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def store(
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
        """Stores a memory and returns its id.

        ``space`` is where it happened, from broad to narrow (``discord-guild1-general-ana-m1``; 1 to 512 bytes). ``trigger`` is what
        happened: any JSON of at most 4 MiB. ``context`` is what came of it, if that is known already: any JSON of at most 8 MiB.
        ``created_at`` defaults to now, and ``status`` to ``pending``. ``metadata`` is an object of at most 64 KiB. A second store with the
        same ``idempotency_key``, trigger and space returns the first id; with another trigger or space it raises :class:`Conflict`.

        The memory expires after ``expires_in`` (milliseconds, or a ``timedelta``) or at ``expires_at`` (a time); without either it never
        does. From then on no answer contains it, :meth:`get` treats it as erased, and the server erases it.

        ``vector`` is the memory's vector by the model of the database (:meth:`set_vector_model`), as numbers or base64. A server with an
        embedding model makes one if none is given.
        """
        call = calls.store(space, trigger, context, created_at, metadata, status, idempotency_key, expires_in, expires_at, vector)
        return self._do(call)

    def store_many(self, memories: Iterable[NewMemory]) -> list[str]:
        """Stores memories, all or none, at most 10,000 and 64 MiB of text, and returns their ids in order.

        Each is a dict with the arguments of :meth:`store`: ``{"space": "ana-m1", "trigger": {"text": "Hi"}}``.
        """
        return self._do(calls.store_many(memories))

    def update(
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
        """Changes the context (``CLEAR`` removes it), the metadata, the status or the expiry of a memory. Arguments that are not given
        change nothing.

        ``expires_in`` and ``expires_at`` are those of :meth:`store`; ``never_expires`` removes the expiry. ``merge_metadata`` is a merge
        patch (RFC 7396). If the memory has a revision other than ``if_revision``, it raises :class:`Conflict`. Without ``if_revision``, the
        call is not retried while the outcome of an attempt is unknown.
        """
        call = calls.update(id, context, merge_metadata, replace_metadata, status, if_revision, expires_in, expires_at, never_expires)
        return self._do(call)

    def get(self, id: str, *, as_of: Time | None = None) -> models.MemoryRecord | None:
        """Reads one memory, as of the time ``as_of`` if that is given; ``None`` if no memory has this id, or had it then.

        A time before the ledger had a history raises :class:`InvalidInput`. An erased memory raises :class:`Erased` for a token that may
        erase, and is ``None`` for others.
        """
        return self._or_none(calls.get(id, as_of))

    def history(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> models.HistoryPage:
        """Reads a page of the versions of a memory, newest first: what each was, when it was committed, and who made it."""
        return self._do(calls.history(id, limit, cursor))

    def query(self, **query: Unpack[Query]) -> models.MemoryPage:
        """Reads a page of memories, by spaces and conditions.

        Spaces: ``space``, ``under``, ``prefix``, ``glob``, ``regex``, each a name or several (their union), or ``all=True``. Keep tenants
        apart with ``under``: ``prefix="guild1"`` also finds ``guild12``. Conditions: ``where`` (``metadata.topic = 'rust'``), ``text``
        (words of which a memory holds at least one), ``after``, ``before`` (times, exclusive), ``status``, ``exclude`` (ids). The page:
        ``order`` (``newest`` or ``oldest`` first), ``limit`` (50 unless given, at most 1,000), ``offset``, ``cursor``.
        """
        return self._do(calls.query(query))

    def pages(self, **query: Unpack[Query]) -> Iterator[models.MemoryPage]:
        """Reads all pages of :meth:`query`, one after the other."""
        while True:
            page = self.query(**query)
            yield page
            if page.next is None:
                return
            query = calls.following(query, page.next)

    def walk(self, **query: Unpack[Query]) -> Iterator[models.MemoryRecord]:
        """Reads all memories that :meth:`query` finds, each once, even while others are stored.

        Raises :class:`Corrupt` after a page with a row that can't be read; :meth:`pages` continues after such a page.
        """
        for page in self.pages(**query):
            yield from page.memories
            error_of_unreadable(page.unreadable)

    def recall(self, text: str = "", **question: Unpack[Question]) -> models.Recalled:
        """Answers a question in words, best first, from the memories of some spaces, or the documents of a ``collection``.

        The spaces and conditions are those of :meth:`query`. ``limit`` defaults to 10. ``neighbours`` is the number of records on each side
        of a hit that come with it. ``explain`` returns the terms that matched. ``language``, ``container`` and ``speaker`` say how the
        records are read.

        A server with an embedding model also searches by meaning, unless ``meaning=False``; ``meaning=True`` raises an error if it can't.
        With ``vector``, the question's vector by the caller's own model, the text may be empty.
        """
        return self._do(calls.recall(text, question))

    def vector_model(self) -> models.VectorModel | None:
        """The vector model of the database; ``None`` if none was set yet."""
        return self._or_none(calls.vector_model())

    def set_vector_model(self, name: str, width: int, precision: Precision = "compact") -> models.VectorModel:
        """Sets the vector model of the database: vectors of ``width`` numbers, each kept in one byte (``compact``) or four (``exact``).

        Vectors of other models are ignored until their model is set again. Only a caller who may write everything may do this; no token of
        a token file may.
        """
        return self._do(calls.set_vector_model(name, width, precision))

    def embed(self, embeddings: Iterable[Embedding], *, model: str) -> list[bool]:
        """Keeps vectors from the caller, at most 1,000, beside existing records. Returns for each whether it was kept.

        Each is a dict with the ``id`` of a memory, or the ``collection`` and ``id`` of a document, its ``revision`` and the ``vector``. A
        vector is not kept if the record does not exist or has another revision. A ``model`` other than that of the database is an error.
        """
        return self._do(calls.embed(embeddings, model))

    def put_document(
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
        """Creates or replaces a document of at most 1 MiB, and returns the result.

        ``expect`` is the revision that must be in place, or ``"absent"``; otherwise it raises :class:`Conflict`. Without ``expect``, the
        call is not retried while the outcome of an attempt is unknown. The name of a collection consists of ``[a-z0-9_-]``, and the id of a
        document has 1 to 256 bytes. ``expires_in`` and ``expires_at`` are those of :meth:`store`; without them the document never expires,
        even if it did before. ``vector`` is that of :meth:`store`; with one, a conflict after an attempt without an answer has the outcome
        ``UNKNOWN``.
        """
        call = calls.put_document(collection, id, content, space, metadata, created_at, expect, expires_in, expires_at, vector)
        return self._do(call)

    def add_document(
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
        return self._do(call)

    def put_documents(self, documents: Iterable[NewDocument]) -> list[models.PutDocument]:
        """Creates or replaces documents in any collections, all or none: at most 10,000, with 64 MiB of text. Returns them in order.

        Each is a dict with the arguments of :meth:`put_document`: ``{"collection": "notes", "space": "ana", "content": "Hi"}``. Without an
        ``id`` it gets a new one. While the outcome of an attempt is unknown, the call is retried only if each document has an ``expect`` or
        a new id, and a :class:`Conflict` then has the outcome ``UNKNOWN``.
        """
        return self._do(calls.put_documents(documents))

    def get_document(self, collection: str, id: str, *, as_of: Time | None = None) -> models.Document | None:
        """Reads one document, as :meth:`get` reads a memory. A removed document is ``None`` as of any time."""
        return self._or_none(calls.get_document(collection, id, as_of))

    def document_history(
        self, collection: str, id: str, *, limit: int | None = None, cursor: str | None = None, removed: bool = False
    ) -> models.HistoryPage:
        """Reads a page of the versions of a document, as :meth:`history` does of a memory.

        ``removed`` includes its removals and the versions before them; it needs a token that may use everything.
        """
        return self._do(calls.document_history(collection, id, limit, cursor, removed))

    def query_documents(self, collection: str, **query: Unpack[Paged]) -> models.DocumentPage:
        """Reads a page of documents, as :meth:`query` does of memories."""
        return self._do(calls.query_documents(collection, query))

    def document_pages(self, collection: str, **query: Unpack[Paged]) -> Iterator[models.DocumentPage]:
        """Reads all pages of :meth:`query_documents`, one after the other."""
        while True:
            page = self.query_documents(collection, **query)
            yield page
            if page.next is None:
                return
            query = calls.following(query, page.next)

    def walk_documents(self, collection: str, **query: Unpack[Paged]) -> Iterator[models.Document]:
        """Reads all documents that :meth:`query_documents` finds, as :meth:`walk` does memories."""
        for page in self.document_pages(collection, **query):
            yield from page.documents
            error_of_unreadable(page.unreadable)

    def remove_documents(
        self,
        collection: str,
        *,
        ids: Iterable[str] | None = None,
        max: int = 10,
        dry_run: bool = False,
        **selection: Unpack[Selection],
    ) -> models.Removed:
        """Removes the documents that satisfy every given condition: ids, spaces, ``where`` and ``text``.

        If more than ``max`` are found, none is removed (:class:`LimitExceeded`). ``dry_run`` only returns what would be removed.
        """
        return self._do(calls.remove_documents(collection, ids, max, dry_run, selection))

    def remove_document(self, collection: str, id: str) -> bool:
        """Removes one document. Returns whether it existed."""
        return bool(self.remove_documents(collection, ids=[id], max=1).ids)

    def erase(
        self,
        reason: str,
        *,
        ids: Iterable[str] | None = None,
        documents: bool = False,
        collections: Iterable[str] | None = None,
        limit: int | None = None,
        **selection: Unpack[Conditions],
    ) -> models.ErasedSlice:
        """Erases a slice of the selected records, with their histories and everything else that is kept of them. This can't be undone.

        Select either memories by ``ids``, at most 1,000, or by the spaces and conditions of :meth:`query`; ``documents`` includes the
        documents that these find, in some ``collections`` or in all. A tombstone with the ``reason`` stays of each record, and keeps it
        from being restored. A slice has at most ``limit`` records, 100 by default: call it again until ``is_complete``. An erasure of
        everything raises :class:`InvalidInput`. The token needs ``erase = true``.

            >>> while not memory.erase("Ana asked for it", under="guild1-ana").is_complete:    # doctest: +SKIP
            ...     pass
        """
        return self._do(calls.erase(reason, ids, documents, collections, limit, selection))

    def spaces(
        self,
        under: str | None = None,
        *,
        collection: str | None = None,
        depth: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> list[models.SpaceLevel]:
        """Lists the spaces right below one, or the top-level ones: of the ledger, or of the documents of a ``collection``.

        ``depth`` is the number of levels, 1 by default and at most 8. A level has at most ``limit`` spaces, 50 by default and at most
        1,000; its ``next`` is the ``cursor`` of the rest, to be used with the same ``under``.
        """
        return self._do(calls.spaces(under, collection, depth, limit, cursor))

    def collections(self) -> list[str]:
        """The names of the collections that hold a document and that the token may use."""
        return self._do(calls.collections())

    def watch(
        self, *, of: Watched = "memories", collection: Names | None = None, start: str = "now", **conditions: Unpack[Conditions]
    ) -> Watch:
        """Watches the records of some spaces: an iterator over stores, updates and removals, as they are committed.

        The spaces and conditions are those of :meth:`query`. ``of`` says whether ``memories``, ``documents`` or ``both`` are watched, and
        ``collection`` names the collections of the documents, all by default. ``start`` is ``now``; or ``start``, for a snapshot of the
        existing records and then the changes, without a gap; or the ``token`` of a change, to resume after it.

            >>> with memory.watch(under="guild1", start="start") as changes:    # doctest: +SKIP
            ...     for change in changes:
            ...         ...
        """
        call = calls.watch(of, collection, start, conditions)
        with self._watching:
            if self._is_closed:
                raise Closed("this client was closed")
            watch = Watch(self._streams, call, self.url, self._timeout)
            self._watches.add(watch)
        return watch

    def health(self) -> models.Health:
        """The state of the engine: version, schema, latency and durability."""
        return self._do(calls.health())

    def _or_none(self, call: Call[T]) -> T | None:
        try:
            return self._do(call)
        except NotFound:
            return None

    def _do(self, call: Call[T]) -> T:
        attempts = Attempts(call, self.url, self._timeout)
        while True:
            try:
                return self._attempt(attempts)
            except AgentMemoryError as error:
                pause = attempts.pause_after(error)
            time.sleep(pause)

    def _attempt(self, attempts: Attempts[T]) -> T:
        if self._is_closed:
            raise Closed("this client was closed")
        left = attempts.remaining()
        try:
            answer = self._calls.handle_request(request_of(self._streams, attempts.call, left))
            with closing(answer):
                chunks = []
                for chunk in answer.iter_bytes():
                    chunks.append(chunk)
                    if attempts.is_late:
                        raise httpx.ReadTimeout("the answer is still under way")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise attempts.broken(error) from error
        return attempts.read(answer.status_code, answer.headers, b"".join(chunks).decode(errors="replace"))
