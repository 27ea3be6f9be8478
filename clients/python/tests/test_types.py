"""The package and its tests are typed, for the oldest and the newest Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = {
    "ruff": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "mypy 3.10": ["mypy", "--python-version", "3.10", "--cache-dir", ".cache/mypy-3.10"],
    "mypy 3.14": ["mypy", "--python-version", "3.14", "--cache-dir", ".cache/mypy-3.14"],
    "pyright 3.10": ["pyright", "--pythonversion", "3.10", "--pythonpath", sys.executable],
    "pyright 3.14": ["pyright", "--pythonversion", "3.14", "--pythonpath", sys.executable],
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_checker_finds_nothing(name: str) -> None:
    command = [sys.executable, "-m", *CHECKS[name]]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
