"""The memory service of Google's ADK, and a whole session of the official package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.load_memory_tool import load_memory_tool
from google.genai import types
from scripted import Asked, Reply, passed_on, scripted

from agent_memory import InvalidInput, Memory, adk
from agent_memory.adk import AgentMemoryService


@pytest.fixture
def service(memory: Memory, root: str, collection: str) -> AgentMemoryService:
    return AgentMemoryService(memory, root=root, collection=collection)


def said(id: str, text: str, time: float = 1_700_000_000.5) -> Event:
    return Event(id=id, author="ana", timestamp=time, content=types.Content(role="user", parts=[types.Part(text=text)]))


def session(*events: Event, user: str = "ana", id: str = "s") -> Session:
    return Session(app_name="app", user_id=user, id=id, events=list(events))


async def found(service: AgentMemoryService, query: str, user: str = "ana", app: str = "app") -> list[str | None]:
    answer = await service.search_memory(app_name=app, user_id=user, query=query)
    return [entry.id for entry in answer.memories]


async def test_events_are_added_once_and_found_by_their_user(service: AgentMemoryService) -> None:
    both = session(said("1", "I adopted a cat"), said("2", "It rains"), Event(id="3", author="ana"))
    await service.add_session_to_memory(both)
    await service.add_session_to_memory(both)
    answer = await service.search_memory(app_name="app", user_id="ana", query="Who adopted a cat?")
    entry = answer.memories[0]
    assert (entry.id, entry.author, entry.timestamp) == ("1", "ana", "2023-11-14T22:13:20.500000+00:00")
    assert entry.content.role == "user" and entry.content.parts and entry.content.parts[0].text == "I adopted a cat"
    assert (await found(service, "cat rains")).count("1") == 1
    for user, app in (("ana-2", "app"), ("an", "app"), ("ana", "ap"), ("", "app")):
        assert await found(service, "cat", user, app) == []


async def test_a_session_is_added_in_one_request_and_grows_in_three(memory: Memory, root: str, collection: str) -> None:
    asked: list[Asked] = []
    with passed_on(memory, asked.append) as client:
        service = AgentMemoryService(client, root=root, collection=collection)
        events = [said(str(n), f"cat {n}") for n in range(30)]
        for count, requests in [(20, ["POST"]), (20, ["POST", "GET"]), (30, ["POST", "GET", "POST"])]:
            asked.clear()
            await service.add_session_to_memory(session(*events[:count]))
            assert [each.method for each in asked] == requests
        # Entries of another session of the user exist too, and hide nothing.
        await service.add_session_to_memory(session(*events, said("new", "dog"), id="other"))
    assert len(memory.query_documents(collection, under=root).documents) == 31
    assert (await found(AgentMemoryService(memory, root=root, collection=collection), "dog"))[0] == "new"


async def test_a_long_session_is_looked_at_once(memory: Memory, root: str, collection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adk, "_EVENTS_AT_ONCE", 10)
    asked: list[Asked] = []
    with passed_on(memory, asked.append) as client:
        service = AgentMemoryService(client, root=root, collection=collection)
        events = [said(str(n), f"cat {n}") for n in range(40)]
        await service.add_session_to_memory(session(*events[:30]))
        asked.clear()
        await service.add_session_to_memory(session(*events))
    assert [each.method for each in asked] == ["POST", "GET", "POST"]


async def test_deltas_entries_and_deletion(service: AgentMemoryService) -> None:
    await service.add_events_to_memory(app_name="app", user_id="ana", events=[said("1", "a cat")], custom_metadata={"k": 1})
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="Likes tea")]), timestamp="2026-01-01T00:00:00+00:00")
    await service.add_memory(app_name="app", user_id="ana", memories=[entry, entry])
    both = await found(service, "tea")
    assert len(both) == len(set(both)) and both[0] != "1"
    answer = await service.search_memory(app_name="app", user_id="ana", query="cat")
    assert answer.memories[0].custom_metadata == {"k": 1}
    await service.delete_memory(app_name="app", user_id="bob", memory_id="1")
    await service.delete_memory(app_name="app", user_id="ana", memory_id="none")
    assert (await found(service, "cat"))[0] == "1"
    await service.delete_memory(app_name="app", user_id="ana", memory_id="1")
    await service.add_session_to_memory(session(said("1", "a cat")))
    assert "1" not in await found(service, "cat")


async def test_the_scheme_of_its_uri(memory: Memory, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = "services:\n  - scheme: agent-memory\n    type: memory\n    class: agent_memory.adk.AgentMemoryService\n"
    (tmp_path / "services.yaml").write_text(yaml)
    load_services_module(str(tmp_path))
    monkeypatch.setenv("AGENT_MEMORY_TOKEN", memory.token or "")
    registry = get_service_registry()
    for uri in (memory.url.replace("http", "agent-memory"), f"agent-memory://{tmp_path}/memory.db"):
        service: Any = registry.create_memory_service(uri, agents_dir=str(tmp_path))
        assert isinstance(service, AgentMemoryService)
        await service.add_session_to_memory(session(said(root, f"a {root}"), user=root))
        assert await found(service, root, root) == [root]
        service._memory.close()
    with pytest.raises(InvalidInput):
        AgentMemoryService(uri="agent-memory://")
    with pytest.raises(InvalidInput):
        AgentMemoryService()


async def test_a_whole_session(service: AgentMemoryService) -> None:
    def answer(asked: Asked) -> Reply:
        last = asked.json["contents"][-1]["parts"][0]
        part: dict[str, Any] = {"text": "Noted"}
        if "pet" in last.get("text", ""):
            part = {"functionCall": {"name": "load_memory", "args": {"query": "adopted pets"}}}
        elif "functionResponse" in last:
            part = {"text": "You have a cat" if "adopted a cat" in asked.body else "I don't know"}
        return Reply(200, {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]})

    with scripted(answer) as (url, _):
        model = Gemini(model="gemini-3", base_url=url)
        monkey = pytest.MonkeyPatch()
        monkey.setenv("GOOGLE_API_KEY", "x")
        try:
            sessions = InMemorySessionService()
            agent = LlmAgent(name="agent", model=model, tools=[load_memory_tool])
            runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=service)

            async def turn(id: str, text: str) -> list[str]:
                message = types.Content(role="user", parts=[types.Part(text=text)])
                events = [event async for event in runner.run_async(user_id="ana", session_id=id, new_message=message)]
                parts = [part for event in events if event.content for part in event.content.parts or []]
                return [part.text for part in parts if part.text]

            await sessions.create_session(app_name="app", user_id="ana", session_id="one")
            assert await turn("one", "I adopted a cat") == ["Noted"]
            first = await sessions.get_session(app_name="app", user_id="ana", session_id="one")
            assert first is not None
            await service.add_session_to_memory(first)
            await sessions.create_session(app_name="app", user_id="ana", session_id="two")
            assert await turn("two", "Which pet do I have?") == ["You have a cat"]
        finally:
            monkey.undo()
