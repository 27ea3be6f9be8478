"""The client that waits for its answers."""

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

    Errors are those of :mod:`agent_memory.errors`. A call is attempted again only where that can't do anything twice: reads, stores
    (each has an idempotency key that is made before the first attempt), and writes that name a revision; all else only where
    the error of the attempt says that nothing was written. ``timeout`` in seconds holds for a call with all its attempts.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = TIMEOUT, server: Server | None = None) -> None:
        """For :meth:`open` and :meth:`connect`."""
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
        """Opens a database by a server of its own, which ends with this object, and with this process.

        ``database`` is the path of a SQLite file, which is made where it is missing, or the URL of any engine, such as
        ``postgres://app@localhost/agents``.

        ``embedder`` is the model by which the server makes vectors, so that :meth:`recall` finds what is meant: the folder of a model that
        runs in the server, or the base of the URLs of anything that speaks OpenAI's embeddings, such as ``http://localhost:11434/v1``. The
        latter needs ``embedder_model``, its name, and ``embedder_width``, how many numbers a vector has; a key is taken from
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
        """Uses a server that runs. Nothing is sent before the first call; :meth:`health` tells whether it answers."""
        return cls(url, token, timeout=timeout)

    def close(self) -> None:
        """Closes the connections, ends the watches, and the server of :meth:`open`. Does nothing the second time."""
        with self._watching:
            self._is_closed = True
            watches = list(self._watches)
        # Only now, since a call that begins later would open a connection anew.
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

        ``space`` is where it happened, from broad to narrow (``discord-guild1-general-ana-m1``; 1 to 512 bytes), ``trigger`` what
        happened, any JSON of at most 4 MiB, ``context`` what came of it, of at most 8 MiB, if that is known already.
        ``created_at`` is now unless given, and ``status`` is ``pending``. ``metadata`` is an object of at most 64 KiB. A second store
        with the same ``idempotency_key``, trigger and space returns the first id; with another trigger or space it is
        :class:`Conflict`.

        With ``expires_in``, milliseconds or a ``timedelta`` from now on, or ``expires_at``, a time, the memory expires: from then on no
        answer has it, ``get`` is as of one that was erased, and it is erased. It never does without.

        ``vector`` is what it means, by the model of the database (:meth:`set_vector_model`): its numbers, or its base64. A server with a
        model of its own makes one where none is given.
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
        """Changes the context (``CLEAR`` takes it away), the metadata, the status or the expiry of a memory; what is not given stays.

        ``expires_in`` and ``expires_at`` are those of :meth:`store`, and with ``never_expires`` it expires no more.
        ``merge_metadata`` is a merge patch (RFC 7396). Where the memory has another revision than ``if_revision``, it is
        :class:`Conflict`; without one, the call is not attempted again while it is unknown what an attempt did.
        """
        call = calls.update(id, context, merge_metadata, replace_metadata, status, if_revision, expires_in, expires_at, never_expires)
        return self._do(call)

    def get(self, id: str, *, as_of: Time | None = None) -> models.MemoryRecord | None:
        """Reads one memory, as it was at ``as_of`` if that is given; ``None`` if there is none with this id, or was none then.

        A time before the ledger had a history is :class:`InvalidInput`. One that was erased is :class:`Erased` for who may erase, and
        ``None`` for others.
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
        """Reads all memories that :meth:`query` finds, each once, also while others are stored.

        Fails with :class:`Corrupt` behind the page that has a row that can't be read; :meth:`pages` goes on.
        """
        for page in self.pages(**query):
            yield from page.memories
            error_of_unreadable(page.unreadable)

    def recall(self, text: str = "", **question: Unpack[Question]) -> models.Recalled:
        """Answers a question in words, best first, from the memories of some spaces, or the documents of a ``collection``.

        The spaces and conditions are those of :meth:`query`. ``limit`` is 10 unless given, ``neighbours`` says how many records on each
        side of a hit come with it, ``explain`` why it is one; ``language``, ``container`` and ``speaker`` how the records are read.

        A server that has an embedding model asks by what the question means, too, unless ``meaning=False``; with ``meaning=True`` it is an
        error where it can't. With ``vector``, what the question means by the caller's own model, the text may be empty.
        """
        return self._do(calls.recall(text, question))

    def vector_model(self) -> models.VectorModel | None:
        """The model that the database has its vectors from; ``None`` where it has none yet."""
        return self._or_none(calls.vector_model())

    def set_vector_model(self, name: str, width: int, precision: Precision = "compact") -> models.VectorModel:
        """Makes a model that of the database, whose vectors have ``width`` numbers, each kept in one byte or, ``exact``, in four.

        The vectors of another model count no more, until that is the model again. It is for who may write everything, which no token of a
        file may.
        """
        return self._do(calls.set_vector_model(name, width, precision))

    def embed(self, embeddings: Iterable[Embedding], *, model: str) -> list[bool]:
        """Keeps vectors that the caller has made, at most 1,000, beside records that are there; tells of each whether it is kept.

        Each is a dict with the ``id`` of a memory, or ``collection`` and ``id`` of a document, its ``revision`` and the ``vector``. One of
        a record that is not there, or that has another revision, is not kept. Where ``model`` is not that of the database, it is an error.
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
        """Creates or replaces a document of at most 1 MiB, and returns it as it is then.

        With ``expect``, the revision that must be in place or ``"absent"``, anything else is :class:`Conflict`; without it, the call is not
        attempted again while it is unknown what an attempt did. A collection has a name of ``[a-z0-9_-]``, a document an id of 1 to 256
        bytes. ``expires_in`` and ``expires_at`` are those of :meth:`store`; without them it expires no more, whatever was in place.
        ``vector`` is that of :meth:`store`; with one, a conflict after a lost attempt has the outcome ``UNKNOWN``.
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
        """Creates a document under an id that is made for it before the first attempt."""
        id = calls.new_id()
        call = calls.put_document(collection, id, content, space, metadata, created_at, "absent", expires_in, expires_at, vector)
        return self._do(call)

    def put_documents(self, documents: Iterable[NewDocument]) -> list[models.PutDocument]:
        """Creates or replaces documents of any collections, all or none, at most 10,000 and 64 MiB of text, in their order.

        Each is a dict with the arguments of :meth:`put_document`: ``{"collection": "notes", "space": "ana", "content": "Hi"}``. Without an
        ``id`` it gets one that nobody else makes. The call is attempted again while it is unknown what an attempt did only where each
        document has an ``expect`` or a new id, and a :class:`Conflict` then has the outcome ``UNKNOWN``.
        """
        return self._do(calls.put_documents(documents))

    def get_document(self, collection: str, id: str, *, as_of: Time | None = None) -> models.Document | None:
        """Reads one document, as :meth:`get` does a memory; a document that was removed is there no more, whatever the time."""
        return self._or_none(calls.get_document(collection, id, as_of))

    def document_history(
        self, collection: str, id: str, *, limit: int | None = None, cursor: str | None = None, removed: bool = False
    ) -> models.HistoryPage:
        """Reads a page of the versions of a document, as :meth:`history` does of a memory.

        With ``removed`` also its removals and what was there before them, for who may use everything.
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
        """Removes the documents that satisfy all that is given: ids, spaces, ``where`` and ``text``.

        When more than ``max`` are found, none is removed (:class:`LimitExceeded`). ``dry_run`` tells what would be removed.
        """
        return self._do(calls.remove_documents(collection, ids, max, dry_run, selection))

    def remove_document(self, collection: str, id: str) -> bool:
        """Removes one document; tells whether it was there."""
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
        """Erases a slice of what is selected, with its history and all else that is kept of it: there is no way back.

        Either ``ids`` of memories, at most 1,000, or the spaces and conditions of :meth:`query`; with ``documents`` also the documents that
        these find, of some ``collections`` or of all. ``reason`` stays of each record, as a tombstone, and nothing brings the record back.
        A slice has ``limit`` records at most, 100 unless given: call it again until ``is_complete``. An erasure of everything is
        :class:`InvalidInput`. The token needs ``erase = true``.

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

        ``depth`` is how many levels, 1 unless given and at most 8. A level has ``limit`` spaces, 50 unless given and at most 1,000; its
        ``next`` is the ``cursor`` of the rest, with the same ``under``.
        """
        return self._do(calls.spaces(under, collection, depth, limit, cursor))

    def collections(self) -> list[str]:
        """The collections that hold a document, as far as the token may use them."""
        return self._do(calls.collections())

    def watch(
        self, *, of: Watched = "memories", collection: Names | None = None, start: str = "now", **conditions: Unpack[Conditions]
    ) -> Watch:
        """Watches the records of some spaces: an iterator over what is stored, updated and removed, as it is committed.

        The spaces and conditions are those of :meth:`query`; ``of`` says whether memories, ``documents`` or ``both`` are watched, and
        ``collection`` which documents, or all. ``start`` is ``now``, or ``start``: a snapshot of what is there, and then what changes,
        without a gap; or the ``token`` of a change, to go on behind it.

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
        """How the engine is."""
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
