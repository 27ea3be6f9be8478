"""The server that a client starts."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_memory import AsyncMemory, Closed, Memory, Unauthorized, Unavailable
from agent_memory import _server as servers


def listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=1).close()
    except OSError:
        return False
    return True


def ends(url: str, seconds: float = 30) -> bool:
    """Whether nothing listens there any more, within some seconds."""
    end = time.monotonic() + seconds
    while listens(url):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_it_answers_nobody_else(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory, Memory.connect(memory.url) as other:
        assert memory.health().engine == "sqlite"
        with pytest.raises(Unauthorized):
            other.health()


def test_it_ends_with_the_client(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        url = memory.url
        assert urlsplit(url).hostname == "127.0.0.1" and listens(url)
    assert not listens(url)
    memory.close()
    with pytest.raises(Closed):
        memory.health()


def test_what_was_stored_is_there_again(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "a b%20ü?#" / "memory.db")) as memory:
        memory.store("s", 1)
    with Memory.open(tmp_path / "a b%20ü?#" / "memory.db") as memory:
        assert len(memory.query(space="s").memories) == 1
    assert (tmp_path / "a b%20ü?#" / "memory.db").exists()


def test_two_share_a_file(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as one, Memory.open(tmp_path / "memory.db") as other:
        one.store("s", 1)
        assert len(other.query(space="s").memories) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_process(tmp_path: Path, way: signal.Signals) -> None:
    program = (
        "import sys, time\nfrom agent_memory import Memory\n"
        f"memory = Memory.open({str(tmp_path / 'memory.db')!r})\nprint(memory.url, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert listens(url)
        process.send_signal(way)
        process.wait()
        assert ends(url)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_it_ends_with_its_supervisor(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        assert memory._server is not None
        memory._server._process.terminate()
        assert ends(memory.url)


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_neither_token_nor_url_is_on_a_command_line(tmp_path: Path) -> None:
    with Memory.open(f"sqlite://{tmp_path}/memory.db?language=german") as memory:
        assert memory.token is not None and len(memory.token) >= 32
        lines = b"".join(each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if os.access(each, os.R_OK))
        assert memory.token.encode() not in lines and b"language=german" not in lines
        assert stat.S_ISREG((tmp_path / "memory.db").stat().st_mode)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Unavailable, match=r"did not start: .+"):
        Memory.open(tmp_path / "file" / "memory.db")
    with pytest.raises(Unavailable, match="did not start"):
        Memory.open("gopher://x")


def test_no_binary_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AGENT_MEMORY_BIN", raising=False)
    with pytest.raises(Unavailable, match=r"pip install agent-memory.*AGENT_MEMORY_BIN"):
        Memory.open(tmp_path / "memory.db")
    program = tmp_path / "agent-memory"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(Unavailable, match="pip install"):
        servers.find_binary()
    program.chmod(0o755)
    assert servers.find_binary() == str(program)
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: "/nonexistent")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("AGENT_MEMORY_BIN", str(program))
    assert servers.find_binary() == str(program)


async def test_the_async_client_opens_and_ends_one(tmp_path: Path) -> None:
    async with AsyncMemory.open(tmp_path / "memory.db") as memory:
        await memory.store("s", 1)
        url = memory.url
    assert not listens(url)
