"""What the adapters share: values of any size in documents, and the removal of any number of them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ._calls import Question
from .client import Memory
from .errors import Conflict, Corrupt, LimitExceeded, TooLarge
from .models import Document, Hit
from .spaces import id_in

# Bytes of a value that go into the document itself, and of each part of a larger one: less than 1 MiB as base64.
_INLINE = 16 << 10
_PART = 700 << 10
# How many documents are removed at once where a removal would be too large: parts of 64 MiB in all.
_AT_ONCE = 50
_LONGEST_QUESTION = 16 << 10
# Characters of a name or text in a condition, which has 16 KiB at most.
_LONGEST_LITERAL = 1000


class Packed(TypedDict, total=False):
    """A value: its bytes in base64, or the hashes of its parts."""

    data: str
    parts: list[str]


def pack(memory: Memory, collection: str, space: str, value: bytes) -> Packed:
    """Stores what is too large for a document as parts in a space, each under its hash. What refers to them is written after them."""
    if len(value) <= _INLINE:
        return {"data": base64.b64encode(value).decode()}
    parts = []
    for start in range(0, len(value), _PART):
        part = value[start : start + _PART]
        name = hashlib.sha256(part).hexdigest()
        put_once(memory, collection, id_in(space, name), base64.b64encode(part).decode(), space)
        parts.append(name)
    return {"parts": parts}


def unpack(memory: Memory, collection: str, space: str, packed: Packed) -> bytes:
    """The value that was packed; :class:`Corrupt` where a part of it is missing."""
    if (data := packed.get("data")) is not None:
        return base64.b64decode(data)
    found = []
    for name in packed.get("parts", []):
        document = memory.get_document(collection, id_in(space, name))
        part = b"" if document is None else base64.b64decode(document.content)
        if hashlib.sha256(part).hexdigest() != name:
            raise Corrupt(f"the part {name} of a value in {collection} is missing or damaged")
        found.append(part)
    return b"".join(found)


def put_once(
    memory: Memory,
    collection: str,
    id: str,
    content: str,
    space: str,
    metadata: Mapping[str, Any] | None = None,
    created_at: int | None = None,
) -> bool:
    """Puts a document unless there is one with this id; tells whether it did."""
    try:
        memory.put_document(collection, id, content, space=space, metadata=metadata, created_at=created_at, expect="absent")
    except Conflict:
        return False
    return True


def replace(
    memory: Memory,
    collection: str,
    id: str,
    content: str,
    space: str,
    metadata: Mapping[str, Any] | None = None,
    created_at: int = 0,
) -> Document:
    """Puts a document in the place of whatever is there, in a way that can be repeated after a connection broke."""
    expect: Any = "absent"
    while True:
        try:
            return memory.put_document(collection, id, content, space=space, metadata=metadata, created_at=created_at, expect=expect)
        except Conflict:
            found = memory.get_document(collection, id)
            expect = "absent" if found is None else found.revision


def remove_unchanged(memory: Memory, document: Document) -> bool:
    """Removes a document as it was read; tells whether it did, and so that nobody has changed or removed it meanwhile."""
    state = "updatedAt IS NULL" if document.updated_at is None else f"updatedAt = {document.updated_at}"
    where = f"{state} AND createdAt = {document.created_at}"
    return bool(memory.remove_documents(document.collection, ids=[document.id], where=where, max=1).ids)


def remove_under(memory: Memory, collection: str, space: str) -> None:
    """Removes all documents of a space and below it, however many there are."""
    try:
        memory.remove_documents(collection, under=space, max=10_000)
    except LimitExceeded:
        while ids := [document.id for document in memory.query_documents(collection, under=space, limit=_AT_ONCE).documents]:
            memory.remove_documents(collection, ids=ids, max=len(ids))


def ask(memory: Memory, text: str, question: Question) -> list[Hit]:
    """What answers a text of any length best: of one that is too long for a question, its beginning counts."""
    text = text.encode(errors="replace")[:_LONGEST_QUESTION].decode(errors="ignore")
    while True:
        try:
            return memory.recall(text, **question).hits
        except TooLarge:
            # It has too many distinct words.
            text = text[: len(text) // 2]


def condition(names: Sequence[str], operator: str, value: Any) -> str | None:
    """A condition on the metadata at a path of names; ``None`` where it can't be written, and the caller has to look itself."""
    if isinstance(value, bool):
        literal = "true" if value else "false"
    elif isinstance(value, int) and abs(value) < 2**53:
        literal = str(value)
    elif isinstance(value, str) and len(value) <= _LONGEST_LITERAL and value.isprintable():
        literal = quoted(value)
    else:
        return None
    if not all(name.isprintable() and len(name) <= _LONGEST_LITERAL for name in names):
        return None
    path = ".".join('"' + name.replace('"', '""') + '"' for name in names)
    return f"metadata.{path} {operator} {literal}"


def quoted(text: str) -> str:
    """A text as a literal of a condition."""
    return "'" + text.replace("'", "''") + "'"
