"""What the adapters share: concurrent puts, replacements and removals of documents, and conditions on documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ._calls import Expect, NewDocument, Question, Selection
from .client import Memory
from .errors import Conflict, LimitExceeded, TooLarge
from .models import Document, Hit

T = TypeVar("T")

# The size of a batch of removals, in documents, if a single removal would be too large.
_AT_ONCE = 50
_LONGEST_QUESTION = 16 << 10
# Characters of a name or text in a condition, which has 16 KiB at most.
_LONGEST_LITERAL = 1000
# How many texts one condition names, and of how many characters in all.
_MOST_NAMED = 100
_LONGEST_NAMED = 12 << 10
# The depth limit of a value in the metadata.
_DEEPEST = 24
# Characters that no text in the metadata may hold: U+0000, and halves of surrogate pairs.
_UNKEPT = re.compile("[\0\ud800-\udfff]")


def put_once(
    memory: Memory,
    collection: str,
    id: str,
    content: str,
    space: str,
    metadata: Mapping[str, Any] | None = None,
    created_at: int | None = None,
) -> bool:
    """Puts a document unless the id is taken. Returns whether it did."""
    try:
        memory.put_document(collection, id, content, space=space, metadata=metadata, created_at=created_at, expect="absent")
    except Conflict:
        return False
    return True


def put_missing(memory: Memory, collection: str, batches: Iterable[Sequence[NewDocument]], under: str) -> None:
    """Puts the documents whose ids are free, batch by batch. Each must expect ``"absent"``; taken ids are looked up below ``under``."""
    known: set[str] | None = None
    for batch in batches:
        if known is None:
            if _put_all(memory, batch):
                continue
            # Looked up once, however many batches there are.
            known = {document.id for document in memory.walk_documents(collection, under=under, limit=1000)}
        left = [document for document in batch if document.get("id") not in known]
        if left and not _put_all(memory, left):
            # Some lie in other spaces, or another caller is putting them now.
            for document in left:
                _put_all(memory, [document])


def _put_all(memory: Memory, documents: Sequence[NewDocument]) -> bool:
    with suppress(Conflict):
        memory.put_documents(documents)
        return True
    return False


def replace(
    memory: Memory,
    collection: str,
    id: str,
    content: str,
    space: str,
    metadata: Mapping[str, Any] | None = None,
    created_at: int | None = None,
) -> Document | None:
    """Creates or replaces a document by its revision, so that the put can be retried. Returns the document that it has replaced."""
    found: Document | None = None
    while True:
        expect: Expect = "absent" if found is None else found.revision
        try:
            memory.put_document(collection, id, content, space=space, metadata=metadata, created_at=created_at, expect=expect)
        except Conflict:
            found = memory.get_document(collection, id)
        else:
            return found


def remove_unchanged(memory: Memory, document: Document) -> bool:
    """Removes a document if it was not changed since it was read. Returns whether it did."""
    state = "updatedAt IS NULL" if document.updated_at is None else f"updatedAt = {document.updated_at}"
    where = f"{state} AND createdAt = {document.created_at}"
    return bool(memory.remove_documents(document.collection, ids=[document.id], where=where, max=1).ids)


def remove_under(memory: Memory, collection: str, space: str, where: str | None = None) -> None:
    """Removes all documents in a space and below it that satisfy a condition, however many there are."""
    selection: Selection = {"under": space, "where": where}
    try:
        memory.remove_documents(collection, max=10_000, **selection)
    except LimitExceeded:
        while ids := [document.id for document in memory.query_documents(collection, limit=_AT_ONCE, **selection).documents]:
            memory.remove_documents(collection, ids=ids, max=len(ids))


def ask(memory: Memory, text: str, question: Question) -> list[Hit]:
    """The best hits for a text of any length. If the text is too long for a question, only its beginning is asked."""
    text = cut(text, _LONGEST_QUESTION)
    while True:
        try:
            return memory.recall(text, **question).hits
        except TooLarge:
            # It has too many distinct words.
            text = text[: len(text) // 2]


def condition(names: Sequence[str], operator: str, value: Any) -> str | None:
    """A condition on the metadata at a path; ``None`` if it can't be expressed, so that the caller has to check the records itself."""
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


def all_of(conditions: Iterable[str | None]) -> str | None:
    """The conjunction of these conditions; ``None`` stands for a condition that always holds."""
    return " AND ".join(each for each in conditions if each) or None


def among(path: str, values: Iterable[str]) -> Iterator[str]:
    """Conditions that together select the records with one of the values at the path. There are several, since each has a limit."""
    for these in batches(map(quoted, values), len, _MOST_NAMED, _LONGEST_NAMED):
        yield f"{path} IN ({', '.join(these)})"


def batches(items: Iterable[T], size: Callable[[T], int], most: int, largest: int) -> Iterator[list[T]]:
    """The items in order, in batches of at most ``most`` items and a total size of ``largest``. A larger item goes alone."""
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and (len(batch) == most or total + size(item) > largest):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch


def is_kept(value: Any, levels: int = _DEEPEST) -> bool:
    """Whether metadata keep a value exactly: integers of 64 bits, texts as keys, few levels, and no characters that some engine refuses."""
    if isinstance(value, dict):
        return levels > 0 and all(isinstance(key, str) and is_kept(key) and is_kept(each, levels - 1) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return levels > 0 and all(is_kept(each, levels - 1) for each in value)
    if isinstance(value, str):
        return _UNKEPT.search(value) is None
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def cut(text: str, size: int) -> str:
    """The beginning of a text, with at most ``size`` bytes of UTF-8, and ``?`` for halves of surrogate pairs."""
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def quoted(text: str) -> str:
    """A text as a literal of a condition."""
    return "'" + text.replace("'", "''") + "'"
