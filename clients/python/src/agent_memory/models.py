"""The answers of the server. Fields that a newer server adds are kept in ``model_extra``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf
from pydantic.alias_generators import to_camel

from ._table import table
from ._time import time_of
from .jsontext import JsonText, dumps

_Text = Annotated[InstanceOf[JsonText], BeforeValidator(lambda value: value if isinstance(value, JsonText) else dumps("a value", value))]


class Model(BaseModel):
    """An object in an answer. Its fields have the server's names in snake case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)


class MemoryRecord(Model):
    """A memory of the ledger: what happened, and what came of it."""

    id: str
    space_id: str
    trigger_text: _Text = Field(alias="trigger")
    """What happened, byte for byte as it was stored."""
    context_text: _Text | None = Field(default=None, alias="context")
    """What came of it, byte for byte as it was stored; ``None`` if there is none, and the text ``null`` if it is JSON null."""
    created_at: int
    """When it happened, in milliseconds since 1970 UTC, as the caller said."""
    updated_at: int | None = None
    """When it was last updated, in milliseconds since 1970 UTC, by the server's clock."""
    metadata: dict[str, Any] = {}
    status: str
    """``pending``, ``running``, ``completed``, ``failed`` or ``observed``."""
    revision: int
    """Starts at 1 and grows with each change."""
    idempotency_key: str | None = None
    expires_at: int | None = None
    """Milliseconds since 1970 UTC from when on no answer has it; ``None`` where it never expires."""

    @cached_property
    def trigger(self) -> Any:
        """What happened, as Python's ``json`` reads it."""
        return self.trigger_text.parse()

    @cached_property
    def context(self) -> Any:
        """What came of it, as Python's ``json`` reads it; ``None`` if there is none."""
        return None if self.context_text is None else self.context_text.parse()

    def _repr_html_(self) -> str:
        return _memories([self])


class Document(Model):
    """A text that an agent saved in a collection."""

    id: str
    collection: str
    space_id: str
    content: str
    metadata: dict[str, Any] = {}
    created_at: int
    updated_at: int | None = None
    revision: int
    expires_at: int | None = None
    """Milliseconds since 1970 UTC from when on no answer has it; ``None`` where it never expires."""

    def _repr_html_(self) -> str:
        return _documents([self])


class PutDocument(Model):
    """One document after ``put_documents``."""

    id: str
    collection: str
    created_at: int
    updated_at: int | None = None
    revision: int
    expires_at: int | None = None


class PutDocuments(Model):
    """The documents after ``put_documents``, in the order of the call."""

    documents: list[PutDocument]


class Unreadable(Model):
    """A row that is not a valid record, and that matches as far as it can be read."""

    id: str | None = None
    reason: str


class Version(Model):
    """A version of a record, which held from its commit to the next one."""

    revision: int
    committed_at: int | None = None
    """When it was committed, in milliseconds since 1970 UTC, by the server's clock; ``None`` if that was not recorded."""
    actor: str | None = None
    """Who made the change: the name of a token, or of an agent's program."""
    memory: MemoryRecord | None = None
    document: Document | None = None
    """The document; if this is ``None`` and so is ``memory``, the version is a removal."""


class HistoryPage(Model):
    """A page of versions, newest first. Only a page without ``next`` is the last; a short or empty page may have one."""

    versions: list[Version]
    next: str | None = None
    """The ``cursor`` of the next page."""


class MemoryPage(Model):
    """A page of memories. Only a page without ``next`` is the last; a short or empty page may have one."""

    memories: list[MemoryRecord]
    unreadable: list[Unreadable] = []
    next: str | None = None
    """The ``cursor`` of the next page."""

    def _repr_html_(self) -> str:
        return _memories(self.memories)


class DocumentPage(Model):
    """A page of documents. Only a page without ``next`` is the last; a short or empty page may have one."""

    documents: list[Document]
    unreadable: list[Unreadable] = []
    next: str | None = None
    """The ``cursor`` of the next page."""

    def _repr_html_(self) -> str:
        return _documents(self.documents)


class SpaceCount(Model):
    """A space, with a summary of the records in it and below it."""

    id: str
    count: int
    """How many memories or documents it holds; exact up to 1,000."""
    more: bool
    """Whether there are more than ``count``."""
    newest: int
    """The ``created_at`` of the newest of them, in milliseconds since 1970 UTC."""


class SpaceLevel(Model):
    """One level: the spaces right below a space."""

    under: str | None = None
    """The space above them; ``None`` for top-level spaces."""
    spaces: list[SpaceCount]
    next: str | None = None
    """The ``cursor`` of the rest of this level, to be used with its ``under``."""

    def _repr_html_(self) -> str:
        return _spaces(self.spaces)


class SpaceLevels(Model):
    """Spaces, level by level."""

    levels: list[SpaceLevel]


class Updated(Model):
    """The state of a memory after an update."""

    revision: int
    updated_at: int | None = None


class Removed(Model):
    """The ids of the documents that were removed, or with ``dry_run`` would be."""

    ids: list[str]
    dry_run: bool


class ErasedRecord(Model):
    """The name of an erased record."""

    id: str
    collection: str | None = None
    """The collection of a document; ``None`` for a memory."""


class ErasedSlice(Model):
    """The records that one call of ``erase`` has erased."""

    records: list[ErasedRecord]
    is_complete: bool
    """Whether nothing is left. Otherwise the same call erases the next slice."""


class Parts(Model):
    """The parts of a score, which add up to it."""

    words: float
    """For the terms in the record itself."""
    neighbours: float
    """For the terms in the record and its neighbours."""
    container: float
    """For the terms in the candidates of its container."""
    meaning: float = 0.0
    """For the meaning of the record and its neighbours; 0 if the search was by words alone."""
    question: float
    """What it loses because it ends with a question mark; never above 0."""
    speaker: float
    """What it gains because the question names its speaker."""


class Term(Model):
    """A term of the question that a record holds."""

    term: str
    idf: float
    """Its weight (idf): the rarer the term is within the scope, the greater."""
    count: int
    """How often the record holds it."""


class Neighbour(Model):
    """A record beside a hit: a memory, or a document."""

    memory: MemoryRecord | None = None
    document: Document | None = None


class Hit(Neighbour):
    """A hit: a memory, or a document if a collection was searched."""

    score: float
    """The score, which is the sum of the parts."""
    parts: Parts
    before: list[Neighbour] = []
    """The neighbours before it in its container, oldest first, up to the requested number."""
    after: list[Neighbour] = []
    """The neighbours after it."""
    terms: list[Term] | None = None
    """The terms of the question that it holds, with ``explain``."""


class Change(Neighbour):
    """One element of a watch: a record that has changed, as it is now, or the position of the watch.

    A newer server may send kinds that are not listed here: ignore them.
    """

    token: str
    """Resumes after this change, as the ``start`` of a watch of the same records. It survives restarts."""
    kind: str
    """What has happened.

    ``stored`` and ``updated``: the ``memory`` or ``document`` is new, or has changed. ``removed``: the document is gone. ``erased``:
    nothing is left of the record. ``left``: the record has changed and no longer satisfies the watch; the watch may never have told of it
    before. ``unreadable``: the record has changed and can't be read. ``reached``: everything up to here was told. ``progress``: the watch
    has come this far, and there is more.
    """
    id: str | None = None
    """The id of a record that was removed or erased, has left, or can't be read."""
    collection: str | None = None
    """The collection of the document with this ``id``; ``None`` for a memory."""
    reason: str | None = None
    """Why the record can't be read."""


class Explained(Model):
    """The divisors of the parts of the scores: the greatest value of each among all scored records."""

    records: int
    average_length: float
    words: float
    neighbours: float
    together: float
    container: float
    total: float
    least_cosine: float = 0.0
    greatest_cosine: float = 0.0
    together_with_meaning: float = 0.0


class Recalled(Model):
    """The answer to a question."""

    hits: list[Hit]
    """The hits, best first."""
    examined: int
    """How many records of the scope were examined."""
    complete: bool
    """Whether the whole scope was examined, and all hits with their neighbours fit; if not, part of the scope, hits or neighbours are left
    out."""
    unembedded: int | None = None
    """The number of examined records that have no vector yet; ``None`` if the search was by words alone."""
    explained: Explained | None = None

    def _repr_html_(self) -> str:
        return _hits(self.hits)


class VectorModel(Model):
    """The vector model of a database."""

    name: str
    width: int
    """The length of its vectors, in numbers."""
    precision: str
    """``compact``, with one byte for each number, or ``exact``, with four."""


class Health(Model):
    """The state of the engine."""

    engine: str
    server_version: str
    schema_version: int
    latency_ms: float
    durability: str
    """``durable``, or why the durability of acknowledged writes is at risk or unknown."""


def _memories(records: Iterable[MemoryRecord]) -> str:
    """An HTML table of memories."""
    rows = [(r.id, _time(r.created_at), r.space_id, r.status, r.trigger_text) for r in records]
    return table(("id", "created", "space", "status", "trigger"), rows)


def _documents(records: Iterable[Document]) -> str:
    """An HTML table of documents."""
    rows = [(r.id, _time(r.created_at), r.space_id, str(r.revision), r.content) for r in records]
    return table(("id", "created", "space", "revision", "content"), rows)


def _spaces(found: Iterable[SpaceCount]) -> str:
    """An HTML table of spaces."""
    rows = [(each.id, f"{each.count}{'+' if each.more else ''}", _time(each.newest)) for each in found]
    return table(("space", "count", "newest"), rows)


def _hits(found: Iterable[Hit]) -> str:
    """An HTML table of hits."""
    return table(("score", "created", "space", "text"), [(f"{hit.score:.3f}", *_record(hit)) for hit in found])


def _record(hit: Neighbour) -> tuple[str, str, str]:
    if hit.document is not None:
        return _time(hit.document.created_at), hit.document.space_id, hit.document.content
    if hit.memory is not None:
        return _time(hit.memory.created_at), hit.memory.space_id, hit.memory.trigger_text
    return "", "", ""


def _time(millis: int) -> str:
    return time_of(millis).strftime("%Y-%m-%d %H:%M:%S")
