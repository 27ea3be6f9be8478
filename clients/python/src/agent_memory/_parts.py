"""Values of any size in documents: a value that is too large for one is stored in parts beside it."""

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

# The limit of a value in the document itself, and of each part of a larger one, in bytes: less than 1 MiB as base64.
_INLINE = 16 << 10
_PART = 700 << 10
# The limits of one call, in bytes and in writes: below the server's 64 MiB and 10,000 documents, parts included.
AT_ONCE_BYTES = 32 << 20
_MOST_WRITES = 1000
# A write that is not complete after an hour counts as abandoned.
_ABANDONED_MS = 3_600_000
# How many documents one request removes.
_AT_ONCE = 100


class Packed(TypedDict, total=False):
    """A packed value: its bytes in base64, or the names of its parts."""

    data: str
    parts: list[str]


class Write:
    """One write of a document, which is put with the parts of its values.

    The names of the parts are unique to the write, and the document has :attr:`about` in its metadata. So whoever removes or replaces a
    document removes the parts of that write only, and never those of a write in progress.
    """

    def __init__(self, parts: Parts, space: str, expires_at: int | None = None) -> None:
        """The parts of the document will lie in ``space``. The document and its parts expire together, if at all."""
        self.space = space
        self.name = uuid.uuid4().hex
        self.size = 0
        """The total size of what is put with the document, in bytes."""
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
        """The metadata that the document must have: the name of the write, and the number of its parts."""
        return {"write": self.name, "parts": self._count}

    def pack_json(self, value: Any) -> Packed:
        """Packs the JSON of a value, as :meth:`pack`."""
        return self.pack(json.dumps(value, allow_nan=False).encode())

    def pack(self, value: bytes) -> Packed:
        """The packed value for the document. A large one becomes parts, which are put with the document, or before it if they are many."""
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
        """Makes the document of this write. It expects that no document has the id."""
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
        """Stores parts. Their names are new, so a part that exists comes from an earlier attempt."""
        with suppress(Conflict):
            self._memory.put_documents(parts)

    def put(self, write: Write, instead: Document | None = None) -> bool:
        """Puts a document with its parts, all or none: as a new one, or ``instead`` of another one, whose parts it then removes.

        Returns ``False`` if another caller was first.
        """
        if instead is not None:
            write.document["expect"] = instead.revision
        if self._refusal([write]) is not None:
            # Parts that did not fit into one call are stored already.
            self.remove_writes(write.space, [write.name] if write.about["parts"] else [])
            return False
        self._sweep(write.space, [] if instead is None else [instead])
        return True

    def replace(self, *writes: Write) -> None:
        """Puts the documents of these writes, replacing existing ones, whose parts it then removes.

        Uses as few requests as their sizes allow. Each request is all or nothing.
        """
        for together in batches(writes, lambda write: write.size, _MOST_WRITES, AT_ONCE_BYTES):
            self._replace(together)

    def _replace(self, left: list[Write]) -> None:
        replaced: dict[Write, Document | None] = {}
        while left and (refusal := self._refusal(left)) is not None:
            for write in tuple(left):
                found = self._found(write.document)
                if found is not None and found.metadata.get("write") == write.name:
                    # An earlier attempt has put it, and its answer was lost.
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
            # An earlier attempt may have caused the conflict; then all of it is stored.
            found = self._found(documents[-1]) if error.outcome is Outcome.UNKNOWN else None
            is_there = found is not None and (found.content, found.metadata) == (documents[-1]["content"], documents[-1].get("metadata"))
            return None if is_there else error
        return None

    def _withdraw(self, write: Write) -> None:
        """Removes the parts that an earlier attempt may have put, before they are put again."""
        if ids := [part.get("id", "") for part in write.documents[:-1]]:
            self._memory.remove_documents(self.collection, ids=ids, max=len(ids))

    def _found(self, document: NewDocument) -> Document | None:
        return self._memory.get_document(document["collection"], document.get("id", ""))

    def unpack_json(self, space: str, packed: Packed) -> Any:
        """The value that :meth:`Write.pack_json` has packed. Raises :class:`Corrupt` if a part is missing."""
        return json.loads(self.unpack(space, packed))

    def unpack(self, space: str, packed: Packed) -> bytes:
        """The value that :meth:`Write.pack` has packed. Raises :class:`Corrupt` if a part is missing."""
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
        """The result of ``read``, on the latest version of a document if it is replaced meanwhile; ``None`` if it is removed."""
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
        """Copies the documents below one space, with their parts, to another space, with ``changes`` to their metadata."""
        for document in self._memory.walk_documents(collection, under=source, limit=20):
            if document.metadata.get("parts"):
                where = f"metadata.write = {quoted(document.metadata['write'])}"
                for part in self._memory.walk_documents(self.collection, under=source, where=where, limit=20):
                    space = target + part.space_id[len(source) :]
                    put_once(self._memory, self.collection, id_moved(part.id, space), part.content, space, part.metadata)
            space, about = target + document.space_id[len(source) :], {**document.metadata, **(changes or {})}
            replace(self._memory, collection, id_moved(document.id, space), document.content, space, about, document.created_at)

    def remove_with(self, collection: str, id: str, space: str) -> None:
        """Removes a document, and then its parts in the space."""
        if self._memory.remove_documents(collection, ids=[id], where="metadata.write IS NULL", max=1).ids:
            return
        while (found := self._memory.get_document(collection, id)) is not None and not self.remove_unchanged(found, space):
            pass

    def remove_unchanged(self, document: Document, space: str) -> bool:
        """Removes a document if it was not changed since it was read, and then its parts. Returns whether it did."""
        is_removed = remove_unchanged(self._memory, document)
        self._sweep(space, [document] if is_removed else [])
        return is_removed

    def _sweep(self, space: str, documents: Iterable[Document]) -> None:
        """Removes the parts of documents that are gone. A failure is ignored: nobody reads the remaining parts."""
        with suppress(AgentMemoryError):
            self.remove(space, documents)

    def remove(self, space: str, documents: Iterable[Document]) -> None:
        """Removes the parts, in a space and below it, of these documents, which were removed or replaced."""
        self.remove_writes(space, [each.metadata["write"] for each in documents if each.metadata.get("parts")])

    def remove_writes(self, space: str, writes: Sequence[str]) -> None:
        """Removes the parts of these writes in a space and below it."""
        for where in among("metadata.write", writes):
            remove_under(self._memory, self.collection, space, where)

    def remove_with_documents(self, collections: Iterable[str], space: str) -> None:
        """Removes all documents of some collections in a space and below it, and then their parts.

        Documents that others put meanwhile stay, with their parts. Parts of killed writers are removed too, once they are an hour old.
        """
        for collection in collections:
            for page in self._memory.document_pages(collection, under=space, limit=_AT_ONCE):
                if ids := [document.id for document in page.documents]:
                    self._memory.remove_documents(collection, ids=ids, max=len(ids))
                    self.remove(space, page.documents)
        before = time.time_ns() // 1_000_000 - _ABANDONED_MS
        remove_under(self._memory, self.collection, space, f"createdAt < {before}")
