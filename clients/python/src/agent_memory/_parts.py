"""Values of any size in documents: what is too large for one lies in parts beside it."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, TypeVar

from ._documents import put_once, quoted, remove_under
from .client import Memory
from .errors import Corrupt
from .models import Document
from .spaces import id_in, id_moved

T = TypeVar("T")

# Bytes of a value that go into the document itself, and of each part of a larger one: less than 1 MiB as base64.
_INLINE = 16 << 10
_PART = 700 << 10
# A write that is not done after an hour never will be.
_ABANDONED_MS = 3_600_000
# How many documents, and parts of how many writes, a request removes.
_AT_ONCE = 100


class Packed(TypedDict, total=False):
    """A value: its bytes in base64, or the names of its parts."""

    data: str
    parts: list[str]


class Write:
    """One write of a document, with the parts of its values, which are put before it.

    The parts have names that no other write has, and the document has :attr:`about` in its metadata. So who removes or replaces a
    document removes the parts of that write alone, and never those of a write under way.
    """

    def __init__(self, parts: Parts, space: str) -> None:
        self._parts = parts
        self._space = space
        self._name = uuid.uuid4().hex
        self._count = 0

    @property
    def about(self) -> dict[str, Any]:
        """What the metadata of the document hold: the name of the write, and how many parts it has."""
        return {"write": self._name, "parts": self._count}

    def discard(self) -> None:
        """Removes the parts again, of a document that was not put."""
        if self._count:
            self._parts.remove_writes(self._space, [self._name])

    def pack(self, value: bytes) -> Packed:
        """The value for the document, whose parts are stored then if it is large."""
        if len(value) <= _INLINE:
            return {"data": base64.b64encode(value).decode()}
        names = []
        for start in range(0, len(value), _PART):
            name = f"{self._name}/{self._count}"
            self._parts.put(self._space, self._name, name, value[start : start + _PART])
            self._count += 1
            names.append(name)
        return {"parts": names}


class Parts:
    """The parts of the documents of an adapter, in a collection of their own."""

    def __init__(self, memory: Memory, collection: str) -> None:
        self._memory = memory
        self.collection = collection

    def put(self, space: str, write: str, name: str, part: bytes) -> None:
        """Stores a part of a write."""
        content, about = base64.b64encode(part).decode(), {"write": write}
        self._memory.put_document(self.collection, id_in(space, name), content, space=space, metadata=about, expect="absent")

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

    def read(self, document: Document, read: Callable[[Document], T]) -> T | None:
        """What a document holds, as ``read`` unpacks it; as it is then, where others replace it meanwhile, and ``None`` once it is gone."""
        while True:
            try:
                return read(document)
            except Corrupt:
                now = self._memory.get_document(document.collection, document.id)
                if now is None:
                    return None
                if now.metadata == document.metadata:
                    raise
                document = now

    def copy(self, document: Document, source: str, target: str) -> None:
        """Stores the parts of a document, which lie below one space, below another too."""
        if not document.metadata.get("parts"):
            return
        where = f"metadata.write = {quoted(document.metadata['write'])}"
        for part in self._memory.walk_documents(self.collection, under=source, where=where, limit=20):
            space = target + part.space_id[len(source) :]
            put_once(self._memory, self.collection, id_moved(part.id, space), part.content, space, part.metadata)

    def remove(self, space: str, documents: Iterable[Document]) -> None:
        """Removes the parts, in a space and below it, of documents that were removed or replaced as these are."""
        self.remove_writes(space, [each.metadata["write"] for each in documents if each.metadata.get("parts")])

    def remove_writes(self, space: str, writes: Sequence[str]) -> None:
        """Removes the parts of these writes in a space and below it."""
        for start in range(0, len(writes), _AT_ONCE):
            these = ", ".join(map(quoted, writes[start : start + _AT_ONCE]))
            remove_under(self._memory, self.collection, space, f"metadata.write IN ({these})")

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
