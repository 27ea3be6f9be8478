"""The server that a client starts."""

from __future__ import annotations

import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import threading
import time
import tracemalloc
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_memory import AsyncMemory, Closed, InvalidInput, Memory, Unauthorized, Unavailable, Unsupported
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
        # A shell that runs the tests in the background ignores SIGINT, and programs inherit that.
        "import signal, sys, time\nfrom agent_memory import Memory\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
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


def test_a_binary_is_found_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {name: tmp_path / name for name in ("named", "packaged", "path")}
    for folder in places.values():
        folder.mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(places["packaged"]))
    monkeypatch.setenv("PATH", str(places["path"]))
    monkeypatch.delenv("AGENT_MEMORY_BIN", raising=False)
    with pytest.raises(Unavailable, match=r"pip install agent-memory.*AGENT_MEMORY_BIN"):
        Memory.open(tmp_path / "memory.db")
    for name in ("path", "packaged", "named"):
        program = places[name] / "agent-memory"
        if name == "named":
            monkeypatch.setenv("AGENT_MEMORY_BIN", str(program))
            with pytest.raises(InvalidInput, match="AGENT_MEMORY_BIN names no program"):
                servers.find_binary()
        program.write_text("#!/bin/sh\n")
        if name == "packaged":
            assert servers.find_binary() == str(places["path"] / "agent-memory")
        program.chmod(0o755)
        assert servers.find_binary() == str(program)


SERVER = """#!{python} -I
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["authorization"] == "Bearer " + os.environ["AGENT_MEMORY_TOKEN"]
        self.send_response(200 if known or {open} else 401)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"listening on http://127.0.0.1:{{server.server_port}}", file=sys.stderr, flush=True)
for _ in range({lines}):
    print("x" * 99, file=sys.stderr)
print("done", file=sys.stderr, flush=True)
server.serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path at which a test puts the program to start."""
    program = tmp_path / "agent-memory"
    monkeypatch.setenv("AGENT_MEMORY_BIN", str(program))
    return program


def written(program: Path, **values: object) -> None:
    program.write_text(SERVER.format(python=sys.executable, **values))
    program.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="a script with #!")
def test_a_server_that_asks_for_no_token_is_ended(program: Path, tmp_path: Path) -> None:
    written(program, open=True, lines=0)
    started: list[str] = []
    with pytest.raises(Unsupported, match=r"older than this client.*upgrade it"):
        started.append(Memory.open(tmp_path / "memory.db").url)
    assert started == []


@pytest.mark.skipif(os.name == "nt", reason="a script with #!")
def test_what_a_server_says_is_not_kept(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(program, open=False, lines=20_000)
    said = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "done":
                said.set()

    log, listener = logging.getLogger("agent_memory.server"), Listener()
    monkeypatch.setattr(log, "propagate", False)
    log.addHandler(listener)
    log.setLevel(logging.INFO)
    tracemalloc.start()
    try:
        server = servers.Server(tmp_path / "memory.db", 60)
        assert said.wait(60)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        server.stop()
    finally:
        tracemalloc.stop()
        log.removeHandler(listener)
        log.setLevel(logging.NOTSET)


async def test_the_async_client_opens_and_ends_one(tmp_path: Path) -> None:
    async with AsyncMemory.open(tmp_path / "memory.db") as memory:
        await memory.store("s", 1)
        url = memory.url
    assert not listens(url)
