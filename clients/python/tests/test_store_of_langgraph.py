"""The store tests of LangGraph's own packages, taken from their source distributions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from agent_memory import Memory

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache"


def unpacked(name: str, version: str) -> Path:
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        project = name.replace("_", "-")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", project, "-d", str(CACHE)]
        subprocess.run([*pip, f"{project}=={version}"], check=True)
        with tarfile.open(CACHE / f"{name}-{version}.tar.gz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(CACHE)
    return folder


# One after the other, since they share the downloaded files.
@pytest.mark.xdist_group("theirs")
@pytest.mark.parametrize(
    ("name", "version", "file", "count"),
    [
        ("langgraph_checkpoint", "4.3.2", "test_store.py", 115),
        ("langgraph_checkpoint_sqlite", "3.1.2", "test_store.py", 50),
        ("langgraph_checkpoint_sqlite", "3.1.2", "test_async_store.py", 21),
    ],
)
def test_theirs(memory: Memory, name: str, version: str, file: str, count: int) -> None:
    folder = unpacked(name, version)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "stores_of_langgraph", "-o", "asyncio_mode=auto", "-W", "ignore"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
        "STORE_URL": memory.url,
        "STORE_TOKEN": memory.token or "",
    }
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), f"tests/{file}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) == count, done.stdout[-500:]
