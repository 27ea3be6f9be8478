"""The memory service of Google's Agent Development Kit as documents.

Needs the extra: ``pip install 'agent-memory[adk]'``. In ``services.yaml``::

    services:
      - scheme: agent-memory
        type: memory
        class: agent_memory.adk.AgentMemoryService
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote, urlsplit

from ._calls import NewDocument, Question
from ._documents import ask, batches, put_missing, replace
from ._extra import extra
from ._time import time_of
from .client import Memory
from .errors import InvalidInput
from .models import Document
from .spaces import id_in, space_of

with extra("adk"):
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
    from google.genai import types

_HITS = 10
# The limits of one request, in events and characters: below the server's 10,000 documents and 64 MiB.
_EVENTS_AT_ONCE = 1000
_CHARACTERS_AT_ONCE = 8 << 20
_NO_SESSION = ""


class AgentMemoryService(BaseMemoryService):
    """Keeps the texts of events in a memory, and finds them by recall, on any engine.

    An event is a document in the space ``ROOT/APP/USER/SESSION/EVENT`` of the collection; adding it again changes nothing. A search finds
    the events of all sessions of the same user and app, and no others. A deleted event stays deleted when its session is added again: an
    empty document keeps its id.

    ``uri`` is ``agent-memory://127.0.0.1:7700`` for a server, ``agent-memory+https://memory.example`` for one behind TLS, with the token in
    ``AGENT_MEMORY_TOKEN``, or ``agent-memory:///home/me/memory.db`` for a file, whose server this service starts.
    """

    def __init__(
        self, memory: Memory | None = None, *, uri: str | None = None, root: str = "adk", collection: str = "adk", **_: Any
    ) -> None:
        if (memory is None) == (uri is None):
            raise InvalidInput("AgentMemoryService needs a memory or a uri")
        self._memory = memory if memory is not None else _memory_at(uri or "")
        self._root = root
        self._collection = collection

    async def add_session_to_memory(self, session: Session) -> None:
        """Adds the events of a session that have a text and were not added before."""
        await asyncio.to_thread(self._add, session.app_name, session.user_id, session.id, session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds events that have a text and were not added before, with metadata for use in conditions."""
        await asyncio.to_thread(self._add, app_name, user_id, session_id or _NO_SESSION, events, custom_metadata)

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Mapping[str, object] | None = None
    ) -> None:
        """Adds entries, each under its id, or under the hash of its text if it has none."""
        events = [
            Event(
                id=entry.id or hashlib.sha256(_text(entry.content).encode()).hexdigest(),
                author=entry.author or "user",
                content=entry.content,
                timestamp=_seconds(entry.timestamp),
            )
            for entry in memories
        ]
        await asyncio.to_thread(self._add, app_name, user_id, _NO_SESSION, events, custom_metadata)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The ten best hits of a recall over the events of the user."""
        return await asyncio.to_thread(self._search, app_name, user_id, query)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Deletes an event by the id of its entry."""
        if memory_id:
            await asyncio.to_thread(self._delete, app_name, user_id, memory_id)

    def _add(self, app: str, user: str, session: str, events: Sequence[Event], custom_metadata: Mapping[str, object] | None = None) -> None:
        below = space_of(self._root, app, user, session)
        new: dict[str, NewDocument] = {}
        for event in events:
            text = _text(event.content)
            if not text:
                continue
            about = {
                "event": event.id,
                "speaker": event.author,
                "role": event.content.role if event.content else None,
                "custom": dict(custom_metadata or {}),
            }
            # The id is the same in all sessions of the user, since an entry is deleted by its id alone.
            id = id_in(space_of(self._root, app, user), event.id)
            document = NewDocument(
                collection=self._collection,
                id=id,
                space=f"{below}/{space_of(event.id)}",
                content=text,
                metadata=about,
                created_at=int(event.timestamp * 1000),
                expect="absent",
            )
            new.setdefault(id, document)
        put_missing(self._memory, self._collection, batches(new.values(), _size, _EVENTS_AT_ONCE, _CHARACTERS_AT_ONCE), below)

    def _search(self, app: str, user: str, query: str) -> SearchMemoryResponse:
        question: Question = {"collection": self._collection, "under": space_of(self._root, app, user), "limit": _HITS}
        documents = (hit.document for hit in ask(self._memory, query, question))
        return SearchMemoryResponse(memories=[_entry(each) for each in documents if each is not None and each.content])

    def _delete(self, app: str, user: str, event: str) -> None:
        scope = space_of(self._root, app, user)
        id = id_in(scope, event)
        found = self._memory.get_document(self._collection, id)
        if found is not None:
            replace(self._memory, self._collection, id, "", found.space_id, {"deleted": True})


def _memory_at(uri: str) -> Memory:
    parts = urlsplit(uri)
    if parts.netloc:
        scheme = "https" if parts.scheme.endswith("+https") else "http"
        return Memory.connect(f"{scheme}://{parts.netloc}", os.environ.get("AGENT_MEMORY_TOKEN"))
    if parts.path.strip("/"):
        return Memory.open(unquote(parts.path))
    raise InvalidInput("the uri names a server (agent-memory://127.0.0.1:7700) or a file (agent-memory:///home/me/memory.db)")


def _entry(document: Document) -> MemoryEntry:
    about = document.metadata
    return MemoryEntry(
        id=about.get("event"),
        author=about.get("speaker"),
        content=types.Content(role=about.get("role"), parts=[types.Part(text=document.content)]),
        custom_metadata=about.get("custom") or {},
        timestamp=time_of(document.created_at).isoformat(),
    )


def _size(document: NewDocument) -> int:
    return len(document["content"]) + len(json.dumps(document.get("metadata"), default=str))


def _text(content: types.Content | None) -> str:
    parts = content.parts if content is not None and content.parts else []
    return "\n".join(part.text for part in parts if part.text and not part.thought).replace("\0", "")


def _seconds(timestamp: str | None) -> float:
    when = datetime.fromisoformat(timestamp.replace("Z", "+00:00")) if timestamp else datetime.now(timezone.utc)
    return when.timestamp()
