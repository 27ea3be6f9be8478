"""Compares AgentMemoryStore over loopback with LangGraph's own store, in one run: python bench/store.py [ITEMS [DATABASE]]

With its SqliteStore, or with its PostgresStore where DATABASE is the URL of an empty database of PostgreSQL, which both use. Needs
``langgraph-checkpoint-sqlite`` or ``langgraph-checkpoint-postgres`` beside the packages of the tests. Each line is a kind of operation: how
many each store does in a second, and the ratio; the rounds of both alternate, and their medians count.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, Op, PutOp

from agent_memory import Memory
from agent_memory.langgraph import AgentMemoryStore

ITEMS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
DATABASE = sys.argv[2] if len(sys.argv) > 2 else ""
ROUNDS = 7
TASKS = 64
NAMESPACES = 100
WORDS = "amber birch cedar delta ember fjord grove heath inlet juniper knoll larch meadow north oak pine quarry ridge slate tarn".split()


def namespace(number: int) -> tuple[str, ...]:
    return ("users", f"user{number % NAMESPACES}", "facts")


def value(number: int) -> dict[str, Any]:
    words = " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 13))
    return {"text": f"Fact {number}: {words}", "kind": WORDS[number % len(WORDS)], "number": number}


def puts(numbers: Iterable[int]) -> list[Op]:
    return [PutOp(namespace(number), str(number), value(number)) for number in numbers]


def put(store: BaseStore, number: int) -> None:
    store.put(namespace(number), str(number), value(number))


def search(store: BaseStore, number: int) -> None:
    assert len(store.search(("users",), filter={"kind": WORDS[number % len(WORDS)]}, limit=10)) == 10


def search_below(store: BaseStore, number: int) -> None:
    assert len(store.search(namespace(number), limit=10)) == 10


def get(store: BaseStore, number: int) -> None:
    assert store.get(namespace(number % ITEMS), str(number % ITEMS)) is not None


async def aput(store: BaseStore, number: int) -> None:
    await store.aput(namespace(number), str(number), value(number))


async def asearch(store: BaseStore, number: int) -> None:
    assert len(await store.asearch(namespace(number), limit=10)) == 10


def told(name: str, ours: list[float], theirs: list[float], operations: int) -> None:
    mine, other = operations / statistics.median(ours), operations / statistics.median(theirs)
    print(f"{name:34} {mine:10,.0f}/s {other:10,.0f}/s   {mine / other:6.2f}", flush=True)


def compare(name: str, do: Callable[[BaseStore, int], None], stores: list[BaseStore], operations: int, first: int) -> None:
    seconds: list[list[float]] = [[], []]
    for turn in range(ROUNDS):
        for store, times in zip(stores, seconds, strict=True):
            start = time.perf_counter()
            for number in range(operations):
                do(store, first + turn * operations + number)
            times.append(time.perf_counter() - start)
    told(name, *seconds, operations)


async def compare_tasks(
    name: str, do: Callable[[BaseStore, int], Awaitable[None]], stores: list[BaseStore], operations: int, first: int
) -> None:
    async def task(store: BaseStore, start: int) -> None:
        for number in range(start, start + operations):
            await do(store, number)

    seconds: list[list[float]] = [[], []]
    for turn in range(ROUNDS):
        for store, times in zip(stores, seconds, strict=True):
            start = time.perf_counter()
            at = first + turn * operations * TASKS
            await asyncio.gather(*(task(store, at + number * operations) for number in range(TASKS)))
            times.append(time.perf_counter() - start)
    told(name, *seconds, operations * TASKS)


def fill(store: BaseStore) -> None:
    for start in range(0, ITEMS, 1000):
        store.batch(puts(range(start, min(start + 1000, ITEMS))))


def theirs_alone(database: str) -> AbstractContextManager[BaseStore]:
    if not database.startswith("postgres"):
        from langgraph.store.sqlite import SqliteStore

        return SqliteStore.from_conn_string(database)
    from langgraph.store.postgres import PostgresStore

    return PostgresStore.from_conn_string(database)


def theirs_together(database: str) -> AbstractAsyncContextManager[BaseStore]:
    if not database.startswith("postgres"):
        from langgraph.store.sqlite import AsyncSqliteStore

        return AsyncSqliteStore.from_conn_string(database)
    from langgraph.store.postgres import AsyncPostgresStore

    return AsyncPostgresStore.from_conn_string(database)


def sequential(database: str, memory: Memory) -> None:
    with theirs_alone(database) as theirs:
        theirs.setup()  # type: ignore[attr-defined]
        stores: list[BaseStore] = [AgentMemoryStore(memory), theirs]
        for store in stores:
            fill(store)
        compare("put", put, stores, 200, 10 * ITEMS)
        compare("get", get, stores, 200, 0)
        compare("search of a namespace", search_below, stores, 100, 0)
        compare("search of all with a filter", search, stores, 50, 0)


async def concurrent(database: str, memory: Memory) -> None:
    async with theirs_together(database) as theirs:
        stores: list[BaseStore] = [AgentMemoryStore(memory), theirs]
        await compare_tasks(f"put, {TASKS} tasks", aput, stores, 10, 20 * ITEMS)
        await compare_tasks(f"search of a namespace, {TASKS} tasks", asearch, stores, 5, 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        own, database = DATABASE or str(Path(name) / "ours.db"), DATABASE or str(Path(name) / "theirs.db")
        with Memory.open(own) as memory:
            print(f"{ITEMS:,} items {'':22} agent-memory   LangGraph's    ratio")
            sequential(database, memory)
            asyncio.run(concurrent(database, memory))
