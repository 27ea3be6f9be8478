"""Starts the program as a server on a free port of this machine."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from ._connection import NO_AUTHORITIES
from .errors import InvalidInput, Unavailable, Unsupported

_LOG = logging.getLogger("agent_memory.server")
_LISTENING = "listening on "
# How many seconds `stop` waits. The supervisor ends the server within twelve.
_PATIENCE = 15


def find_binary() -> str:
    """The path of the program: ``AGENT_MEMORY_BIN``, or else the first found in the folders where pip installs scripts and on the PATH."""
    if named := os.environ.get("AGENT_MEMORY_BIN"):
        if not _is_program(named):
            raise InvalidInput("AGENT_MEMORY_BIN names no program that can be run")
        return named
    name = "agent-memory.exe" if os.name == "nt" else "agent-memory"
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    candidates = [os.path.join(sysconfig.get_path("scripts", scheme), name) for scheme in schemes]
    for candidate in (*candidates, shutil.which(name)):
        if candidate and _is_program(candidate):
            return candidate
    raise Unavailable(
        "the program agent-memory was not found: `pip install agent-memory` brings it where there is a wheel for this machine; "
        "else build it, and name it in AGENT_MEMORY_BIN or put it on the PATH"
    )


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def database_url(database: str | os.PathLike[str]) -> str:
    """The URL of a database. A path becomes the URL of a SQLite file."""
    text = os.fspath(database)
    if "://" in text:
        return text
    if not text:
        raise InvalidInput("name the file of the database, as in Memory.open('memory.db')")
    return f"sqlite://{quote(Path(text).absolute().as_posix())}"


@dataclass(frozen=True)
class Embedder:
    """The embedding model of a server. The environment provides what is ``None``."""

    place: str | os.PathLike[str] | None = None
    """The folder of a model that runs in the server, or the base URL of an endpoint."""
    model: str | None = None
    width: int | None = None

    def environment(self) -> dict[str, str]:
        """The environment variables that name the model to a server."""
        place = None if self.place is None else os.fspath(self.place)
        given = {"": place, "_MODEL": self.model, "_WIDTH": self.width}
        return {f"AGENT_MEMORY_EMBEDDER{name}": str(value) for name, value in given.items() if value is not None}


_NO_EMBEDDER = Embedder()


class Server:
    """A running server. It ends with :meth:`stop`, and also when this process dies."""

    def __init__(self, database: str | os.PathLike[str], seconds: float, embedder: Embedder = _NO_EMBEDDER) -> None:
        """Starts a server, and returns when it listens. Raises :class:`Unavailable` with its last output if it does not within ``seconds``.

        A server that does not require a token is stopped: an older program ignores the token, and would let in every user of the machine.
        """
        if getattr(sys, "frozen", False) or not sys.executable:
            raise Unsupported("a frozen program can't start the server: start `agent-memory serve`, and use Memory.connect")
        self.token = secrets.token_urlsafe(32)
        self._listening: Future[str] = Future()
        self._last = "it said nothing"
        # Passwords in URLs and the token are passed in the environment, since other users can read a command line.
        environment = {**os.environ, "AGENT_MEMORY_URL": database_url(database), "AGENT_MEMORY_TOKEN": self.token}
        environment |= embedder.environment()
        command = [find_binary(), "serve", "--listen", "127.0.0.1:0"]
        supervisor = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_supervise.py"))]
        self._process = subprocess.Popen(
            supervisor + command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # Ctrl-C must reach this program only, which then stops the server.
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self.url = self._address(seconds)
            self._check_token(seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the server once it has answered its open requests. A second call does nothing."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            if os.name == "posix":
                # The supervisor and the server have a process group of their own.
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text.startswith(_LISTENING) and not self._listening.done():
                    self._listening.set_result(text.removeprefix(_LISTENING))
                self._last = text
                _LOG.info("%s", text)
        if not self._listening.done():
            self._listening.set_exception(Unavailable(f"the server did not start: {self._last}"))

    def _address(self, seconds: float) -> str:
        try:
            return self._listening.result(seconds)
        except concurrent.futures.TimeoutError:
            raise Unavailable(f"the server has not begun to listen within {seconds:g} seconds: {self._last}") from None

    def _check_token(self, seconds: float) -> None:
        try:
            status = httpx.get(f"{self.url}/v1/health", timeout=seconds, trust_env=False, verify=NO_AUTHORITIES).status_code
        except httpx.HTTPError as error:
            raise Unavailable(f"the server does not answer: {self._last}", retryable=True) from error
        if status != httpx.codes.UNAUTHORIZED:
            raise Unsupported("the program agent-memory is older than this client, and asks for no token: upgrade it")
