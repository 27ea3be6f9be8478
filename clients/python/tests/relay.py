"""Real servers at a fixed address, and a relay between them and a client."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from agent_memory import AsyncMemory, Memory
from agent_memory import _server as servers


def until(holds: Callable[[], bool]) -> None:
    """Polls until a condition holds."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never comes true"
        time.sleep(0.02)


def watches_open(memory: Memory | AsyncMemory) -> int:
    """How many watches the server of a client has open."""
    headers = {"Authorization": f"Bearer {memory.token}"}
    metrics = httpx.get(f"{memory.url}/metrics", headers=headers, trust_env=False).text
    found = re.search(r"^agent_memory_watches_open (\d+)$", metrics, re.M)
    assert found is not None
    return int(found[1])


class Program:
    """A server on a database that can be restarted, each time with the same token."""

    def __init__(self, database: Path) -> None:
        self.token = secrets.token_urlsafe(32)
        self._environment = {**os.environ, "AGENT_MEMORY_URL": servers.database_url(database), "AGENT_MEMORY_TOKEN": self.token}

    @contextmanager
    def running(self) -> Iterator[str]:
        """The address of the server, which is told to end after the block."""
        command = [servers.find_binary(), "serve", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            url = ""
            for line in process.stderr:
                if line.startswith("listening on "):
                    url = line.removeprefix("listening on ").strip()
                    break
            # Nobody else reads its output.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            try:
                yield url
            finally:
                process.terminate()
                assert process.wait(30) == 0


class Relay:
    """Forwards connections to a server, byte by byte, until a test cuts them."""

    def __init__(self) -> None:
        self.target: str | None = None
        """The address of the server; without one, new connections are closed at once."""
        self.made = 0
        """The number of forwarded connections."""
        self.refused = 0
        """The number of closed connections."""
        self.cut_after: int | None = None
        """Closes each connection after this many bytes from the server."""
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Closes all connections."""
        for pair in list(self._pairs):
            _end(pair)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            target = urlsplit(self.target or "http://127.0.0.1:0")
            try:
                server = socket.create_connection((target.hostname or "", target.port or 0))
            except OSError:
                client.close()
                self.refused += 1
                continue
            pair = (client, server)
            self._pairs.add(pair)
            self.made += 1
            for source, sink in (pair, (server, client)):
                threading.Thread(target=self._pass, args=(pair, source, sink), daemon=True).start()

    def _pass(self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if source is pair[1] and self.cut_after is not None:
                    piece = piece[: self.cut_after - passed]
                sink.sendall(piece)
                passed += len(piece)
                if source is pair[1] and self.cut_after is not None and passed >= self.cut_after:
                    break
        _end(pair)
        self._pairs.discard(pair)


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for each in pair:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(target: str | None = None) -> Iterator[Relay]:
    """A relay to a server."""
    relay = Relay()
    relay.target = target
    try:
        yield relay
    finally:
        relay.close()
