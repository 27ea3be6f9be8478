"""The calls that are retried, and those that are not."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted import LOST, Asked, Reply, in_turn, problem, scripted

from agent_memory import (
    AgentMemoryError,
    AsyncMemory,
    Closed,
    Conflict,
    Corrupt,
    FeedReset,
    InvalidInput,
    LimitExceeded,
    Memory,
    NewDocument,
    NotFound,
    Outcome,
    SchemaMismatch,
    Timeout,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
    Unsupported,
    _attempts,
)

BUSY = problem(503, error="Unavailable", retryable=True)
UNKNOWN = problem(504, error="Timeout", outcome="unknown", retryable=True)
DOCUMENT = {"id": "d", "collection": "c", "spaceId": "s", "content": "x", "metadata": {}, "createdAt": 1, "revision": 1}

Ask = Callable[[Memory], object]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the pauses that the client itself chooses to a hundredth."""
    monkeypatch.setattr(_attempts, "_PAUSE", _attempts._PAUSE / 100)


def store(memory: Memory) -> object:
    return memory.store("s", 1)


def update(memory: Memory) -> object:
    return memory.update("i", status="failed")


def put(memory: Memory) -> object:
    return memory.put_document("c", "d", "x", space="s")


def remove(memory: Memory) -> object:
    return memory.remove_documents("c", under="s")


def get(memory: Memory) -> object:
    return memory.get_document("c", "d")


def calls_of(ask: Ask, answer: Callable[[Asked], Reply]) -> tuple[object, list[Asked]]:
    """The result or the error of a call, and its requests."""
    with scripted(answer) as (url, asked), Memory.connect(url, timeout=20) as memory:
        try:
            return ask(memory), asked
        except AgentMemoryError as error:
            return error, asked


@pytest.mark.parametrize("first", [LOST, BUSY, UNKNOWN], ids=["lost", "busy", "unknown"])
def test_a_store_is_repeated_with_one_key(first: Reply) -> None:
    done, asked = calls_of(store, in_turn(first, first, Reply(201, {"id": "i"})))
    assert done == "i" and len(asked) == 3
    keys = {each.json["idempotencyKey"] for each in asked}
    assert len(keys) == 1 and len(keys.pop()) == 36


def test_each_store_has_a_key_of_its_own() -> None:
    with scripted(in_turn(Reply(201, {"ids": ["i"], "id": "i"}))) as (url, asked), Memory.connect(url) as memory:
        memory.store("s", 1)
        memory.store("s", 1)
        memory.store("s", 1, idempotency_key="mine")
        memory.store_many([{"space": "s", "trigger": 1}, {"space": "s", "trigger": 1}])
    keys = [each.json["idempotencyKey"] for each in asked[:3]] + [each["idempotencyKey"] for each in asked[3].json["memories"]]
    assert len(set(keys)) == 5 and keys[2] == "mine"


@pytest.mark.parametrize("ask", [update, put, remove])
@pytest.mark.parametrize("first", [LOST, UNKNOWN], ids=["lost", "unknown"])
def test_a_write_of_unknown_outcome_is_not_repeated(ask: Ask, first: Reply) -> None:
    error, asked = calls_of(ask, in_turn(first, Reply(200, {})))
    assert isinstance(error, (Unavailable, Timeout)) and error.outcome is Outcome.UNKNOWN and len(asked) == 1


@pytest.mark.parametrize("ask", [update, put, remove])
def test_a_write_that_was_not_done_is_repeated(ask: Ask) -> None:
    answers = Reply(200, {"revision": 2, "ids": [], "dryRun": False, **DOCUMENT})
    done, asked = calls_of(ask, in_turn(BUSY, answers))
    assert not isinstance(done, AgentMemoryError) and len(asked) == 2


@pytest.mark.parametrize("first", [LOST, BUSY, UNKNOWN], ids=["lost", "busy", "unknown"])
def test_reads_and_writes_with_a_revision_are_repeated(first: Reply) -> None:
    done, asked = calls_of(get, in_turn(first, Reply(200, DOCUMENT)))
    assert not isinstance(done, AgentMemoryError) and len(asked) == 2
    done, asked = calls_of(lambda m: m.update("i", status="failed", if_revision=3), in_turn(first, Reply(200, {"revision": 4})))
    assert not isinstance(done, AgentMemoryError) and [each.headers["if-match"] for each in asked] == ['"3"', '"3"']


def test_many_documents_are_put_again_where_each_has_an_expectation() -> None:
    put = {"documents": [{"id": "d", "collection": "c", "createdAt": 1, "revision": 1}]}

    def ask(*documents: NewDocument) -> tuple[object, list[Asked]]:
        return calls_of(lambda m: m.put_documents(documents), in_turn(LOST, Reply(200, put)))

    done, asked = ask(
        {"collection": "c", "space": "s", "content": "x"}, {"collection": "c", "space": "s", "content": "x", "id": "d", "expect": 3}
    )
    assert not isinstance(done, AgentMemoryError) and asked[0].json == asked[1].json
    first, second = asked[0].json["documents"]
    assert (len(first["id"]), first["expect"], second["expect"]) == (36, "absent", {"revision": 3})
    error, asked = ask({"collection": "c", "space": "s", "content": "x", "id": "d"})
    assert isinstance(error, Unavailable) and error.outcome is Outcome.UNKNOWN and len(asked) == 1


def test_a_conflict_after_an_unknown_attempt_is_settled_by_a_look() -> None:
    """The first attempt of a put wrote the document, and its answer was lost: the repetition finds it."""
    conflict = problem(412, error="Conflict")

    def ask(memory: Memory) -> object:
        return memory.put_document("c", "d", "x", space="s", expect="absent")

    done, asked = calls_of(ask, in_turn(LOST, conflict, Reply(200, DOCUMENT)))
    assert not isinstance(done, AgentMemoryError) and [each.method for each in asked] == ["PUT", "PUT", "GET"]
    # The lookup may find a record that came after the write.
    for looked in (Reply(200, {**DOCUMENT, "content": "of somebody else"}), problem(404, error="NotFound")):
        error, _ = calls_of(ask, in_turn(LOST, conflict, looked))
        assert isinstance(error, Conflict) and error.outcome is Outcome.UNKNOWN
    error, _ = calls_of(ask, in_turn(LOST, conflict, problem(403, error="Unauthorized")))
    assert isinstance(error, Unauthorized) and error.outcome is Outcome.UNKNOWN
    error, asked = calls_of(ask, in_turn(conflict))
    assert isinstance(error, Conflict) and len(asked) == 1
    # An update can't be distinguished from another caller's, and the error says so.
    error, _ = calls_of(lambda m: m.update("i", status="failed", if_revision=3), in_turn(LOST, conflict))
    assert isinstance(error, Conflict) and error.outcome is Outcome.UNKNOWN


def test_an_unknown_attempt_is_not_forgotten() -> None:
    error, asked = calls_of(store, in_turn(LOST, problem(422, error="InvalidInput")))
    assert isinstance(error, InvalidInput) and error.outcome is Outcome.UNKNOWN and len(asked) == 2


def test_attempts_end() -> None:
    error, asked = calls_of(store, in_turn(BUSY))
    assert isinstance(error, Unavailable) and error.outcome is Outcome.NOT_DONE and len(asked) == 6


def test_a_pause_is_as_long_as_the_server_says_or_there_is_none() -> None:
    later = problem(503, error="Unavailable", retryable=True)
    later.headers["Retry-After"] = "3600"
    error, asked = calls_of(store, in_turn(later))
    assert isinstance(error, Unavailable) and error.retry_after == 3600 and len(asked) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(422, error="InvalidInput"), InvalidInput),
        (problem(413, error="TooLarge"), TooLarge),
        (problem(404, error="NotFound"), NotFound),
        (problem(409, error="Conflict"), Conflict),
        (problem(412, error="Conflict"), Conflict),
        (problem(409, error="LimitExceeded"), LimitExceeded),
        (problem(422, error="Unsupported"), Unsupported),
        (problem(503, error="Unavailable"), Unavailable),
        (problem(504, error="Timeout"), Timeout),
        (problem(403, error="Unauthorized"), Unauthorized),
        (problem(500, error="Corrupt"), Corrupt),
        (problem(500, error="SchemaMismatch"), SchemaMismatch),
        (problem(410, error="FeedReset"), FeedReset),
        (problem(503, error="Closed"), Closed),
        (problem(500, error="Unexpected"), Unexpected),
        (problem(500, error="OfTomorrow"), Unexpected),
        (problem(401), Unauthorized),
        (problem(413), TooLarge),
        (problem(404), Unsupported),
        (problem(405), Unsupported),
        (Reply(404, b"<html>", {"Content-Type": "text/html"}), Unexpected),
        (Reply(414, b"", {"Content-Type": "text/plain"}), TooLarge),
        (Reply(200, b"<html>", {"Content-Type": "text/html"}), Unexpected),
        (Reply(200, b"{", {}), Unexpected),
        (Reply(200, [1]), Unexpected),
        (Reply(200, {"hits": 1}), Unexpected),
        (Reply(301, b"", {"Location": "/x"}), Unexpected),
    ],
)
def test_each_kind_is_a_class(reply: Reply, kind: type[AgentMemoryError]) -> None:
    error, asked = calls_of(lambda m: m.recall("x", under="s"), in_turn(reply))
    assert type(error) is kind and error.outcome is Outcome.NOT_DONE and len(asked) == 1
    # It is derived from the base class directly: neither from a builtin nor from another kind.
    assert kind.__mro__[1] is AgentMemoryError


@pytest.mark.parametrize("status", [500, 502, 200])
@pytest.mark.parametrize("ask", [store, update, put, remove])
def test_a_proxy_does_not_tell_what_became_of_a_write(ask: Ask, status: int) -> None:
    """Whatever the message: a gateway may answer 500 for a request that went through."""
    pages = [
        Reply(status, b"<html>", {"Content-Type": "text/html"}),
        Reply(status, {"detail": "no", "error": "Conflict"}),
        Reply(status, []),
    ]
    for page in pages:
        error, asked = calls_of(ask, in_turn(page))
        assert isinstance(error, AgentMemoryError) and error.outcome is Outcome.UNKNOWN
        assert type(error) is not Conflict and (len(asked) == 1 or (ask, status) == (store, 502))


def test_a_gateway_is_not_taken_for_an_old_server() -> None:
    error, _ = calls_of(lambda m: m.recall("x", under="s"), in_turn(Reply(404, {"detail": "Not Found"})))
    assert isinstance(error, Unexpected) and "proxy" in str(error)


def test_an_old_server_is_named() -> None:
    error, _ = calls_of(lambda m: m.recall("x", under="s"), in_turn(problem(404, detail="nothing is served at this path")))
    assert "older than this client; upgrade it" in str(error)


def test_a_newer_server_may_say_more() -> None:
    done: Any
    done, _ = calls_of(get, in_turn(Reply(200, {**DOCUMENT, "movedAt": 5})))
    assert done.content == "x" and done.model_extra == {"movedAt": 5}


@pytest.mark.parametrize("url", ["", "127.0.0.1:7700", "ftp://x", "http://", "http://a:b@c"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        Memory.connect(url)


def test_a_client_of_this_machine_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("certificates are loaded")

    monkeypatch.setattr(ssl, "create_default_context", refuse)
    Memory.connect("http://127.0.0.1:7700").close()
    with pytest.raises(PermissionError):
        Memory.connect("https://memory.example")


def test_no_answer_says_what_to_do() -> None:
    with scripted(in_turn(LOST)) as (url, _):
        pass
    with Memory.connect(url, timeout=0.5) as memory, pytest.raises(Unavailable, match="agent-memory serve"):
        memory.health()


def test_a_server_that_never_answers_is_left_in_time() -> None:
    end = threading.Event()

    def answer(_: Asked) -> Reply:
        end.wait(30)
        return LOST

    with scripted(answer) as (url, asked):
        with Memory.connect(url, timeout=0.3) as memory, pytest.raises(Timeout) as error:
            memory.update("i", status="failed")
        assert error.value.outcome is Outcome.UNKNOWN

        async def ask() -> None:
            async with AsyncMemory.connect(url, timeout=0.3) as memory:
                await memory.update("i", status="failed")

        with pytest.raises(Timeout) as error:
            asyncio.run(ask())
        assert error.value.outcome is Outcome.UNKNOWN and len(asked) == 2
        end.set()


def test_an_answer_under_way_at_the_deadline_may_be_that_of_a_write() -> None:
    end = threading.Event()

    def drops() -> Iterator[bytes]:
        while not end.wait(0.02):
            yield b" "

    def answer(_: Asked) -> Reply:
        return Reply(200, drops(), {"Content-Length": "1000000"})

    with scripted(answer) as (url, asked):
        with Memory.connect(url, timeout=0.3) as memory, pytest.raises(Timeout) as error:
            memory.update("i", status="failed")
        assert error.value.outcome is Outcome.UNKNOWN

        async def ask() -> None:
            async with AsyncMemory.connect(url, timeout=0.3) as memory:
                await memory.update("i", status="failed")

        with pytest.raises(Timeout) as error:
            asyncio.run(ask())
        assert error.value.outcome is Outcome.UNKNOWN and len(asked) == 2
        end.set()


async def test_the_async_client_repeats_alike() -> None:
    with scripted(in_turn(LOST, BUSY, Reply(201, {"id": "i"}))) as (url, asked):
        async with AsyncMemory.connect(url) as memory:
            assert await memory.store("s", 1) == "i"
        assert len({each.json["idempotencyKey"] for each in asked}) == 1 and len(asked) == 3
    with scripted(in_turn(LOST, Reply(200, {"revision": 2}))) as (url, asked):
        async with AsyncMemory.connect(url) as memory:
            with pytest.raises(Unavailable) as error:
                await memory.update("i", status="failed")
        assert error.value.outcome is Outcome.UNKNOWN and len(asked) == 1


def test_the_token_goes_with_each_call_and_nowhere_else() -> None:
    token = "secret-secret-secret"
    with scripted(in_turn(problem(401, detail="send Authorization: Bearer and a valid token"))) as (url, asked):
        with Memory.connect(url, token) as memory, pytest.raises(Unauthorized, match="token") as error:
            memory.health()
        assert asked[0].headers["authorization"] == f"Bearer {token}"
        assert token not in str(error.value) and token not in repr(error.value)
    with pytest.raises(InvalidInput) as error2:
        Memory.connect(url, "a\nb")
    assert "\n" not in str(error2.value)


def test_a_closed_client_says_so() -> None:
    memory = Memory.connect("http://127.0.0.1:1")
    memory.close()
    memory.close()
    with pytest.raises(Closed):
        memory.health()
