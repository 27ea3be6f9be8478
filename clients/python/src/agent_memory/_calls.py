"""The calls of the server as data. The sync and the async client both execute them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, cast
from urllib.parse import quote

from pydantic import ValidationError

from . import models
from ._time import expiry_of, millis_of
from .errors import Conflict, InvalidInput, Unexpected
from .jsontext import JsonText, array, dumps, members

if TYPE_CHECKING:
    from typing_extensions import NotRequired, Required

T = TypeVar("T")
M = TypeVar("M", bound=models.Model)
Q = TypeVar("Q", bound="Paged")

Names = str | Sequence[str]
"""One value, or several, of which one must match."""
Time = int | datetime
"""Milliseconds since 1970 UTC, or a ``datetime`` with a time zone."""
Span = int | timedelta
"""Milliseconds, or a ``timedelta``."""
Status = Literal["pending", "running", "completed", "failed", "observed"]
Watched = Literal["memories", "documents", "both"]
Precision = Literal["compact", "exact"]
Expect = int | Literal["absent"]
"""The revision that must be in place, or ``"absent"`` if the document must not exist."""
Vector = str | Iterable[float]
"""The vector of a text by an embedding model: numbers, or the base64 of the bytes that the server keeps."""

Params = list[tuple[str, str | int | float | bool | None]]


class Change(Enum):
    """An argument that is an instruction rather than a value."""

    KEEP = "keep"
    CLEAR = "clear"


KEEP = Change.KEEP
"""Leaves the context as it is."""
CLEAR = Change.CLEAR
"""Removes the context."""


class Spaces(TypedDict, total=False):
    """The spaces of a call: any number of selectors, which form a union, or ``all``."""

    space: Names
    """The space with this id."""
    under: Names
    """This space and all spaces below it: the selector that keeps tenants apart."""
    prefix: Names
    """Spaces that start with these bytes; ``guild1`` also finds ``guild12``."""
    glob: Names
    """Spaces whose whole id matches a pattern of ``*``, ``?`` and ``[a-z]``."""
    regex: Names
    """Spaces in whose id a regular expression finds a match."""
    all: bool
    """Every space."""


class Selection(Spaces, total=False):
    """Selects documents by spaces and conditions."""

    where: str | None
    """A condition, as in ``metadata.topic = 'rust' AND text ILIKE '%birthday%'``."""
    text: str
    """Words, of which a record must hold at least one."""


class Paged(Selection, total=False):
    """Selects documents, and says in which order and on which pages they come."""

    order: Literal["newest", "oldest"]
    """Newest first by default."""
    limit: int
    """The limit of a page, in records: 50 by default, at most 1,000."""
    offset: int
    """Skips this many records at the start, at most 10,000; not with a cursor."""
    cursor: str
    """``next`` of an earlier page of the same query."""


class OfLedger(TypedDict, total=False):
    """Conditions that only memories have."""

    after: Time
    """Created after this time (exclusive)."""
    before: Time
    """Created before this time (exclusive)."""
    status: Status | Sequence[Status]
    """With this status, or with one of these."""
    exclude: Names
    """Excludes the memories with these ids."""


class Query(Paged, OfLedger, total=False):
    """Selects memories, and says in which order and on which pages they come."""


class Question(Spaces, OfLedger, total=False):
    """The scope of a question, and how it is read."""

    collection: str
    """Searches the documents of this collection instead of the ledger."""
    where: str | None
    """A condition that every hit must satisfy."""
    limit: int
    """The limit of hits: 10 by default, at most 1,000."""
    neighbours: int
    """How many records on each side of a hit come with it, at most 10."""
    explain: bool
    """Whether the answer has the terms that matched and the divisors of the scores."""
    language: str
    """``english``, ``german`` or another language that the server supports, or ``none``; by default the language of the database."""
    container: str
    """What groups records into containers: ``parent`` (the default), ``depth:N`` or ``metadata:KEY``."""
    speaker: str
    """The metadata key with the name of the speaker; ``speaker`` by default."""
    vector: Vector
    """The vector of the question, by the model of the database; the text may then be empty."""
    meaning: bool
    """Whether the server searches by meaning with its own model; by default it does if it has one. Not with a ``vector``."""


class Conditions(Selection, OfLedger, total=False):
    """Selects the records of a watch or an erasure. The conditions on time, status and id don't apply to documents."""


class NewMemory(TypedDict, total=False):
    """A memory to store."""

    space: Required[str]
    trigger: Required[Any]
    context: NotRequired[Any]
    created_at: NotRequired[Time]
    metadata: NotRequired[Mapping[str, Any]]
    status: NotRequired[Status]
    idempotency_key: NotRequired[str]
    expires_in: NotRequired[Span]
    """Not with ``expires_at``."""
    expires_at: NotRequired[Time]
    vector: NotRequired[Vector]


class NewDocument(TypedDict, total=False):
    """A document to put."""

    collection: Required[str]
    space: Required[str]
    content: Required[str]
    id: NotRequired[str]
    """A new, unique id by default."""
    metadata: NotRequired[Mapping[str, Any]]
    created_at: NotRequired[Time]
    expect: NotRequired[Expect]
    expires_in: NotRequired[Span]
    """Not with ``expires_at``. Without either the document never expires, even if it did before."""
    expires_at: NotRequired[Time]
    vector: NotRequired[Vector]


class Embedding(TypedDict, total=False):
    """The vector of a record at one of its revisions."""

    collection: NotRequired[str]
    """The collection of a document; a memory has none."""
    id: Required[str]
    revision: Required[int]
    vector: Required[Vector]


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: int
    body: Any
    retry_after: float | None = None


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, how its answer is read, and whether it can be sent again."""

    method: str
    path: str
    read: Callable[[Answer], T]
    params: Params = field(default_factory=list)
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    """Whether the call can be sent again while the outcome of an attempt is unknown."""
    settle: Call[T] | None = None
    """The call that tells, after a retry got a conflict, whether an earlier attempt caused it."""
    asks: bool = False
    """Whether the call is a read although it is not a ``GET``."""

    @property
    def writes(self) -> bool:
        """Whether the call changes something."""
        return self.method != "GET" and not self.asks


def store(
    space: str,
    trigger: Any,
    context: Any,
    created_at: Time | None,
    metadata: Mapping[str, Any] | None,
    status: Status | None,
    idempotency_key: str | None,
    expires_in: Span | None,
    expires_at: Time | None,
    vector: Vector | None,
) -> Call[str]:
    """Stores a memory under an idempotency key, so that the call can be retried."""
    memory = NewMemory(space=space, trigger=trigger)
    if context is not KEEP:
        memory["context"] = context
    if created_at is not None:
        memory["created_at"] = created_at
    if metadata is not None:
        memory["metadata"] = metadata
    if status is not None:
        memory["status"] = status
    if idempotency_key is not None:
        memory["idempotency_key"] = idempotency_key
    if expires_in is not None:
        memory["expires_in"] = expires_in
    if expires_at is not None:
        memory["expires_at"] = expires_at
    if vector is not None:
        memory["vector"] = vector
    return Call("POST", "/v1/memories", lambda answer: _field(answer, "id"), body=_memory(memory).encode())


def store_many(memories: Iterable[NewMemory]) -> Call[list[str]]:
    """Stores memories, each under an idempotency key, so that the call can be retried."""
    body = members({"memories": array([_memory(memory) for memory in memories])})
    return Call("POST", "/v1/memories/batch", lambda answer: _field(answer, "ids"), body=body.encode())


def update(
    id: str,
    context: Any,
    merge_metadata: Mapping[str, Any] | None,
    replace_metadata: Mapping[str, Any] | None,
    status: Status | None,
    if_revision: int | None,
    expires_in: Span | None,
    expires_at: Time | None,
    never_expires: bool,
) -> Call[models.Updated]:
    """Updates a memory. The call can be retried only with a revision."""
    if merge_metadata is not None and replace_metadata is not None:
        raise InvalidInput("merge_metadata and replace_metadata can't be combined: leave one out")
    parts: dict[str, JsonText | None] = {"status": None if status is None else dumps("status", status)}
    if context is CLEAR:
        parts["context"] = dumps("context", "clear")
    elif context is not KEEP:
        parts["context"] = members({"set": dumps("context", context)})
    for way, metadata in (("merge", merge_metadata), ("replace", replace_metadata)):
        if metadata is not None:
            parts["metadata"] = members({way: dumps("metadata", metadata)})
    expiry = expiry_of(expires_in, expires_at)
    if expiry is not None:
        if never_expires:
            raise InvalidInput("never_expires can't be combined with expires_in or expires_at")
        parts["expiresAt"] = members({"set": dumps("expires_at", expiry)})
    elif never_expires:
        parts["expiresAt"] = dumps("expires_at", "clear")
    return Call(
        "PATCH",
        f"/v1/memories/{_path(id)}",
        _model(models.Updated),
        body=members(parts).encode(),
        headers={} if if_revision is None else {"If-Match": f'"{if_revision}"'},
        repeatable=if_revision is not None,
    )


def get(id: str, as_of: Time | None) -> Call[models.MemoryRecord]:
    """Reads a memory."""
    return Call("GET", f"/v1/memories/{_path(id)}", _model(models.MemoryRecord), params=_then(as_of))


def history(id: str, limit: int | None, cursor: str | None) -> Call[models.HistoryPage]:
    """Reads a page of the versions of a memory."""
    return Call("GET", f"/v1/memories/{_path(id)}/history", _model(models.HistoryPage), params=_versions(limit, cursor))


def _then(as_of: Time | None) -> Params:
    return [] if as_of is None else [("asOf", str(millis_of(as_of)))]


def _versions(limit: int | None, cursor: str | None) -> Params:
    given = {"limit": limit, "cursor": cursor}
    return [(name, str(value)) for name, value in given.items() if value is not None]


def query(query: Query) -> Call[models.MemoryPage]:
    """Reads a page of memories."""
    return Call("GET", "/v1/memories", _model(models.MemoryPage), params=_params(Query, query))


def put_document(
    collection: str,
    id: str,
    content: str,
    space: str,
    metadata: Mapping[str, Any] | None,
    created_at: Time | None,
    expect: Expect | None,
    expires_in: Span | None,
    expires_at: Time | None,
    vector: Vector | None,
) -> Call[models.Document]:
    """Puts a document. The call can be retried only with an expectation."""
    path = f"/v1/documents/{_path(collection)}/{_path(id)}"
    wanted = dict(metadata or {})
    body = members(
        {
            "spaceId": dumps("space", space),
            "content": dumps("content", content),
            "metadata": dumps("metadata", wanted),
            "createdAt": None if created_at is None else dumps("created_at", millis_of(created_at)),
            "expiresAt": _expiry(expires_in, expires_at),
            "vector": _vector(vector),
        }
    )
    revision = 1 if expect == "absent" else (expect or 0) + 1

    def is_own(answer: Answer) -> models.Document:
        found = _model(models.Document)(answer)
        if (found.revision, found.content, found.space_id, found.metadata) != (revision, content, space, wanted):
            raise Conflict("another caller has written the document meanwhile: read it again")
        return found

    headers = {"If-None-Match": "*"} if expect == "absent" else {"If-Match": f'"{expect}"'}
    return Call(
        "PUT",
        path,
        _model(models.Document),
        body=body.encode(),
        headers={} if expect is None else headers,
        repeatable=expect is not None,
        # The document tells whether an earlier attempt has put it, but not whether its vector was kept.
        settle=Call("GET", path, is_own) if vector is None else None,
    )


def put_documents(documents: Iterable[NewDocument]) -> Call[list[models.PutDocument]]:
    """Puts documents. The call can be retried only if each has an expectation."""
    documents = [_document(document) for document in documents]
    body = members({"documents": array([_document_text(document) for document in documents])})
    put = _model(models.PutDocuments)
    repeatable = all("expect" in document for document in documents)
    return Call("POST", "/v1/documents", lambda answer: put(answer).documents, body=body.encode(), repeatable=repeatable)


def get_document(collection: str, id: str, as_of: Time | None) -> Call[models.Document]:
    """Reads a document."""
    return Call("GET", f"/v1/documents/{_path(collection)}/{_path(id)}", _model(models.Document), params=_then(as_of))


def document_history(collection: str, id: str, limit: int | None, cursor: str | None, removed: bool) -> Call[models.HistoryPage]:
    """Reads a page of the versions of a document."""
    params = _versions(limit, cursor) + ([("removed", "true")] if removed else [])
    path = f"/v1/documents/{_path(collection)}/{_path(id)}/history"
    return Call("GET", path, _model(models.HistoryPage), params=params)


def query_documents(collection: str, query: Paged) -> Call[models.DocumentPage]:
    """Reads a page of documents."""
    params = _params(Paged, query)
    return Call("GET", f"/v1/documents/{_path(collection)}", _model(models.DocumentPage), params=params)


def remove_documents(collection: str, ids: Iterable[str] | None, max: int, dry_run: bool, selection: Selection) -> Call[models.Removed]:
    """Removes documents. Not retried: a second attempt would not find what the first one has removed."""
    ids = None if ids is None else list(ids)
    if ids is not None and not ids:
        raise InvalidInput("ids is empty: leave it out to select by spaces and conditions")
    params = _params(Selection, selection)
    params += [("id", id) for id in ids or ()]
    params += [("max", str(max)), ("dryRun", "true" if dry_run else "false")]
    path = f"/v1/documents/{_path(collection)}"
    return Call("DELETE", path, _model(models.Removed), params=params, repeatable=dry_run)


def erase(
    reason: str,
    ids: Iterable[str] | None,
    documents: bool,
    collections: Iterable[str] | None,
    limit: int | None,
    selection: Conditions,
) -> Call[models.ErasedSlice]:
    """Erases a slice. Not retried: a second attempt would erase the next slice, and not report the first one."""
    _check_names(selection, Conditions.__annotations__)
    if ids is not None and selection:
        raise InvalidInput("ids can't be combined with other conditions")
    ids, collections = _some("ids", ids), _some("collections", collections)
    body = members(
        {
            "ids": None if ids is None else dumps("ids", ids),
            "query": None if ids is not None else dumps("the selection", _selected(selection)),
            "documents": dumps("documents", documents),
            "collections": None if collections is None else dumps("collections", collections),
            "reason": dumps("reason", reason),
            "limit": None if limit is None else dumps("limit", limit),
        }
    )
    return Call("POST", "/v1/erase", _model(models.ErasedSlice), body=body.encode(), repeatable=False)


def collections() -> Call[list[str]]:
    """Reads the names of the collections."""
    return Call("GET", "/v1/collections", lambda answer: _field(answer, "collections"))


def recall(text: str, question: Question) -> Call[models.Recalled]:
    """Asks a question. With a vector it is a ``POST``, since a vector is too long for a URL."""
    read = _model(models.Recalled)
    vector = _vector(question.get("vector"))
    if vector is None:
        return Call("GET", "/v1/recall", read, params=[("text", text), *_params(Question, question)])
    _check_names(question, Question.__annotations__)
    asked = {name: value for name, value in question.items() if name != "vector"}
    parts = {name: dumps(name, value) for name, value in _selected({"text": text, **asked}).items()}
    return Call("POST", "/v1/recall", read, body=members({**parts, "vector": vector}).encode(), asks=True)


def vector_model() -> Call[models.VectorModel]:
    """Reads the embedding model."""
    return Call("GET", "/v1/vector-model", _model(models.VectorModel))


def set_vector_model(name: str, width: int, precision: Precision) -> Call[models.VectorModel]:
    """Sets the vector model of the database. Not retried: a second attempt could undo a change of another caller."""
    body = dumps("the model", {"name": name, "width": width, "precision": precision})
    return Call("PUT", "/v1/vector-model", _model(models.VectorModel), body=body.encode(), repeatable=False)


def embed(embeddings: Iterable[Embedding], model: str) -> Call[list[bool]]:
    """Keeps vectors beside records. Each belongs to one revision, so the call can be retried."""
    texts = array([_embedding(embedding) for embedding in embeddings])
    body = members({"model": dumps("model", model), "embeddings": texts})
    return Call("POST", "/v1/embed", lambda answer: _field(answer, "kept"), body=body.encode())


def spaces(
    under: str | None, collection: str | None, depth: int | None, limit: int | None, cursor: str | None
) -> Call[list[models.SpaceLevel]]:
    """Lists spaces."""
    given = {"under": under, "collection": collection, "depth": depth, "limit": limit, "cursor": cursor}
    params: Params = [(name, value) for name, value in given.items() if value is not None]
    levels = _model(models.SpaceLevels)
    return Call("GET", "/v1/spaces", lambda answer: levels(answer).levels, params=params)


def health() -> Call[models.Health]:
    """Reads the state of the engine."""
    return Call("GET", "/v1/health", _model(models.Health))


def watch(of: Watched, collection: Names | None, start: str, conditions: Conditions) -> Call[Answer]:
    """Watches records. The stream of the answer is read by ``_feed``."""
    given: dict[str, Any] = {"of": of, "collection": collection, "from": start}
    params = _listed(given) + _params(Conditions, conditions)
    return Call("GET", "/v1/watch", lambda answer: answer, params=params, headers={"Accept": "text/event-stream"})


def new_id() -> str:
    """A new, unique id or key."""
    return str(uuid.uuid4())


_MEMORY = frozenset(NewMemory.__annotations__)


def _memory(memory: NewMemory) -> JsonText:
    _check_names(memory, _MEMORY)
    if "space" not in memory or "trigger" not in memory:
        raise InvalidInput("a memory needs a space and a trigger")
    created_at = memory.get("created_at")
    metadata = memory.get("metadata")
    status = memory.get("status")
    return members(
        {
            "spaceId": dumps("space", memory["space"]),
            "trigger": dumps("trigger", memory["trigger"]),
            "context": dumps("context", memory["context"]) if "context" in memory else None,
            "createdAt": None if created_at is None else dumps("created_at", millis_of(created_at)),
            "metadata": None if metadata is None else dumps("metadata", metadata),
            "status": None if status is None else dumps("status", status),
            "idempotencyKey": dumps("idempotency_key", memory.get("idempotency_key") or new_id()),
            "expiresAt": _expiry(memory.get("expires_in"), memory.get("expires_at")),
            "vector": _vector(memory.get("vector")),
        }
    )


_DOCUMENT = frozenset(NewDocument.__annotations__)


def _document(document: NewDocument) -> NewDocument:
    """The document, with a new id if it has none. The id is made before the first attempt."""
    _check_names(document, _DOCUMENT)
    if not {"collection", "space", "content"} <= document.keys():
        raise InvalidInput("a document needs a collection, a space and a content")
    return document if "id" in document else {**document, "id": new_id(), "expect": "absent"}


def _document_text(document: NewDocument) -> JsonText:
    created_at = document.get("created_at")
    expect = document.get("expect")
    expected = expect if expect is None or expect == "absent" else {"revision": expect}
    return members(
        {
            "collection": dumps("collection", document["collection"]),
            "id": dumps("id", document.get("id")),
            "spaceId": dumps("space", document["space"]),
            "content": dumps("content", document["content"]),
            "metadata": dumps("metadata", document.get("metadata") or {}),
            "createdAt": None if created_at is None else dumps("created_at", millis_of(created_at)),
            "expect": None if expected is None else dumps("expect", expected),
            "expiresAt": _expiry(document.get("expires_in"), document.get("expires_at")),
            "vector": _vector(document.get("vector")),
        }
    )


_EMBEDDING = frozenset(Embedding.__annotations__)


def _embedding(embedding: Embedding) -> JsonText:
    _check_names(embedding, _EMBEDDING)
    if not {"id", "revision", "vector"} <= embedding.keys():
        raise InvalidInput("an embedding needs an id, a revision and a vector")
    collection = embedding.get("collection")
    return members(
        {
            "collection": None if collection is None else dumps("collection", collection),
            "id": dumps("id", embedding["id"]),
            "revision": dumps("revision", embedding["revision"]),
            "vector": _vector(embedding["vector"]),
        }
    )


def _vector(vector: Vector | None) -> JsonText | None:
    """The text of a vector. Numbers may be those of NumPy, which are no numbers of JSON."""
    if vector is None or isinstance(vector, str):
        return None if vector is None else dumps("vector", vector)
    try:
        numbers = [float(number) for number in vector]
    except (TypeError, ValueError):
        raise InvalidInput("vector: give its numbers, or its base64") from None
    return dumps("vector", numbers)


def _expiry(expires_in: Span | None, expires_at: Time | None) -> JsonText | None:
    expiry = expiry_of(expires_in, expires_at)
    return None if expiry is None else dumps("expires_at", expiry)


def following(query: Q, next: str) -> Q:
    """The query of the page behind a cursor, which starts where the one before has ended."""
    rest: Any = {**query, "cursor": next}
    rest.pop("offset", None)
    return cast(Q, rest)


def _params(of: type, given: Mapping[str, Any]) -> Params:
    _check_names(given, of.__annotations__)
    return _listed(given)


def _listed(given: Mapping[str, Any]) -> Params:
    params: Params = []
    for name, value in given.items():
        if value is None:
            continue
        values = [value] if isinstance(value, (str, int, datetime)) else list(value)
        # An empty `exclude` is no condition, but the server would read an empty list of statuses or spaces as all of
        # them.
        if not values and name != "exclude":
            raise InvalidInput(f"{name} is empty: name one, or leave it out")
        params += [(name, _text(each)) for each in values]
    return params


_SEVERAL = frozenset({"space", "under", "prefix", "glob", "regex", "status", "exclude"})


def _selected(selection: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as a body has them: each in a list that may be named several times."""
    selected: dict[str, Any] = {}
    for name, value in selection.items():
        if value is None:
            continue
        if name not in _SEVERAL:
            selected[name] = millis_of(value) if isinstance(value, datetime) else value
            continue
        values = [value] if isinstance(value, str) else list(value)
        if not values and name != "exclude":
            raise InvalidInput(f"{name} is empty: name one, or leave it out")
        selected[name] = values
    return selected


def _some(name: str, values: Iterable[str] | None) -> list[str] | None:
    """The members of a list that has some. A text alone would be a list of its characters."""
    if values is None:
        return None
    if isinstance(values, str):
        raise InvalidInput(f"{name} is a text: give a list")
    listed = list(values)
    if not listed:
        raise InvalidInput(f"{name} is empty: name one, or leave it out")
    return listed


def _check_names(given: Mapping[str, Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"unknown argument {name}; known are {', '.join(sorted(known))}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(millis_of(value)) if isinstance(value, datetime) else str(value)


def _path(segment: str) -> str:
    return quote(segment, safe="").replace(".", "%2E")


def _model(model: type[M]) -> Callable[[Answer], M]:
    def read(answer: Answer) -> M:
        try:
            return model.model_validate(answer.body)
        except ValidationError as error:
            # By its own text the error would quote the answer.
            places = ", ".join(sorted({".".join(map(str, each["loc"])) for each in error.errors()})[:5])
            raise Unexpected(f"the answer is not a {model.__name__} ({places}): is this an agent-memory server?") from None

    return read


def _field(answer: Answer, name: str) -> Any:
    try:
        return answer.body[name]
    except (KeyError, TypeError):
        raise Unexpected(f"the answer has no {name}: is this an agent-memory server?") from None
