"""LangGraph's own suite for savers, and, if large tests are selected, once more with 5 MiB of state in each checkpoint."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate

from agent_memory import Memory
from agent_memory.langgraph import AgentMemorySaver

STATE = os.urandom(5 << 20)
CHANNEL = "five mebibytes"


class LargeSaver(AgentMemorySaver):
    """Adds a channel to each checkpoint, which its caller does not see."""

    def put(self, config: Any, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> Any:
        values = {**checkpoint["channel_values"], CHANNEL: STATE}
        return super().put(config, {**checkpoint, "channel_values": values}, metadata, new_versions)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        return None if found is None else without_state(found)

    def list(self, config: Any, **options: Any) -> Iterator[CheckpointTuple]:
        return map(without_state, super().list(config, **options))


def without_state(found: CheckpointTuple) -> CheckpointTuple:
    assert found.checkpoint["channel_values"].pop(CHANNEL) == STATE
    return found


@pytest.mark.parametrize("saver", [AgentMemorySaver, pytest.param(LargeSaver, marks=pytest.mark.large)])
async def test_all_capabilities(memory: Memory, root: str, collection: str, saver: type[AgentMemorySaver]) -> None:
    @checkpointer_test(name="agent-memory")
    async def made() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        yield saver(memory, root=root, collection=collection)

    report = await validate(made)
    results = report.results
    assert len(results) == 8
    for name, result in results.items():
        assert result.detected and result.tests_skipped == 0, name
        assert result.failures == [], name
    assert sum(result.tests_passed for result in results.values()) == 81
