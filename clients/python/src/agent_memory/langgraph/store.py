"""LangGraph's long-term store as documents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from .._calls import Question
from .._documents import all_of, ask, cut, is_kept
from .._parts import Parts, Write
from .._time import expiry_of, time_of
from ..client import Memory
from ..models import Document
from ..spaces import id_in, names_of, space_of
from ._filters import condition_of, is_at, matches
from ._shared import SharedBatches

# The size limit of a value in the metadata, where the server can filter by it, in bytes; larger values are stored in parts.
_SHOWN = 48 << 10
_MOST_TEXT = 1_000_000
# The segment below which the parts of a space's items lie. No name is encoded as it, so no namespace lies there.
_PARTS = "+parts"
_MOST_HITS = 1000


class AgentMemoryStore(BaseStore):
    """Keeps items in a memory, on any engine; sync and async.

    The item ``key`` of the namespace ``(a, b)`` is a document in the space ``ROOT/a/b`` of the collection. ``search`` with a ``query`` is a
    recall: the best hits come first, and items without a word of the query come last, with the score 0. It searches all texts of a value,
    or those at the paths of ``index``. An item expires ``ttl`` minutes after its put; reads do not prolong it.
    """

    supports_ttl = True

    def __init__(self, memory: Memory, *, root: str = "langgraph", collection: str = "store", index: Sequence[str] | None = None) -> None:
        self._memory = memory
        self._root = root
        self._collection = collection
        self._parts = Parts(memory, f"{collection}_parts")
        self._index = index
        self._shared = SharedBatches(self.batch)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes the operations in order, after checking all their namespaces. Consecutive puts share requests of at most 1,000 puts and
        32 MiB, each all or none."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = []
        for is_put, group in groupby(ops, lambda op: isinstance(op, PutOp) and op.value is not None):
            if is_put:
                puts = [op for op in group if isinstance(op, PutOp)]
                # The last value of an item wins.
                self._parts.replace(*{(op.namespace, op.key): self._write(op) for op in puts}.values())
                results += [None] * len(puts)
            else:
                results += map(self._do, group)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes the operations in order, in a thread. Operations that include a put share a batch with those of concurrent tasks.
        Cancelling a task does not interrupt its operations."""
        ops = list(ops)
        if any(isinstance(op, PutOp) for op in ops):
            return await self._shared.do(ops)
        return await asyncio.to_thread(self.batch, ops)

    def _do(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, PutOp):
            space = self._space(op.namespace)
            self._parts.remove_with(self._collection, id_in(space, op.key), f"{space}/{_PARTS}")
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list(op)
        raise ValueError(f"there is no operation {type(op).__name__}")

    def _get(self, op: GetOp) -> Item | None:
        item = self._item(self._memory.get_document(self._collection, id_in(self._space(op.namespace), op.key)))
        return None if item is None else Item(**item)

    def _write(self, op: PutOp) -> Write:
        space = self._space(op.namespace)
        expires_at = None if op.ttl is None else expiry_of(round(op.ttl * 60_000), None)
        write = Write(self._parts, f"{space}/{_PARTS}", expires_at)
        about: dict[str, Any] = {"key": op.key, "namespace": list(op.namespace)}
        text = json.dumps(op.value, allow_nan=False)
        if len(text) <= _SHOWN and is_kept(op.value):
            about["value"] = op.value
        else:
            about |= {"packed": write.pack(text.encode()), **write.about}
        content = cut("\n".join(self._texts(op)).replace("\0", " "), _MOST_TEXT)
        write.of(self._collection, id_in(space, op.key), content, space, about)
        return write

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self._answers(op) if op.query else ((document, None) for document in self._newest(op))
        items = (SearchItem(**item, score=score) for document, score in found if (item := self._item(document)) is not None)
        matching = (item for item in items if matches(item.value, op.filter or {}))
        return list(islice(matching, op.offset, op.offset + op.limit))

    def _newest(self, op: SearchOp, where: str | None = None) -> Iterator[Document]:
        where = all_of([condition_of(op.filter), where])
        limit = min(op.offset + op.limit, _MOST_HITS) or 1
        return self._memory.walk_documents(self._collection, under=self._space(op.namespace_prefix), where=where, limit=limit)

    def _answers(self, op: SearchOp) -> Iterator[tuple[Document, float | None]]:
        """The hits of the query, best first, and then the items whose text holds no word of it."""
        question: Question = {"under": self._space(op.namespace_prefix), "collection": self._collection, "where": condition_of(op.filter)}
        question["limit"] = _MOST_HITS if op.filter else min(op.offset + op.limit, _MOST_HITS)
        hits = {hit.document.id: (hit.document, hit.score) for hit in ask(self._memory, op.query or "", question) if hit.document}
        yield from hits.values()
        yield from ((document, 0.0) for document in self._newest(op, "content <> ''") if document.id not in hits)

    def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        spaces = {document.space_id for document in self._memory.walk_documents(self._collection, under=space_of(self._root), limit=1000)}
        namespaces = (names_of(space)[1:] for space in spaces)
        matching = (each for each in namespaces if all(is_at(each, to) for to in op.match_conditions or ()))
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

    def _item(self, document: Document | None) -> dict[str, Any] | None:
        """The item of a document; ``None`` if it was removed while its parts were read."""
        return self._parts.read(document, self._read)

    def _read(self, document: Document) -> dict[str, Any]:
        about = document.metadata
        value = about.get("value")
        if "packed" in about:
            value = self._parts.unpack_json(f"{document.space_id}/{_PARTS}", about["packed"])
        return {
            "value": value,
            "key": about["key"],
            "namespace": tuple(about["namespace"]),
            "created_at": time_of(document.created_at),
            "updated_at": time_of(document.updated_at or document.created_at),
        }

    def _space(self, namespace: Sequence[str]) -> str:
        return space_of(self._root, *namespace)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
