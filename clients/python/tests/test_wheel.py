"""The wheel of AGENT_MEMORY_WHEEL in an environment that has nothing else: what a new user has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from test_documentation import EXAMPLES

WHEEL = Path(os.environ["AGENT_MEMORY_WHEEL"])
# Neither the sources nor the program of the other tests may replace those of the wheel.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("AGENT_MEMORY_BIN", "PYTHONPATH", "PATH")}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's programs behind ``pip install`` of the wheel."""
    venv = tmp_path_factory.mktemp("first") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    scripts = venv / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "pip", "install", "-q", "--disable-pip-version-check", str(WHEEL))
    return scripts


def run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.xdist_group("wheel")
def test_the_first_lines_of_the_readme_run_behind_pip_install(scripts: Path, tmp_path: Path) -> None:
    assert run(scripts / "python", "-c", EXAMPLES[0], folder=tmp_path) == "I adopted a cat\n"


@pytest.mark.xdist_group("wheel")
def test_the_program_is_there_and_has_all_engines(scripts: Path) -> None:
    for url in ("postgres://127.0.0.1:1/none", "redis://127.0.0.1:1", "mongodb://127.0.0.1:1/none"):
        done = subprocess.run([scripts / "agent-memory", "--url", url, "doctor"], env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode != 0
        assert "--features" not in done.stderr, done.stderr


def test_it_needs_no_python_of_a_certain_version() -> None:
    assert WHEEL.name.split("-")[2:4] == ["py3", "none"]
    names = ZipFile(WHEEL).namelist()
    assert "agent_memory/py.typed" in names
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
