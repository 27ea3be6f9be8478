"""The parts of a configuration of LangGraph."""

from __future__ import annotations

import uuid

from langchain_core.runnables import RunnableConfig


def place_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """The thread, the namespace and the checkpoint that a configuration names."""
    configurable = config.get("configurable", {})
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", ""), checkpoint_of(config)


def checkpoint_of(config: RunnableConfig | None) -> str | None:
    """The checkpoint that a configuration names; ``None`` if it names none."""
    checkpoint: str | None = config.get("configurable", {}).get("checkpoint_id") if config else None
    return checkpoint


def config_of(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    """The configuration that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def millis_of(checkpoint_id: str) -> int:
    """The time in an id of LangGraph. Other ids all get the same time, so that they sort by their bytes."""
    try:
        time = uuid.UUID(checkpoint_id)
    except ValueError:
        return 0
    if time.version != 6:
        return 0
    ticks = (time.time_low << 28) | (time.time_mid << 12) | (time.time_hi_version & 0x0FFF)
    return (ticks - 0x01B21DD213814000) // 10_000
