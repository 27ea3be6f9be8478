"""The examples of the README, of the root README, of the guide and of the docstrings run."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_memory import spaces

ROOT = Path(__file__).parents[3]
# The tests of memory-cli run the chapter on MCP, which uses another package.
GUIDE = sorted(path for path in (ROOT / "docs/src").glob("*.md") if path.name != "mcp.md")
FILES = [ROOT / "clients/python/README.md", ROOT / "README.md", *GUIDE]
EXAMPLES = [example for file in FILES for example in re.findall(r"```python\n(.*?)```", file.read_text(), re.S)]
SAID = {
    0: "I adopted a cat",
    2: "My birthday is on March 14\nAna has two cats\n",
    3: "[{'text': 'I adopted a cat'}]",
    4: "stored I adopted a cat\nAna has a cat\n",
    5: "[True]\nThe kitten sleeps",
    7: "3",
    12: "I adopted a cat",
    13: "another runtime has it",
}


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example(number: int, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
    command = [sys.executable, "-c", EXAMPLES[number]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in SAID.get(number, "").splitlines():
        assert line in done.stdout


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 14


MISSING = """
import importlib, sys
for package in ("agents", "anthropic", "google.adk", "langchain_core", "langgraph"):
    sys.modules[package] = None
for adapter in ("adk", "anthropic", "langgraph", "openai"):
    try:
        importlib.import_module(f"agent_memory.{adapter}")
    except ModuleNotFoundError as error:
        print(adapter, error)
"""


def test_an_adapter_without_its_packages_says_what_to_install() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", MISSING], env=environment, capture_output=True, text=True)
    assert re.findall(r"^(\w+) .*`pip install 'agent-memory\[(\w+)\]'`$", done.stdout, re.M) == [
        (name, name) for name in ("adk", "anthropic", "langgraph", "openai")
    ], done.stderr


def test_docstrings() -> None:
    assert doctest.testmod(spaces).attempted == 2 and doctest.testmod(spaces).failed == 0
