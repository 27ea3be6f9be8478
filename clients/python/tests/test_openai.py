"""The session of OpenAI's Agents SDK, and a whole run of the official package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner
from agents.memory import Session, SessionSettings
from openai import AsyncOpenAI
from scripted import LOST, Asked, Reply, meanwhile, puts_document, scripted

from agent_memory import Memory
from agent_memory.openai import AgentMemorySession
from agent_memory.spaces import id_in, space_of


def items(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def contents(items: Sequence[Any]) -> list[str]:
    return [item["content"] for item in items]


@pytest.fixture
def session(memory: Memory, root: str, collection: str) -> AgentMemorySession:
    return AgentMemorySession("s/1-a", memory, root=root, collection=collection)


async def test_items_come_in_their_order(session: AgentMemorySession) -> None:
    assert isinstance(session, Session)
    assert await session.get_items() == []
    await session.add_items([])
    await session.add_items(items("a", "b", "c"))
    await session.add_items(items("d"))
    assert await session.get_items() == items("a", "b", "c", "d")
    assert await session.get_items(2) == items("c", "d")
    assert await session.get_items(3) == items("b", "c", "d")
    assert await session.get_items(9) == items("a", "b", "c", "d")
    assert await session.get_items(0) == []


async def test_items_are_popped_from_the_end(session: AgentMemorySession) -> None:
    await session.add_items(items("a"))
    await session.add_items(items("b", "c"))
    assert [await session.pop_item() for _ in range(4)] == [*items("c", "b", "a"), None]
    await session.add_items(items("d"))
    assert await session.get_items() == items("d")


async def test_items_are_added_behind_numbers_that_are_out_of_order(
    memory: Memory, session: AgentMemorySession, root: str, collection: str
) -> None:
    space = space_of(root, "s/1-a")
    for number, created_at in [(2, 10), (1, 20)]:
        content, id = json.dumps(items(str(number))), id_in(space, f"{number:016}")
        memory.put_document(collection, id, content, space=space, metadata={"number": number}, created_at=created_at)
    await asyncio.wait_for(session.add_items(items("3")), 30)
    assert await session.get_items() == items("2", "1", "3")


async def test_sessions_are_apart_and_cleared_alone(memory: Memory, session: AgentMemorySession, root: str, collection: str) -> None:
    other = AgentMemorySession("s", memory, root=root, collection=collection, session_settings=SessionSettings(limit=1))
    await session.add_items(items("a"))
    await other.add_items(items("b", "c"))
    assert await other.get_items() == items("c")
    await session.clear_session()
    assert await session.get_items() == [] and await other.get_items(5) == items("b", "c")


async def test_any_json_of_any_size(session: AgentMemorySession) -> None:
    many: list[Any] = [{"n": 2**70, "f": 1.5, "text": "a\0b é", "large": "x" * (3 << 20), "none": None}]
    await session.add_items(many)
    assert await session.get_items() == many
    assert await session.pop_item() == many[0]


async def test_racing_writers_lose_nothing(memory: Memory, root: str, collection: str) -> None:
    sessions = [AgentMemorySession("s", memory, root=root, collection=collection) for _ in range(8)]
    await asyncio.gather(*(session.add_items(items(f"{n}a", f"{n}b")) for n, session in enumerate(sessions)))
    found = contents(await sessions[0].get_items())
    assert sorted(found) == sorted(f"{n}{part}" for n in range(8) for part in "ab")
    # Items that were added in one call stay together.
    assert all(one[0] == two[0] for one, two in zip(found[::2], found[1::2], strict=True))
    popped = await asyncio.gather(*(session.pop_item() for session in sessions for _ in range(2)))
    assert sorted(contents(popped)) == sorted(found)
    assert await sessions[0].get_items() == []


async def test_equal_items_of_two_writers_are_both_there(memory: Memory, session: AgentMemorySession, root: str, collection: str) -> None:
    """The put of one writer is lost, and the other writer takes its number."""

    def happens() -> Reply:
        asyncio.run(session.add_items(items("yes")))
        return LOST

    with meanwhile(memory, puts_document, happens) as client:
        await AgentMemorySession("s/1-a", client, root=root, collection=collection).add_items(items("yes"))
    assert await session.get_items() == items("yes", "yes")


@pytest.mark.usefixtures("parts_apart")
async def test_a_session_that_is_cleared_beside_an_addition_has_all_of_it(
    memory: Memory, session: AgentMemorySession, root: str, collection: str
) -> None:
    many = items("x" * 800_000, "y" * 800_000)
    with meanwhile(memory, puts_document, lambda: asyncio.run(session.clear_session())) as client:
        await AgentMemorySession("s/1-a", client, root=root, collection=collection).add_items(many)
    assert await session.get_items() == many
    assert [await session.pop_item(), await session.get_items()] == [many[1], many[:1]]
    assert await session.pop_item() == many[0]
    assert memory.query_documents(f"{collection}_parts", under=root).documents == []


async def test_a_whole_run(session: AgentMemorySession) -> None:
    def answer(asked: Asked) -> Reply:
        said = f"You said {len([each for each in asked.json['input'] if each.get('role') == 'user'])} things"
        content = [{"type": "output_text", "text": said, "annotations": [], "logprobs": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "x", "output": [message], "status": "completed"}
        rest = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "usage": {**usage, **details}}
        return Reply(200, {**response, **rest})

    with scripted(answer) as (url, asked):
        model = OpenAIResponsesModel("x", AsyncOpenAI(base_url=url, api_key="x", max_retries=0))
        agent = Agent(name="a", model=model)
        config = RunConfig(tracing_disabled=True)
        assert (await Runner.run(agent, "I like tea", session=session, run_config=config)).final_output == "You said 1 things"
        assert (await Runner.run(agent, "And you?", session=session, run_config=config)).final_output == "You said 2 things"
    assert len(asked[1].json["input"]) == 3 and "I like tea" in json.dumps(asked[1].json["input"])
    assert len(await session.get_items()) == 4
