"""What the server answers. Fields that a newer server adds are kept in ``model_extra``."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf
from pydantic.alias_generators import to_camel

from . import _table
from .jsontext import JsonText, dumps

_Text = Annotated[InstanceOf[JsonText], BeforeValidator(lambda value: value if isinstance(value, JsonText) else dumps("a value", value))]


class Model(BaseModel):
    """A value of the server. Its fields have the server's names in snake case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)


class MemoryRecord(Model):
    """A memory of the ledger: what happened, and what came of it."""

    id: str
    space_id: str
    trigger_text: _Text = Field(alias="trigger")
    """What happened, byte for byte as it was stored."""
    context_text: _Text | None = Field(default=None, alias="context")
    """What came of it, byte for byte; ``None`` without one, and the text ``null`` where it is ``null``."""
    created_at: int
    """Milliseconds since 1970 UTC, as the caller said."""
    updated_at: int | None = None
    """Milliseconds since 1970 UTC of the last update, by the server's clock."""
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
        """What came of it, as Python's ``json`` reads it; ``None`` without one."""
        return None if self.context_text is None else self.context_text.parse()

    def _repr_html_(self) -> str:
        return _table.memories([self])


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
        return _table.documents([self])


class PutDocument(Model):
    """What a put of many left of one of its documents."""

    id: str
    collection: str
    created_at: int
    updated_at: int | None = None
    revision: int
    expires_at: int | None = None


class PutDocuments(Model):
    """What a put of many left, in its order."""

    documents: list[PutDocument]


class Unreadable(Model):
    """A row that matches as far as can be told, and is no valid record."""

    id: str | None = None
    reason: str


class Version(Model):
    """What a record was from one commit to the next."""

    revision: int
    committed_at: int | None = None
    """Milliseconds since 1970 UTC, by the server's clock; ``None`` where that was not recorded."""
    actor: str | None = None
    """Who made it: the name of a token, or of an agent's program."""
    memory: MemoryRecord | None = None
    document: Document | None = None
    """``None``, as ``memory`` is, where the document was removed."""


class HistoryPage(Model):
    """A page of versions, newest first. Only one without ``next`` is the last; a short or empty page may have one."""

    versions: list[Version]
    next: str | None = None
    """The ``cursor`` of the next page."""


class MemoryPage(Model):
    """A page of memories. Only one without ``next`` is the last; a short or empty page may have one."""

    memories: list[MemoryRecord]
    unreadable: list[Unreadable] = []
    next: str | None = None
    """The ``cursor`` of the next page."""

    def _repr_html_(self) -> str:
        return _table.memories(self.memories)


class DocumentPage(Model):
    """A page of documents. Only one without ``next`` is the last; a short or empty page may have one."""

    documents: list[Document]
    unreadable: list[Unreadable] = []
    next: str | None = None
    """The ``cursor`` of the next page."""

    def _repr_html_(self) -> str:
        return _table.documents(self.documents)


class SpaceCount(Model):
    """A space, and what it and all below it hold."""

    id: str
    count: int
    """How many memories or documents, exactly up to 1,000."""
    more: bool
    """Whether there are more than ``count``."""
    newest: int
    """When the newest of them was created, in milliseconds since 1970 UTC."""


class SpaceLevel(Model):
    """The spaces right below one."""

    under: str | None = None
    """What they lie below; ``None`` for top-level spaces."""
    spaces: list[SpaceCount]
    next: str | None = None
    """The ``cursor`` of the rest of this level, asked for with its ``under``."""

    def _repr_html_(self) -> str:
        return _table.spaces(self.spaces)


class SpaceLevels(Model):
    """Spaces, level by level."""

    levels: list[SpaceLevel]


class Updated(Model):
    """What an update left behind."""

    revision: int
    updated_at: int | None = None


class Removed(Model):
    """The ids of what was removed, or with ``dry_run`` would be."""

    ids: list[str]
    dry_run: bool


class ErasedRecord(Model):
    """What a record was called that was erased."""

    id: str
    collection: str | None = None
    """The collection of a document; ``None`` for a memory."""


class ErasedSlice(Model):
    """What one call of ``erase`` has erased."""

    records: list[ErasedRecord]
    is_complete: bool
    """Whether nothing is left. Otherwise the same call erases what comes next."""


class Parts(Model):
    """What each property of a record brings to its score."""

    words: float
    """The terms that it holds itself."""
    neighbours: float
    """Those of the records beside it."""
    container: float
    """Those of its container."""
    meaning: float = 0.0
    """What it and the records beside it mean; 0 where words alone have found it."""
    question: float
    """What it loses as a question."""
    speaker: float
    """What it gains by its speaker, whom the question names."""


class Term(Model):
    """A term of the question that a record holds."""

    term: str
    idf: float
    """How rare it is within the scope."""
    count: int
    """How often the record has it."""


class Neighbour(Model):
    """A record beside a hit: a memory, or a document."""

    memory: MemoryRecord | None = None
    document: Document | None = None


class Hit(Neighbour):
    """A record that answers: a memory, or a document where a collection was asked."""

    score: float
    """The sum of the parts."""
    parts: Parts
    before: list[Neighbour] = []
    """The records before it in its container, oldest first, as many as were asked for."""
    after: list[Neighbour] = []
    """The records behind it."""
    terms: list[Term] | None = None
    """The terms of the question that it holds, if ``explain`` asked for them."""


class Change(Neighbour):
    """What a watch tells: a record that has changed, as it is now, or how far the watch is.

    A newer server may tell of kinds that are not named here: pass over them.
    """

    token: str
    """Goes on behind this change, as the ``start`` of a watch of the same records. It survives restarts."""
    kind: str
    """What has happened.

    ``stored`` and ``updated``: the ``memory`` or ``document`` is new, or has changed. ``removed``: the document is gone. ``erased``:
    nothing is left of the record. ``left``: the record has changed and is not among those that are watched now; it may be one that was
    never told of. ``unreadable``: the record has changed and can't be read. ``reached``: everything up to here was told. ``progress``: the
    watch has come this far, and there is more.
    """
    id: str | None = None
    """Which record was removed or erased, has left, or can't be read."""
    collection: str | None = None
    """The collection of the document with this ``id``; ``None`` for a memory."""
    reason: str | None = None
    """Why the record can't be read."""


class Explained(Model):
    """By what the parts of the scores were divided: the best of each in this answer."""

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
    """What a question found."""

    hits: list[Hit]
    """What answers best comes first."""
    examined: int
    """How many records of the scope were looked at."""
    complete: bool
    """Whether all of the scope was; if not, the hits are the best of its newest part."""
    unembedded: int | None = None
    """How many of the records have no vector yet; ``None`` where words alone have found what is here."""
    explained: Explained | None = None

    def _repr_html_(self) -> str:
        return _table.hits(self.hits)


class VectorModel(Model):
    """The model that the database has its vectors from."""

    name: str
    width: int
    """How many numbers a vector has."""
    precision: str
    """``compact``, in one byte a number, or ``exact``, in four."""


class Health(Model):
    """How the engine is."""

    engine: str
    server_version: str
    schema_version: int
    latency_ms: float
    durability: str
    """``durable``, or why it is at risk or unknown what an acknowledged write survives."""
