"""LangGraph's own suite for savers."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from agent_memory import Memory
from agent_memory.langgraph import AgentMemorySaver


async def test_all_capabilities(memory: Memory, root: str, collection: str) -> None:
    @checkpointer_test(name="agent-memory")
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        yield AgentMemorySaver(memory, root=root, collection=collection)

    report = await validate(saver)
    results = report.results
    assert len(results) == 8
    for name, result in results.items():
        assert result.detected and result.tests_skipped == 0, name
        assert result.failures == [], name
    assert sum(result.tests_passed for result in results.values()) == 81
