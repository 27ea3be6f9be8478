"""Watches against a server on a real engine."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from itertools import islice
from pathlib import Path

import pytest
from relay import Program, relayed, until, watches_open

from agent_memory import (
    AgentMemoryError,
    AsyncMemory,
    AsyncWatch,
    Change,
    Closed,
    FeedReset,
    InvalidInput,
    Memory,
    NewMemory,
    Timeout,
    Unauthorized,
    Unavailable,
    Watch,
    _attempts,
    _feed,
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the pauses between connections shorter than they are."""
    monkeypatch.setattr(_attempts, "_PAUSE", 0.01)
    monkeypatch.setattr(_attempts, "_LONGEST_PAUSE", 0.1)


def records(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes that tell of a record."""
    return (change for change in changes if change.kind not in ("reached", "progress"))


def next_of(changes: Iterable[Change]) -> Change:
    return next(records(changes))


def test_changes_come_as_they_are_made(memory: Memory, root: str, collection: str) -> None:
    with memory.watch(under=root, of="both", collection=collection) as changes:
        assert next(changes).kind == "reached"
        memory.store(f"{root}x", 1)
        id = memory.store(f"{root}-m1", {"text": "é 🐈"}, metadata={"n": 1})
        stored = next_of(changes)
        assert (stored.kind, stored.memory) == ("stored", memory.get(id)) and stored.memory is not None
        assert stored.memory.trigger == {"text": "é 🐈"} and stored.document is None and stored.token
        memory.update(id, status="completed")
        updated = next_of(changes)
        assert updated.kind == "updated" and updated.memory is not None and updated.memory.status == "completed"
        memory.put_document(f"{collection}2", "d", "x", space=root)
        document = memory.put_document(collection, "d", "line\r\nline", space=root)
        assert (put := next_of(changes)).document == document and put.kind == "stored" and put.memory is None
        memory.remove_document(collection, "d")
        assert [(gone.kind, gone.id, gone.collection) for gone in [next_of(changes)]] == [("removed", "d", collection)]


def test_a_watch_from_the_start_tells_what_is_there_first(memory: Memory, root: str) -> None:
    ids = memory.store_many(NewMemory(space=f"{root}-{n}", trigger={"n": n}, created_at=n) for n in range(250))
    with memory.watch(under=root, start="start") as changes:
        told = []
        while (change := next(changes)).kind != "reached":
            told.append(change)
        assert [change.memory.id for change in told if change.memory] == ids
        id = memory.store(root, 1)
        later = next_of(changes)
        assert later.memory is not None and later.memory.id == id
    # Behind any of them.
    with memory.watch(under=root, start=told[99].token) as changes:
        assert [change.memory.id for change in islice(records(changes), 151) if change.memory] == [*ids[100:], id]


def test_only_what_is_watched_is_told(memory: Memory, root: str, collection: str) -> None:
    with (
        memory.watch(space=[f"{root}-a", f"{root}-b"], status=["pending", "running"], where="metadata.n > 1", text="cat") as some,
        memory.watch(prefix=root, of="documents") as documents,
    ):
        for space in (f"{root}-a-b", f"{root}-c", f"{root}-b"):
            id = memory.store(space, {"text": "cats"}, metadata={"n": 2})
            other = memory.store(space, {"text": "dogs"}, metadata={"n": 2})
        memory.put_document(collection, "d", "x", space=root)
        memory.update(id, status="failed")
        told: list[Change] = []
        while not told or told[-1].id != id:
            told.append(next_of(some))
        # For the other record in these spaces only its id comes.
        assert {(change.kind, change.id) for change in told if change.kind != "stored"} <= {("left", id), ("left", other)}
        assert all(change.memory is None or change.memory.id == id for change in told)
        document = next_of(documents).document
        assert document is not None and document.collection == collection


def test_mistakes_are_told_when_it_begins(memory: Memory, root: str) -> None:
    for start in ("", "forged", "start now"):
        with pytest.raises(InvalidInput), memory.watch(under=root, start=start):
            pass
    with memory.watch(under=root) as changes:
        token = next(changes).token
    with pytest.raises(InvalidInput), memory.watch(under=f"{root}-a", start=token):
        pass
    with pytest.raises(InvalidInput, match="name its spaces"):
        next(memory.watch())
    with pytest.raises(InvalidInput, match="under is empty"):
        memory.watch(under=[])
    with pytest.raises(InvalidInput):
        next(memory.watch(under=root, collection="notes"))
    with pytest.raises(TypeError, match="undr"):
        memory.watch(undr="x")  # type: ignore[call-arg]
    with Memory.connect(memory.url, "another token") as other, pytest.raises(Unauthorized):
        next(other.watch(under=root))


def test_a_token_goes_on_over_a_restart(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory, memory.watch(under="ana") as changes:
        memory.store("ana", 1)
        token = next_of(changes).token
        ids = [memory.store("ana-m1", 2)]
    with Memory.open(tmp_path / "memory.db") as memory:
        ids += [memory.store("ana-m2", n) for n in range(3)]
        with memory.watch(under="ana", start=token) as changes:
            assert [change.memory.id for change in islice(records(changes), 4) if change.memory] == ids


class Reader(threading.Thread):
    """Reads a watch to its end, in a thread."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(daemon=True)
        self.watch = watch
        self.told: list[Change] = []
        self.error: AgentMemoryError | None = None
        self.start()

    @property
    def ids(self) -> list[str]:
        """The memories that were told of, each where it was told first."""
        return list(dict.fromkeys(change.memory.id for change in self.told if change.memory))

    def run(self) -> None:
        try:
            for change in self.watch:
                self.told.append(change)
        except AgentMemoryError as error:
            self.error = error


def test_a_watch_goes_on_by_itself_over_a_restart(tmp_path: Path) -> None:
    program = Program(tmp_path / "memory.db")
    with relayed() as relay, Memory.connect(relay.url, program.token) as memory:
        watch = memory.watch(under="ana")
        with program.running() as relay.target:
            reader = Reader(watch)
            until(lambda: len(reader.told) == 1)
            ids = [memory.store("ana-m1", 1)]
            until(lambda: reader.ids == ids)
        until(lambda: relay.refused >= 2)
        with Memory.open(tmp_path / "memory.db") as meanwhile:
            ids += [meanwhile.store("ana-m2", n) for n in range(3)]
        with program.running() as relay.target:
            until(lambda: reader.ids == ids)
            ids.append(memory.store("ana-m3", 1))
            until(lambda: reader.ids == ids)
            watch.close()
        reader.join()
        assert reader.error is None


def test_a_connection_that_is_cut_anywhere_loses_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as server, relayed(server.url) as relay:
        ids = server.store_many(NewMemory(space="ana", trigger={"text": "é🐈" * 50}, created_at=n) for n in range(30))
        # Two changes come whole, and a part of the third.
        relay.cut_after = 2500
        with Memory.connect(relay.url, server.token) as memory, memory.watch(under="ana", start="start") as watch:
            reader = Reader(watch)
            until(lambda: reader.ids == ids)
            ids += [server.store("ana", n) for n in range(10)]
            until(lambda: reader.ids == ids)
            relay.cut_after = None
        reader.join()
        assert relay.made > 5 and reader.error is None


def test_a_silent_connection_is_replaced(memory: Memory, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feed, "SILENCE", 0.3)
    with relayed(memory.url) as relay, Memory.connect(relay.url, memory.token, timeout=1) as client:
        reader = Reader(client.watch(under=root))
        # Long after the time limit of a call.
        until(lambda: relay.made >= 6)
        id = memory.store(root, 1)
        until(lambda: reader.ids == [id])
        client.close()
        reader.join()
        assert reader.error is None


def test_a_watch_outlasts_the_deadline_of_a_call(memory: Memory, root: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        relayed(memory.url) as relay,
        Memory.connect(relay.url, memory.token, timeout=0.5) as client,
        client.watch(under=root) as changes,
    ):
        next(changes)
        reader = Reader(changes)
        with Memory.connect(f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=1) as other, pytest.raises(Timeout):
            other.health()
        memory.store(root, 1)
        until(lambda: len(reader.ids) == 1)
        assert relay.made == 1


def test_a_server_that_stays_away_is_told_in_time(memory: Memory, root: str) -> None:
    with relayed(memory.url) as relay, Memory.connect(relay.url, memory.token, timeout=2) as client:
        watch = client.watch(under=root)
        assert next(watch).kind == "reached"
        relay.target = None
        relay.cut()
        with pytest.raises((Unavailable, Timeout)):
            next(watch)
        assert relay.refused >= 2 and list(watch) == []
        with pytest.raises((Unavailable, Timeout)):
            next(client.watch(under=root))


def test_a_database_that_went_back_is_told(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory:
        memory.store("ana", 1)
    shutil.copy(path, tmp_path / "backup")
    with Memory.open(path) as memory, memory.watch(under="ana") as changes:
        memory.store("ana", 2)
        token = next_of(changes).token
    shutil.copy(tmp_path / "backup", path)
    with Memory.open(path) as memory:
        for n in range(3):
            memory.store("ana", n)
        with pytest.raises(FeedReset) as error, memory.watch(under="ana", start=token):
            pass
        assert (error.value.kind, error.value.status, error.value.retryable) == ("FeedReset", 410, False)
        assert watches_open(memory) == 0


def test_a_database_that_goes_back_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory, memory.watch(under="ana") as changes:
        memory.store("ana", 1)
        assert next_of(changes).kind == "stored"
        # As if it had gone back, and others had written since.
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE changes SET epoch = epoch + 1")
        with pytest.raises(FeedReset):
            next_of(changes)
        assert list(changes) == []
        with memory.watch(under="ana", start="start") as changes:
            assert next(changes).kind == "stored"


def test_the_end_of_the_block_frees_the_watch(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        with memory.watch(all=True) as changes, memory.watch(all=True) as others:
            assert watches_open(memory) == 2 and next(changes).kind == next(others).kind == "reached"
        until(lambda: watches_open(memory) == 0)
        assert list(changes) == [] and next(others, None) is None
        # Also for a watch that is dropped.
        for _ in memory.watch(all=True):
            break
        until(lambda: watches_open(memory) == 0)
        changes.close()


def test_a_watch_ends_from_another_thread(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        readers = [Reader(memory.watch(all=True)) for _ in range(3)]
        until(lambda: all(reader.told for reader in readers))
        readers[0].watch.close()
        readers[0].join()
        until(lambda: watches_open(memory) == 2)
        assert all(reader.is_alive() for reader in readers[1:])
    # The end of the client ends the others.
    for reader in readers:
        reader.join()
        assert reader.error is None and [change.kind for change in reader.told] == ["reached"]
    with pytest.raises(Closed):
        memory.watch(all=True)


async def test_watches_take_no_connection_from_calls(memory: Memory, root: str) -> None:
    with ExitStack() as watches:
        for _ in range(110):
            watches.enter_context(memory.watch(under=root))
        assert len(memory.store(root, 1)) == 36
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncMemory.connect(memory.url, memory.token))
        await asyncio.gather(*(stack.enter_async_context(client.watch(under=root)) for _ in range(110)))
        assert len(await client.store(root, 1)) == 36


async def async_next_of(changes: AsyncWatch) -> Change:
    while (change := await anext(changes)).kind in ("reached", "progress"):
        pass
    return change


async def test_the_async_client_watches_too(memory: Memory, root: str, collection: str) -> None:
    async with AsyncMemory.connect(memory.url, memory.token) as client:
        async with client.watch(under=root, of="both", start="start") as changes:
            id = await client.store(root, {"text": "hi"})
            stored = await async_next_of(changes)
            assert stored.kind == "stored" and stored.memory is not None and stored.memory.id == id
            await client.put_document(collection, "d", "x", space=root)
            assert (await async_next_of(changes)).document is not None
        assert [change async for change in changes] == []
        ids = [await client.store(root, n) for n in range(3)]
        async with client.watch(under=root, of="both", start=stored.token) as changes:
            told = []
            async for change in changes:
                if change.memory is not None:
                    told.append(change.memory.id)
                if len(told) == 3:
                    break
        assert told == ids
        with pytest.raises(InvalidInput):
            await anext(client.watch(under=root, start="forged"))
    with pytest.raises(Closed):
        client.watch(under=root)


async def test_a_cancelled_wait_loses_nothing(memory: Memory, root: str) -> None:
    async with AsyncMemory.connect(memory.url, memory.token) as client, client.watch(under=root) as changes:
        assert (await anext(changes)).kind == "reached"
        told, ids = [], []
        for n in range(5):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(async_next_of(changes), 0.05)
            ids.append(await client.store(root, n))
            change = await async_next_of(changes)
            assert change.memory is not None
            told.append(change.memory.id)
        assert told == ids


async def test_an_async_watch_ends_from_another_task(tmp_path: Path) -> None:
    async with AsyncMemory.open(tmp_path / "memory.db") as client:
        begun = []

        async def read(watch: AsyncWatch) -> list[str]:
            kinds = []
            async for change in watch:
                kinds.append(change.kind)
                begun.append(watch)
            return kinds

        async def open_watches() -> int:
            return await asyncio.to_thread(watches_open, client)

        watches = [client.watch(all=True) for _ in range(3)]
        tasks = [asyncio.create_task(read(watch)) for watch in watches]
        while len(begun) < 3:
            await asyncio.sleep(0.02)
        await watches[0].close()
        assert await tasks[0] == ["reached"]
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        while await open_watches() != 1:
            await asyncio.sleep(0.02)
        # Also for a watch that is dropped.
        async for _ in client.watch(all=True):
            break
        while await open_watches() != 1:
            await asyncio.sleep(0.02)
    assert await tasks[2] == ["reached"]


async def test_an_async_watch_goes_on_by_itself(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as server, relayed(server.url) as relay:
        ids = server.store_many(NewMemory(space="ana", trigger={"text": "é🐈" * 50}, created_at=n) for n in range(30))
        relay.cut_after = 2500
        async with AsyncMemory.connect(relay.url, server.token) as client, client.watch(under="ana", start="start") as changes:
            told = [await async_next_of(changes) for _ in ids]
            assert [change.memory.id for change in told if change.memory] == ids and relay.made > 5
            relay.target = None
            relay.cut()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(async_next_of(changes), 0.5)
            relay.target, relay.cut_after = server.url, None
            id = server.store("ana", 1)
            last = await async_next_of(changes)
            assert last.memory is not None and last.memory.id == id
