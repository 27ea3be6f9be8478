"""HTTP servers whose answers a test sets, and one that forwards to a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent_memory import Memory


@dataclass
class Asked:
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer; without a status the connection is closed instead of one. A body of pieces is sent piece by piece."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def problem(status: int, **members: Any) -> Reply:
    """Problem details in the form of the server."""
    body = {"type": "about:blank", "title": "", "status": status, "detail": "no", "retryable": False, **members}
    return Reply(status, body, {"Content-Type": "application/problem+json"})


@contextmanager
def scripted(answer: Callable[[Asked], Reply]) -> Iterator[tuple[str, list[Asked]]]:
    """A server on a free port, and its requests."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Asked(self.command, self.path, headers, self.rfile.read(length).decode())
            asked.append(request)
            reply = answer(request)
            if reply.status is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            if isinstance(reply.body, Iterator):
                self.end_headers()
                self.close_connection = True
                with suppress(OSError):
                    for piece in reply.body:
                        self.wfile.write(piece)
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_turn(*replies: Reply) -> Callable[[Asked], Reply]:
    """Each reply once; the last one also for all later requests."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


LOST = Reply(None)


@contextmanager
def passed_on(memory: Memory, look: Callable[[Asked], Reply | None]) -> Iterator[Memory]:
    """A client of the same server. A function sees each request first, and the request passes unless that returns a reply."""

    def answer(asked: Asked) -> Reply:
        reply = look(asked)
        if reply is not None:
            return reply
        headers = {name: value for name, value in asked.headers.items() if name != "host"}
        passed = memory._streams.request(asked.method, asked.path, content=asked.body, headers=headers, timeout=30)
        return Reply(passed.status_code, passed.content, {"Content-Type": passed.headers["content-type"]})

    with scripted(answer) as (url, _), Memory.connect(url, memory.token) as client:
        yield client


@contextmanager
def meanwhile(memory: Memory, before: Callable[[Asked], bool], happens: Callable[[], Reply | None]) -> Iterator[Memory]:
    """A client with one event, before a request passes, or instead of the request if the event is a reply."""
    left = [happens]
    with passed_on(memory, lambda asked: left.pop()() if left and before(asked) else None) as client:
        yield client
    assert not left, "nothing has happened"


def puts_document(asked: Asked) -> bool:
    """Whether a request puts a document that refers to parts."""
    return (asked.method, asked.path) == ("POST", "/v1/documents") and not asked.json["documents"][-1]["collection"].endswith("_parts")


def removes_parts(asked: Asked) -> bool:
    """Whether a request removes parts."""
    return asked.method == "DELETE" and "_parts?" in asked.path
