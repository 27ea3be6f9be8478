"""Values of any size in documents: what is too large for one lies in parts beside it."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict, TypeVar

from ._calls import NewDocument
from ._documents import among, batches, put_once, quoted, remove_unchanged, remove_under, replace
from .client import Memory
from .errors import AgentMemoryError, Conflict, Corrupt, Outcome
from .models import Document
from .spaces import id_in, id_moved

T = TypeVar("T")

# Bytes of a value that go into the document itself, and of each part of a larger one: less than 1 MiB as base64.
_INLINE = 16 << 10
_PART = 700 << 10
# Bytes that one call puts, of the 64 MiB that it may, and documents with their parts, of which it may put 10,000 documents in all.
AT_ONCE_BYTES = 32 << 20
_MOST_WRITES = 1000
# A write that is not done after an hour never will be.
_ABANDONED_MS = 3_600_000
# How many documents a request removes.
_AT_ONCE = 100


class Packed(TypedDict, total=False):
    """A value: its bytes in base64, or the names of its parts."""

    data: str
    parts: list[str]


class Write:
    """One write of a document, which is put with the parts of its values.

    The parts have names that no other write has, and the document has :attr:`about` in its metadata. So who removes or replaces a
    document removes the parts of that write alone, and never those of a write under way.
    """

    def __init__(self, parts: Parts, space: str, expires_at: int | None = None) -> None:
        """Of a document whose parts are to lie in this space, and which expires with them, if it does."""
        self.space = space
        self.name = uuid.uuid4().hex
        self.size = 0
        """Bytes of what is put with the document."""
        self._parts = parts
        self._left: list[NewDocument] = []
        self._document: NewDocument | None = None
        self._count = 0
        self._expires_at = expires_at

    @property
    def documents(self) -> list[NewDocument]:
        """The parts that are not stored yet, and the document."""
        return [*self._left, self.document]

    @property
    def document(self) -> NewDocument:
        """The document, once :meth:`of` has named it."""
        assert self._document is not None
        return self._document

    @property
    def about(self) -> dict[str, Any]:
        """What the metadata of the document hold: the name of the write, and how many parts it has."""
        return {"write": self.name, "parts": self._count}

    def pack_json(self, value: Any) -> Packed:
        """:meth:`pack` for the JSON of a value."""
        return self.pack(json.dumps(value, allow_nan=False).encode())

    def pack(self, value: bytes) -> Packed:
        """The value for the document. The parts of a large one are put with it, or earlier where they are too many for one call."""
        if len(value) <= _INLINE:
            return {"data": base64.b64encode(value).decode()}
        names = []
        for start in range(0, len(value), _PART):
            name = f"{self.name}/{self._count}"
            content = base64.b64encode(value[start : start + _PART]).decode()
            if self._left and self.size + len(content) > AT_ONCE_BYTES:
                self._parts.store(self._left)
                self._left, self.size = [], 0
            self._left.append(self._new(self._parts.collection, id_in(self.space, name), content, self.space, {"write": self.name}))
            self._count += 1
            names.append(name)
        return {"parts": names}

    def of(
        self, collection: str, id: str, content: str, space: str, about: Mapping[str, Any], created_at: int | None = None
    ) -> NewDocument:
        """Names the document, which is not there yet as far as is known."""
        self._document = document = self._new(collection, id, content, space, about)
        if created_at is not None:
            document["created_at"] = created_at
        return document

    def _new(self, collection: str, id: str, content: str, space: str, about: Mapping[str, Any]) -> NewDocument:
        self.size += len(content)
        document = NewDocument(collection=collection, id=id, content=content, space=space, metadata=about, expect="absent")
        if self._expires_at is not None:
            document["expires_at"] = self._expires_at
        return document


class Parts:
    """The parts of the documents of an adapter, in a collection of their own."""

    def __init__(self, memory: Memory, collection: str) -> None:
        self._memory = memory
        self.collection = collection

    def store(self, parts: Iterable[NewDocument]) -> None:
        """Stores parts. Their names are new, so what has them is there by an earlier attempt."""
        with suppress(Conflict):
            self._memory.put_documents(parts)

    def put(self, write: Write, instead: Document | None = None) -> bool:
        """Puts a document with its parts, all or none, where there is none or ``instead`` of one, whose parts go then.

        Tells whether it did, and so that nobody was first.
        """
        if instead is not None:
            write.document["expect"] = instead.revision
        if self._refusal([write]) is not None:
            # Those that were too many for one call are there.
            self.remove_writes(write.space, [write.name] if write.about["parts"] else [])
            return False
        self._sweep(write.space, [] if instead is None else [instead])
        return True

    def replace(self, *writes: Write) -> None:
        """Puts the documents of some writes in the places of those that are there, whose parts go then.

        Does so in as few requests as their size allows, each of which is done as a whole or not at all.
        """
        for together in batches(writes, lambda write: write.size, _MOST_WRITES, AT_ONCE_BYTES):
            self._replace(together)

    def _replace(self, left: list[Write]) -> None:
        replaced: dict[Write, Document | None] = {}
        while left and (refusal := self._refusal(left)) is not None:
            for write in tuple(left):
                found = self._found(write.document)
                if found is not None and found.metadata.get("write") == write.name:
                    # By an earlier attempt, whose answer was lost.
                    left.remove(write)
                    continue
                replaced[write] = found
                write.document["expect"] = "absent" if found is None else found.revision
                if refusal.outcome is Outcome.UNKNOWN:
                    self._withdraw(write)
        for write, document in replaced.items():
            self._sweep(write.space, [] if document is None else [document])

    def _refusal(self, writes: Iterable[Write]) -> Conflict | None:
        documents = [document for write in writes for document in write.documents]
        try:
            self._memory.put_documents(documents)
        except Conflict as error:
            # It may be an earlier attempt that is in the way, and then all of it is there.
            found = self._found(documents[-1]) if error.outcome is Outcome.UNKNOWN else None
            is_there = found is not None and (found.content, found.metadata) == (documents[-1]["content"], documents[-1].get("metadata"))
            return None if is_there else error
        return None

    def _withdraw(self, write: Write) -> None:
        """Removes the parts that an earlier attempt may have put, and that another is about to put."""
        if ids := [part.get("id", "") for part in write.documents[:-1]]:
            self._memory.remove_documents(self.collection, ids=ids, max=len(ids))

    def _found(self, document: NewDocument) -> Document | None:
        return self._memory.get_document(document["collection"], document.get("id", ""))

    def unpack_json(self, space: str, packed: Packed) -> Any:
        """The value that :meth:`Write.pack_json` was given; :class:`Corrupt` where a part of it is missing."""
        return json.loads(self.unpack(space, packed))

    def unpack(self, space: str, packed: Packed) -> bytes:
        """The value that was packed; :class:`Corrupt` where a part of it is missing."""
        if (data := packed.get("data")) is not None:
            return base64.b64decode(data)
        found = []
        for name in packed.get("parts", []):
            document = self._memory.get_document(self.collection, id_in(space, name))
            if document is None:
                raise Corrupt(f"the part {name} of a value in {self.collection} is missing")
            found.append(base64.b64decode(document.content))
        return b"".join(found)

    def read(self, document: Document | None, read: Callable[[Document], T]) -> T | None:
        """What a document holds, as ``read`` unpacks it; as it is then, where others replace it meanwhile, and ``None`` once it is gone."""
        while document is not None:
            try:
                return read(document)
            except Corrupt:
                now = self._memory.get_document(document.collection, document.id)
                if now is not None and now.metadata == document.metadata:
                    raise
                document = now
        return None

    def copy(self, collection: str, source: str, target: str, changes: Mapping[str, Any] | None = None) -> None:
        """Puts copies of the documents below one space, with their parts, below another; ``changes`` are made to their metadata."""
        for document in self._memory.walk_documents(collection, under=source, limit=20):
            if document.metadata.get("parts"):
                where = f"metadata.write = {quoted(document.metadata['write'])}"
                for part in self._memory.walk_documents(self.collection, under=source, where=where, limit=20):
                    space = target + part.space_id[len(source) :]
                    put_once(self._memory, self.collection, id_moved(part.id, space), part.content, space, part.metadata)
            space, about = target + document.space_id[len(source) :], {**document.metadata, **(changes or {})}
            replace(self._memory, collection, id_moved(document.id, space), document.content, space, about, document.created_at)

    def remove_with(self, collection: str, id: str, space: str) -> None:
        """Removes a document, and then its parts, which lie in the space."""
        if self._memory.remove_documents(collection, ids=[id], where="metadata.write IS NULL", max=1).ids:
            return
        while (found := self._memory.get_document(collection, id)) is not None and not self.remove_unchanged(found, space):
            pass

    def remove_unchanged(self, document: Document, space: str) -> bool:
        """Removes a document as it was read, and then its parts; tells whether it did, and so that nobody was first."""
        is_removed = remove_unchanged(self._memory, document)
        self._sweep(space, [document] if is_removed else [])
        return is_removed

    def _sweep(self, space: str, documents: Iterable[Document]) -> None:
        """Removes the parts of documents that are gone. What stays where that fails is read by nobody, and what was asked for is done."""
        with suppress(AgentMemoryError):
            self.remove(space, documents)

    def remove(self, space: str, documents: Iterable[Document]) -> None:
        """Removes the parts, in a space and below it, of documents that were removed or replaced as these are."""
        self.remove_writes(space, [each.metadata["write"] for each in documents if each.metadata.get("parts")])

    def remove_writes(self, space: str, writes: Sequence[str]) -> None:
        """Removes the parts of these writes in a space and below it."""
        for where in among("metadata.write", writes):
            remove_under(self._memory, self.collection, space, where)

    def remove_with_documents(self, collections: Iterable[str], space: str) -> None:
        """Removes all documents of some collections in a space and below it, and then their parts.

        What others put meanwhile stays, with its parts. Those of writers that were killed go too, once they are an hour old.
        """
        for collection in collections:
            for page in self._memory.document_pages(collection, under=space, limit=_AT_ONCE):
                if ids := [document.id for document in page.documents]:
                    self._memory.remove_documents(collection, ids=ids, max=len(ids))
                    self.remove(space, page.documents)
        before = time.time_ns() // 1_000_000 - _ABANDONED_MS
        remove_under(self._memory, self.collection, space, f"createdAt < {before}")
