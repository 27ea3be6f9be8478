"""A server for all tests, on SQLite unless ``AGENT_MEMORY_TEST_URLS`` names databases, which may hold anything, or servers that run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory import Memory

URLS = os.environ.get("AGENT_MEMORY_TEST_URLS", "").split() or ["sqlite"]


@pytest.fixture(scope="session", params=URLS, ids=lambda url: url.split(":")[0])
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    database: str | Path = request.param
    if database == "sqlite":
        database = tmp_path_factory.mktemp("data") / "memory.db"
    is_server = request.param.startswith("http")
    with Memory.connect(request.param, os.environ.get("AGENT_MEMORY_TOKEN")) if is_server else Memory.open(database) as memory:
        yield memory


@pytest.fixture
def root() -> str:
    """A space that no other test uses."""
    return f"test{uuid.uuid4().hex}"


@pytest.fixture
def collection() -> str:
    """A collection that no other test uses."""
    return f"test{uuid.uuid4().hex}"
