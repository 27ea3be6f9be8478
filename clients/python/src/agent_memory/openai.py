"""The sessions of OpenAI's Agents SDK as documents.

Needs the extra: ``pip install 'agent-memory[openai]'``.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from ._extra import extra
from ._parts import Parts, Write
from .client import Memory
from .models import Document
from .spaces import id_in, space_of

with extra("openai"):
    from agents.memory import SessionSettings
    from agents.memory.session import SessionABC

if TYPE_CHECKING:
    from agents.items import TResponseInputItem


class AgentMemorySession(SessionABC):
    """Keeps the items of a conversation in a memory, on any engine.

    The items of one ``add_items`` are one document, so all or none are stored, in the space ``ROOT/SESSION`` of the collection. Processes
    that add to a session concurrently lose nothing: each document takes the next free number.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        root: str = "openai",
        collection: str = "sessions",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._memory = memory
        self._space = space_of(root, session_id)
        self._collection = collection
        self._parts = Parts(memory, f"{collection}_parts")

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest items, oldest first: ``limit`` of them, or else the limit of the session's settings, or else all."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._get, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items, all or none."""
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes and returns the latest item; ``None`` if there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Removes all items."""
        await asyncio.to_thread(self._clear)

    def _get(self, limit: int | None) -> list[TResponseInputItem]:
        items: list[Any] = []
        pages = self._memory.walk_documents(self._collection, space=self._space, limit=1000 if limit is None else min(max(limit, 1), 1000))
        for document in pages:
            if limit is not None and len(items) >= limit:
                break
            items[:0] = self._parts.read(document, self._items) or []
        return items if limit is None else items[len(items) - limit :] if 0 < limit < len(items) else items[: max(limit, 0)]

    def _add(self, items: list[TResponseInputItem]) -> None:
        number = 0
        while True:
            write = Write(self._parts, self._space)
            content = _content(items, write)
            newest = self._newest()
            if newest is not None:
                number = max(number, newest.metadata["number"] + 1)
            # Later numbers get later times, even if the clocks of processes differ.
            created_at = max(time.time_ns() // 1_000_000, 0 if newest is None else newest.created_at)
            # The metadata hold the name of the write, which tells it from equal items of another writer.
            about = {"number": number, **write.about}
            write.of(self._collection, id_in(self._space, f"{number:016}"), content, self._space, about, created_at)
            if self._parts.put(write):
                return
            # The newest document may not have the highest number: its writer may have looked while the one before was being removed.
            number += 1

    def _pop(self) -> TResponseInputItem | None:
        while (newest := self._newest()) is not None:
            items = self._parts.read(newest, self._items)
            if items is not None and self._shorten(newest, items[:-1]):
                return items[-1]
        return None

    def _shorten(self, batch: Document, left: list[TResponseInputItem]) -> bool:
        """Reduces a batch to these items, if it was not changed since it was read. Returns whether it did."""
        if not left:
            return self._parts.remove_unchanged(batch, self._space)
        write = Write(self._parts, self._space)
        content = _content(left, write)
        write.of(self._collection, batch.id, content, self._space, {**batch.metadata, **write.about})
        return self._parts.put(write, batch)

    def _clear(self) -> None:
        self._parts.remove_with_documents([self._collection], self._space)

    def _newest(self) -> Document | None:
        return next(self._memory.walk_documents(self._collection, space=self._space, limit=1), None)

    def _items(self, document: Document) -> list[TResponseInputItem]:
        stored = json.loads(document.content)
        if isinstance(stored, dict):
            stored = self._parts.unpack_json(self._space, stored)  # type: ignore[arg-type]
        items: list[TResponseInputItem] = stored
        return items


def _content(items: list[TResponseInputItem], write: Write) -> str:
    text = json.dumps(items, ensure_ascii=False)
    if len(text) <= 100_000 and "\\u0000" not in text:
        return text
    return json.dumps(write.pack(text.encode()))
