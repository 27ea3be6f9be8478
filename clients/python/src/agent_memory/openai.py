"""The sessions of OpenAI's Agents SDK as documents.

Needs the extra: ``pip install 'agent-memory[openai]'``.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from agents.memory import SessionSettings
from agents.memory.session import SessionABC

from ._documents import pack, put_once, remove_unchanged, remove_under, unpack
from .client import Memory
from .errors import Conflict
from .models import Document
from .spaces import id_in, space_of

if TYPE_CHECKING:
    from agents.items import TResponseInputItem


class AgentMemorySession(SessionABC):
    """Keeps the items of a conversation in a memory, on any engine.

    The items of one ``add_items`` are one document, all or none of them, in the space ``ROOT/SESSION`` of the collection. Processes that
    add to a session at the same time lose nothing: each document has the next number, and who finds it taken takes the one behind it.
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
        self._parts = f"{collection}_parts"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest items, oldest first: ``limit`` of them, or as many as the settings of the session say, or all."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(self._get, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items behind all others, all or none."""
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the latest item and returns it; ``None`` when there is none."""
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
            items[:0] = self._items(document)
        return items if limit is None else items[len(items) - limit :] if 0 < limit < len(items) else items[: max(limit, 0)]

    def _add(self, items: list[TResponseInputItem]) -> None:
        content, number = self._content(items), 0
        while True:
            newest = self._newest()
            if newest is not None:
                number = max(number, newest.metadata["number"] + 1)
            # The order of a session is that of its numbers, also where clocks differ.
            created_at = max(time.time_ns() // 1_000_000, 0 if newest is None else newest.created_at)
            id, about = id_in(self._space, f"{number:016}"), {"number": number}
            if put_once(self._memory, self._collection, id, content, self._space, about, created_at):
                return
            # The newest may have a lower number than others: who added it may have looked while the one before was taken away.
            number += 1

    def _pop(self) -> TResponseInputItem | None:
        while (newest := self._newest()) is not None:
            items = self._items(newest)
            if len(items) <= 1:
                if remove_unchanged(self._memory, newest):
                    return items[0] if items else None
                continue
            content = self._content(items[:-1])
            try:
                self._memory.put_document(
                    self._collection, newest.id, content, space=self._space, metadata=newest.metadata, expect=newest.revision
                )
            except Conflict:
                continue
            return items[-1]
        return None

    def _clear(self) -> None:
        for collection in (self._collection, self._parts):
            remove_under(self._memory, collection, self._space)

    def _newest(self) -> Document | None:
        return next(self._memory.walk_documents(self._collection, space=self._space, limit=1), None)

    def _content(self, items: list[TResponseInputItem]) -> str:
        text = json.dumps(items, ensure_ascii=False)
        if len(text) <= 100_000 and "\\u0000" not in text:
            return text
        return json.dumps(pack(self._memory, self._parts, f"{self._space}/parts", text.encode()))

    def _items(self, document: Document) -> list[TResponseInputItem]:
        stored = json.loads(document.content)
        if isinstance(stored, dict):
            stored = json.loads(unpack(self._memory, self._parts, f"{self._space}/parts", stored))  # type: ignore[arg-type]
        items: list[TResponseInputItem] = stored
        return items
