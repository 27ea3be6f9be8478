"""LangGraph's long-term store as documents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from .._calls import Paged, Question
from .._documents import ask, remove_unchanged, replace
from .._parts import Parts, Write
from ..client import Memory
from ..models import Document
from ..spaces import id_in, names_of, space_of
from ._filters import conditions, matches

# A value of at most so many bytes lies in the metadata, where the server can look into it; larger ones in parts.
_SHOWN = 48 << 10
_DEEPEST = 24
_MOST_TEXT = 1_000_000
_MOST_HITS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class AgentMemoryStore(BaseStore):
    """Keeps items in a memory, on any engine; sync and async.

    The item ``key`` of the namespace ``(a, b)`` is a document in the space ``ROOT/a/b`` of the collection. ``search`` with a ``query`` is
    recall: what answers best comes first, and what holds no word of the query comes last, with the score 0. Of a value its texts are
    searched, or those at the paths of ``index``. There is no expiry: a ``ttl`` is refused.
    """

    def __init__(self, memory: Memory, *, root: str = "langgraph", collection: str = "store", index: Sequence[str] | None = None) -> None:
        self._memory = memory
        self._root = root
        self._collection = collection
        self._parts = Parts(memory, f"{collection}_parts")
        self._index = index

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Does the operations in their order, once all of them name valid namespaces."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        return [self._do(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Does the operations in their order, in a thread. A task that is cancelled leaves them to their end."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _do(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, PutOp):
            self._delete(op) if op.value is None else self._put(op)
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list(op)
        raise ValueError(f"there is no operation {type(op).__name__}")

    def _get(self, op: GetOp) -> Item | None:
        space = self._space(op.namespace)
        found = self._memory.get_document(self._collection, id_in(space, op.key))
        item = None if found is None else self._item(found)
        return None if item is None else Item(**item)

    def _put(self, op: PutOp) -> None:
        if op.ttl is not None:
            raise NotImplementedError("this store has no expiry yet: leave ttl out")
        space = self._space(op.namespace)
        about: dict[str, Any] = {"key": op.key, "namespace": list(op.namespace)}
        text = json.dumps(op.value, allow_nan=False)
        if len(text) <= _SHOWN and _is_kept(op.value):
            about["value"] = op.value
        else:
            write = Write(self._parts, _parts_of(space))
            about |= {"packed": write.pack(text.encode()), **write.about}
        content = _cut("\n".join(self._texts(op)).replace("\0", " "))
        replaced = replace(self._memory, self._collection, id_in(space, op.key), content, space, about)
        if replaced is not None:
            self._parts.remove(_parts_of(space), [replaced])

    def _delete(self, op: PutOp) -> None:
        space = self._space(op.namespace)
        id = id_in(space, op.key)
        if self._memory.remove_documents(self._collection, ids=[id], where="metadata.packed IS NULL", max=1).ids:
            return
        while (found := self._memory.get_document(self._collection, id)) is not None:
            if remove_unchanged(self._memory, found):
                return self._parts.remove(_parts_of(space), [found])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self._answers(op) if op.query else self._newest(op, None)
        matching = (item for item in found if matches(item.value, op.filter or {}))
        last = op.offset + op.limit
        return [item for place, item in zip(range(last), matching, strict=False) if place >= op.offset]

    def _newest(self, op: SearchOp, score: float | None, without: frozenset[str] = frozenset()) -> Iterator[SearchItem]:
        selection: Paged = {"under": self._space(op.namespace_prefix), "limit": min(op.offset + op.limit, _MOST_HITS) or 1}
        wheres = [*conditions(op.filter), *(["content <> ''"] if score is not None else [])]
        if wheres:
            selection["where"] = " AND ".join(wheres)
        for document in self._memory.walk_documents(self._collection, **selection):
            if document.id not in without and (item := self._item(document)) is not None:
                yield SearchItem(**item, score=score)

    def _answers(self, op: SearchOp) -> Iterator[SearchItem]:
        question: Question = {"under": self._space(op.namespace_prefix), "collection": self._collection, "limit": _MOST_HITS}
        if not op.filter:
            question["limit"] = min(op.offset + op.limit, _MOST_HITS)
        if wheres := list(conditions(op.filter)):
            question["where"] = " AND ".join(wheres)
        hits = ask(self._memory, op.query or "", question)
        for hit in hits:
            if hit.document is not None and (item := self._item(hit.document)) is not None:
                yield SearchItem(**item, score=hit.score)
        yield from self._newest(op, 0.0, frozenset(hit.document.id for hit in hits if hit.document is not None))

    def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        spaces = {document.space_id for document in self._memory.walk_documents(self._collection, under=space_of(self._root), limit=1000)}
        namespaces = (names_of(space)[1:] for space in spaces)
        matching = (each for each in namespaces if all(_is_at(each, to) for to in op.match_conditions or ()))
        found = sorted({each[: op.max_depth] for each in matching})
        return found[op.offset : op.offset + op.limit]

    def _texts(self, op: PutOp) -> Iterator[str]:
        if op.index is False:
            return
        paths = self._index if op.index is None else op.index
        if paths is None:
            yield from _strings(op.value)
            return
        for path in paths:
            yield from get_text_at_path(op.value, path)

    def _item(self, document: Document) -> dict[str, Any] | None:
        """What a document holds, or ``None`` where it was removed while its parts were read."""
        return self._parts.read(document, self._read)

    def _read(self, document: Document) -> dict[str, Any]:
        about = document.metadata
        value = about.get("value")
        if "packed" in about:
            value = json.loads(self._parts.unpack(_parts_of(document.space_id), about["packed"]))
        return {
            "value": value,
            "key": about["key"],
            "namespace": tuple(about["namespace"]),
            "created_at": _EPOCH + timedelta(milliseconds=document.created_at),
            "updated_at": _EPOCH + timedelta(milliseconds=document.updated_at or document.created_at),
        }

    def _space(self, namespace: Sequence[str]) -> str:
        return space_of(self._root, *namespace)


def _parts_of(space: str) -> str:
    """Where the parts of the items in a space lie: in a segment that no name becomes, so that no namespace lies there."""
    return f"{space}/+parts"


def _is_at(namespace: Sequence[str], to: MatchCondition) -> bool:
    if len(to.path) > len(namespace):
        return False
    part = namespace[: len(to.path)] if to.match_type == "prefix" else namespace[len(namespace) - len(to.path) :]
    return all(wanted in ("*", name) for name, wanted in zip(part, to.path, strict=True))


def _is_kept(value: Any, levels: int = _DEEPEST) -> bool:
    """Whether metadata keep the value exactly: integers of 64 bits, no U+0000, few levels, texts as keys."""
    if isinstance(value, dict):
        return levels > 0 and all(isinstance(k, str) and "\0" not in k and _is_kept(v, levels - 1) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return levels > 0 and all(_is_kept(each, levels - 1) for each in value)
    if isinstance(value, str):
        return "\0" not in value
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _cut(text: str) -> str:
    return text.encode()[:_MOST_TEXT].decode(errors="ignore")
