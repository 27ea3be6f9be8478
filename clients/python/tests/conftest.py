"""A server for all tests, on SQLite unless ``AGENT_MEMORY_TEST_URLS`` names databases, which may hold anything, or servers that run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_memory import Memory, _parts

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


@pytest.fixture
def parts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the parts of large values in requests of their own, as those beyond 32 MiB are."""
    monkeypatch.setattr(_parts, "AT_ONCE_BYTES", 0)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Collects the skipped tests for the summary of the run: xdist does not report them."""
    for item in items:
        output = getattr(item.config, "workeroutput", {})
        output.setdefault("deselected", []).append(item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Shows the tests that a worker has skipped in the summary; all workers skip the same."""
    reporter = node.config.pluginmanager.get_plugin("terminalreporter")
    reporter.stats["deselected"] = getattr(node, "workeroutput", {}).get("deselected", [])
