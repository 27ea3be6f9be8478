"""Replaces the stores of LangGraph's own packages by ``AgentMemoryStore`` in their tests: a plugin of pytest."""

from __future__ import annotations

import os
import sys
import types
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from agent_memory import Memory
from agent_memory.langgraph import AgentMemoryStore

LEFT_OUT = {
    # Tests that access the internals of LangGraph's stores.
    "test_escape_glob_literal",
    "test_list_namespaces_prefix_uses_indexable_condition",
    "test_namespace_match_pattern",
    "test_nonnull_migrations",
    "test_vector_store_initialization",
    # A behaviour of AsyncSqliteStore only: its sync methods refuse to run in an event loop.
    "test_no_running_loop",
    # Tests that compute the distances of LangGraph's embedding; here words decide.
    "test_scores",
    "langgraph_checkpoint-4.3.2/test_embed_with_path",
}


class Store(AgentMemoryStore):
    """A new store each time, made as LangGraph's stores are."""

    memory: Memory

    def __init__(self, index: dict[str, Any] | None = None, **_: Any) -> None:
        name = f"test{uuid.uuid4().hex}"
        fields = (index or {}).get("text_fields") or (index or {}).get("fields")
        super().__init__(self.memory, root=name, collection=name, index=fields)

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, index: dict[str, Any] | None = None) -> Iterator[Store]:
        yield cls(index)

    def setup(self) -> None:
        pass


class AsyncStore(AgentMemoryStore):
    """The same, as an async context manager."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, index: dict[str, Any] | None = None) -> AsyncIterator[AsyncStore]:
        yield cls.of(Store(index))

    @classmethod
    def of(cls, store: Store) -> AsyncStore:
        new = cls.__new__(cls)
        new.__dict__ = store.__dict__
        return new

    async def setup(self) -> None:
        pass


def pytest_configure() -> None:
    Store.memory = Memory.connect(os.environ["STORE_URL"], os.environ["STORE_TOKEN"])
    package, base = types.ModuleType("langgraph.store.sqlite"), types.ModuleType("langgraph.store.sqlite.base")
    vars(package).update(SqliteStore=Store, AsyncSqliteStore=AsyncStore)
    for name in ("NS_MATCH_FUNCTION", "BaseSqliteStore", "SqliteIndexConfig", "_escape_glob_literal", "_namespace_match_pattern"):
        setattr(base, name, dict)
    sys.modules |= {package.__name__: package, base.__name__: base}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        assert isinstance(item, pytest.Function)
        if hasattr(item.module, "InMemoryStore"):
            item.module.InMemoryStore = Store
        folder = item.path.parent.parent.name
        is_left = item.originalname in LEFT_OUT or f"{folder}/{item.originalname}" in LEFT_OUT
        # LangGraph's stores are once in memory and once in a file; here both would be the same.
        (left if is_left or "[file" in item.name or "-file" in item.name else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_unconfigure() -> None:
    Store.memory.close()
