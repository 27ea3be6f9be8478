"""LangGraph's adapters: cases that its own tests lack."""

from __future__ import annotations

import asyncio
import operator
import os
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import httpx
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import test_utils as made
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import GetOp, PutOp
from scripted import LOST, Asked, Reply, meanwhile, passed_on, puts_document, removes_parts

from agent_memory import Corrupt, Memory
from agent_memory.langgraph import AgentMemorySaver, AgentMemoryStore


@pytest.fixture
def store(memory: Memory, root: str, collection: str) -> AgentMemoryStore:
    return AgentMemoryStore(memory, root=root, collection=collection)


@pytest.fixture
def saver(memory: Memory, root: str, collection: str) -> AgentMemorySaver:
    return AgentMemorySaver(memory, root=root, collection=collection)


@pytest.mark.parametrize(
    "value",
    [
        {"n": 2**70, "f": 1.5, "none": None},
        {"text": "a\0b"},
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
        {"large": "cat " * 700_000},
        {"": {"$set": 1, "a.b": 2}},
        {"half": "\ud800 of a pair", "\udc00": 1},
        {},
    ],
    ids=["integer", "nul", "deep", "large", "keys", "half", "empty"],
)
def test_a_value_comes_back_as_it_was(store: AgentMemoryStore, value: dict[str, Any]) -> None:
    store.put(("users", "ana-1"), "a/b", {**value, "kind": "it"})
    found = store.get(("users", "ana-1"), "a/b")
    assert found is not None and found.value == {**value, "kind": "it"}
    assert [each.value for each in store.search(("users",), filter={"kind": "it"})] == [found.value]
    store.delete(("users", "ana-1"), "a/b")
    assert store.get(("users", "ana-1"), "a/b") is None and store.search(()) == []


def test_names_with_separators_never_meet(store: AgentMemoryStore) -> None:
    places = [("a/b", "c"), ("a", "b/c"), ("a-b", "c"), ("a", "b", "c"), ("a%2Fb", "c"), ("ab", "c"), ("A", "c"), ("é", "c")]
    for place in places:
        store.put(place, "k", {"at": list(place)})
        store.put((place[0],), "/".join(place[1:]), {"at": "key"})
    for place in places:
        found = store.get(place, "k")
        assert found is not None and found.namespace == place and found.value == {"at": list(place)}
    assert {each.namespace for each in store.search(("a",)) if each.key == "k"} == {("a", "b/c"), ("a", "b", "c")}
    assert set(places) <= set(store.list_namespaces())


@pytest.mark.parametrize("key", ["or", "größe", "a.b", "1", "a-b"])
def test_any_key_can_be_asked_for(store: AgentMemoryStore, memory: Memory, root: str, collection: str, key: str) -> None:
    saver = AgentMemorySaver(memory, root=root, collection=f"{collection}_saver")
    for n, text in enumerate(["it's", "x"]):
        store.put(("a",), str(n), {key: text, "n": n})
        saver.put(made.generate_config("t"), made.generate_checkpoint(), made.generate_metadata(step=n, **{key: text}), {})
    assert [each.value["n"] for each in store.search(("a",), filter={key: "it's"})] == [0]
    assert [each.metadata["step"] for each in saver.list(None, filter={key: "it's"})] == [0]
    assert len(list(saver.list(None, limit=1))) == 1 and list(saver.list(None, limit=0)) == []
    saver.delete_for_runs(["it's"])


def test_keys_that_no_filter_has(store: AgentMemoryStore) -> None:
    with pytest.raises(ValueError, match="Invalid filter key"):
        store.search(("a",), filter={"a' OR 'b": 1})
    with pytest.raises(ValueError, match="not supported"):
        store.put(("a",), "k", {"n": 1})
        store.search(("a",), filter={"n": {"$in": [1]}})


@pytest.mark.parametrize(
    "rest", [" ".join(map(str, range(1000))), "x " * 50_000, "猫" * 10_000, "\ud800"], ids=["many", "long", "cjk", "half"]
)
def test_a_query_of_any_length(store: AgentMemoryStore, rest: str) -> None:
    store.put(("a",), "1", {"text": "a cat"})
    found = store.search(("a",), query=f"Who has a cat? {rest}")[0]
    assert found.key == "1" and (found.score or 0) > 0


@pytest.mark.parametrize("size", [5, 60_000])
async def test_an_item_lives_for_its_time(store: AgentMemoryStore, memory: Memory, root: str, collection: str, size: int) -> None:
    store.put(("a",), "long", {"text": "o" * size}, ttl=5)
    store.put(("a",), "kept", {"text": "o" * size}, ttl=0.02)
    store.put(("a",), "kept", {"text": "o" * size})
    # Three seconds, in minutes.
    store.batch([PutOp(("a",), "short", {"text": "o" * size}, ttl=3 / 60)])
    assert store.get(("a",), "short") is not None
    parts = f"{collection}_parts"
    count = len(list(memory.walk_documents(parts, under=root)))
    while store.get(("a",), "short") is not None:
        await asyncio.sleep(0.01)
    assert {each.key for each in store.search(("a",))} == {"long", "kept"}
    assert len(list(memory.walk_documents(parts, under=root))) == count * 2 // 3


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("size", [5, 60_000])
def test_a_put_whose_answer_is_lost_is_repeated(memory: Memory, root: str, collection: str, arrives: bool, size: int) -> None:
    store = AgentMemoryStore(memory, root=root, collection=collection)
    store.put(("a",), "k", {"text": "o" * size})
    lost: list[Asked] = []

    def look(asked: Asked) -> Reply | None:
        # The second put: the first one finds the existing item.
        if puts_document(asked) and len(lost) < 2:
            lost.append(asked)
            if len(lost) == 2:
                if arrives:
                    headers = {name: asked.headers[name] for name in ("authorization", "content-type")}
                    httpx.post(memory.url + asked.path, content=asked.body, headers=headers).raise_for_status()
                return LOST
        return None

    with passed_on(memory, look) as client:
        other = AgentMemoryStore(client, root=root, collection=collection)
        other.batch([PutOp(("a",), key, {"text": "n" * size}) for key in "kl"])
    assert len(lost) == 2
    for key in "kl":
        found = store.get(("a",), key)
        assert found is not None and found.value == {"text": "n" * size}
    assert len(memory.query_documents(f"{collection}_parts", under=root).documents) == (2 if size > 5 else 0)


def test_puts_in_a_row_are_one_request(memory: Memory, root: str, collection: str) -> None:
    asked: list[Asked] = []
    with passed_on(memory, asked.append) as client:
        store = AgentMemoryStore(client, root=root, collection=collection)
        puts = [PutOp(("a", str(n % 3)), str(n % 30), {"n": n, "text": "x" * (60_000 if n % 10 == 0 else 1)}) for n in range(40)]
        for _ in range(2):
            store.batch([*puts, GetOp(("a", "0"), "0"), PutOp(("a", "0"), "0", None)])
        # The second time, all are found taken, and put at the revision of each.
        assert [each.method for each in asked].count("POST") == 3
        found = store.search((), limit=100)
    left = {n % 30: n for n in range(40) if n % 30}
    assert sorted(each.value["n"] for each in found) == sorted(left.values())


async def test_a_task_does_not_fail_because_of_another(store: AgentMemoryStore) -> None:
    bad = store.aput(("a",), "bad", {"n": float("nan")})
    outcomes = await asyncio.gather(*(store.aput(("a",), str(n), {"n": n}) for n in range(5)), bad, return_exceptions=True)
    assert outcomes[:5] == [None] * 5 and isinstance(outcomes[5], ValueError)
    assert len(await store.asearch(("a",))) == 5


async def test_many_tasks_lose_nothing(store: AgentMemoryStore) -> None:
    await asyncio.gather(*(store.aput(("a", str(n % 4)), str(n), {"n": n}) for n in range(64)))
    found = await store.asearch(("a",), limit=100)
    assert sorted(each.value["n"] for each in found) == list(range(64))
    assert [each.value["n"] for each in await store.asearch(("a",), filter={"n": {"$gte": 62}})] in ([62, 63], [63, 62])


def test_a_state_of_five_mebibytes(memory: Memory, saver: AgentMemorySaver, root: str, collection: str) -> None:
    state = os.urandom(5 << 20)
    config: RunnableConfig = {"configurable": {"thread_id": "t/1", "checkpoint_ns": ""}}
    checkpoint = {**empty_checkpoint(), "channel_values": {"big": state, "small": 1}}
    stored = saver.put(config, checkpoint, {}, {})  # type: ignore[arg-type]
    saver.put_writes(stored, [("big", state[::-1])], "task")
    saver.copy_thread("t/1", "t-2")
    for thread in ("t/1", "t-2"):
        found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        assert found is not None and found.checkpoint["channel_values"] == {"big": state, "small": 1}
        assert found.pending_writes == [("task", "big", state[::-1])]
    saver.delete_thread("t/1")
    assert saver.get_tuple(config) is None
    assert saver.get_tuple({"configurable": {"thread_id": "t-2", "checkpoint_ns": ""}}) is not None
    # A missing part is reported, not skipped.
    part = memory.query_documents(f"{collection}_parts", under=root, limit=1).documents[0]
    memory.remove_document(f"{collection}_parts", part.id)
    with pytest.raises(Corrupt):
        list(saver.list(None))
    saver.delete_thread("t-2")
    for name in ("", "_writes", "_parts"):
        assert memory.query_documents(f"{collection}{name}", under=root).documents == []


def test_pruning_keeps_what_channels_of_changes_are_built_from(saver: AgentMemorySaver) -> None:
    config = made.generate_config("t")
    for step, values in enumerate([{"log": ["old"]}, {"log": ["snapshot"]}, {}, {}]):
        checkpoint = made.generate_checkpoint(channel_values=values)
        config = saver.put(config, checkpoint, made.generate_metadata(step=step, counters_since_delta_snapshot={"log": (step, step)}), {})
        saver.put_writes(config, [("log", step)], "task")
    saver.prune(["t"])
    assert [each.metadata["step"] for each in saver.list(made.generate_config("t"))] == [3, 2, 1]
    history = saver.get_delta_channel_history(config=made.generate_config("t"), channels=["log"])["log"]
    assert history["seed"] == ["snapshot"] and [write[2] for write in history["writes"]] == [1, 2]
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="keep_all")


def test_a_checkpoint_is_listed_by_its_id(saver: AgentMemorySaver) -> None:
    stored = [saver.put(made.generate_config("t"), made.generate_checkpoint(), made.generate_metadata(step=step), {}) for step in range(3)]
    only = stored[1]["configurable"]["checkpoint_id"]
    # LangGraph leaves out the namespace to match any.
    for named in (stored[1]["configurable"], {"thread_id": "t", "checkpoint_id": only}):
        assert [each.metadata["step"] for each in saver.list({"configurable": named})] == [1]
        assert list(saver.list({"configurable": named}, filter={"step": 2})) == []
    before: RunnableConfig = {"configurable": {"checkpoint_id": only}}
    assert [each.metadata["step"] for each in saver.list(made.generate_config("t"), before=before)] == [0]


def test_how_many_requests_an_operation_takes(memory: Memory, root: str, collection: str) -> None:
    asked: list[Asked] = []
    config, checkpoint = made.generate_config("t"), made.generate_checkpoint(channel_values={"a": 1})
    stored: RunnableConfig = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
    with passed_on(memory, asked.append) as client:
        store = AgentMemoryStore(client, root=root, collection=collection)
        saver = AgentMemorySaver(client, root=root, collection=f"{collection}_saver")
        operations: list[tuple[int, Callable[[], Any]]] = [
            (1, lambda: store.put(("a",), "k", {"text": "a cat"})),
            (1, lambda: store.get(("a",), "k")),
            (1, lambda: store.search(("a",), filter={"text": "a cat"}, limit=1)),
            (1, lambda: store.search(("a",), query="cat", limit=1)),
            # The existing value, its revision, and the new value.
            (3, lambda: store.put(("a",), "k", {"text": "two cats"})),
            (1, lambda: store.delete(("a",), "k")),
            (1, lambda: store.put(("a",), "l", {"text": "x" * 2_000_000})),
            (1, lambda: saver.put(config, checkpoint, made.generate_metadata(run_id="r"), {})),
            (1, lambda: saver.put_writes(stored, [("a", 1), ("b", 2)], "task")),
            # The checkpoint, and the writes.
            (2, lambda: saver.get_tuple(config)),
            (2, lambda: saver.get_tuple(stored)),
            # The checkpoints, each with its removal, the writes, those of others, and the remains of killed writers.
            (5, lambda: saver.delete_for_runs(["r"])),
        ]
        for number, (requests, operation) in enumerate(operations):
            asked.clear()
            operation()
            assert len(asked) == requests, (number, [(each.method, each.path) for each in asked])


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def test_a_graph_goes_on_where_it_was(saver: AgentMemorySaver, store: AgentMemoryStore) -> None:
    graph = StateGraph(State)
    graph.add_node("one", lambda state: {"said": [f"{len(state['said'])}"]})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    compiled = graph.compile(checkpointer=saver, store=store)
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    compiled.invoke({"said": ["a"]}, config)
    assert compiled.invoke({"said": ["b"]}, config) == {"said": ["a", "1", "b", "3"]}
    assert asyncio.run(compiled.ainvoke({"said": ["c"]}, config))["said"][-2:] == ["c", "5"]
    steps = [each.metadata["step"] for each in compiled.get_state_history(config) if each.metadata]
    assert steps == sorted(steps, reverse=True) and len(steps) == 9


def test_an_item_leaves_alone_what_a_namespace_of_its_name_holds(memory: Memory, root: str, collection: str) -> None:
    store = AgentMemoryStore(memory, root=root, collection=collection)
    large = {"text": "x" * 60_000}
    store.put(("users", "ana"), "doc", large)
    store.put(("users",), "ana", {"a": 1})
    store.delete(("users",), "ana")
    found = store.get(("users", "ana"), "doc")
    assert found is not None and found.value == large


@pytest.mark.usefixtures("parts_apart")
@pytest.mark.parametrize("before", [puts_document, removes_parts])
def test_a_deletion_beside_a_put_leaves_the_whole_item_or_none(
    memory: Memory, root: str, collection: str, before: Callable[[Asked], bool]
) -> None:
    store = AgentMemoryStore(memory, root=root, collection=collection)
    large = {"text": "x" * 1_500_000}
    store.put(("a",), "k", large)

    def happens() -> None:
        store.delete(("a",), "k") if before is puts_document else store.put(("a",), "k", large)

    with meanwhile(memory, before, happens) as client:
        other = AgentMemoryStore(client, root=root, collection=collection)
        other.put(("a",), "k", large) if before is puts_document else other.delete(("a",), "k")
    found = store.get(("a",), "k")
    assert found is not None and found.value == large
    store.delete(("a",), "k")
    assert memory.query_documents(f"{collection}_parts", under=root).documents == []


def test_parts_go_with_the_value_that_they_are_of(memory: Memory, store: AgentMemoryStore, root: str, collection: str) -> None:
    for _ in range(2):
        store.put(("a",), "k", {"text": "x" * 60_000})
    assert len(memory.query_documents(f"{collection}_parts", under=root).documents) == 1
    store.put(("a",), "k", {"text": "x"})
    assert memory.query_documents(f"{collection}_parts", under=root).documents == []
    store.delete(("a",), "nothing")


def test_a_value_that_is_replaced_while_it_is_read_is_the_new_one(
    memory: Memory, store: AgentMemoryStore, root: str, collection: str
) -> None:
    new, large = {"text": "y" * 60_000}, {"text": "x" * 60_000}
    for happens, value in [(lambda: store.put(("a",), "k", new), new), (lambda: store.delete(("a",), "k"), None)]:
        store.put(("a",), "k", large)
        with meanwhile(memory, lambda asked: "_parts/" in asked.path, happens) as client:
            found = AgentMemoryStore(client, root=root, collection=collection).get(("a",), "k")
        assert (None if found is None else found.value) == value


@pytest.mark.usefixtures("parts_apart")
def test_a_deletion_beside_a_checkpoint_leaves_all_of_it_or_none(
    memory: Memory, saver: AgentMemorySaver, root: str, collection: str
) -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    state = {"big": os.urandom(1_500_000)}

    def put(saver: AgentMemorySaver) -> None:
        saver.put(config, {**empty_checkpoint(), "channel_values": state}, {}, {})

    with meanwhile(memory, puts_document, lambda: saver.delete_thread("t")) as client:
        put(AgentMemorySaver(client, root=root, collection=collection))
    with meanwhile(memory, removes_parts, lambda: put(saver)) as client:
        AgentMemorySaver(client, root=root, collection=collection).delete_thread("t")
    found = saver.get_tuple(config)
    assert found is not None and found.checkpoint["channel_values"] == state
    saver.put_writes(found.config, list(state.items()), "task")
    saver.delete_thread("t")
    for name in ("", "_writes", "_parts"):
        assert memory.query_documents(f"{collection}{name}", under=root).documents == []


def killed(client: Memory, after: int) -> Memory:
    """The client, whose process is killed after some requests."""
    send, left = client._calls.handle_request, iter(range(after))

    def killed_send(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return send(*arguments, **options)

    client._calls.handle_request = killed_send  # type: ignore[method-assign]
    return client


@pytest.mark.usefixtures("parts_apart")
def test_a_task_that_is_killed_has_written_all_or_nothing(memory: Memory, saver: AgentMemorySaver, root: str, collection: str) -> None:
    checkpoint = {**empty_checkpoint(), "channel_values": {}}
    stored = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {}, {})  # type: ignore[arg-type]
    writes = [(name, os.urandom(60_000)) for name in "abc"]
    for after in range(9):
        with Memory.connect(memory.url, memory.token) as client:
            done = True
            try:
                AgentMemorySaver(killed(client, after), root=root, collection=collection).put_writes(stored, writes, "task")
            except KeyboardInterrupt:
                done = False
        found = saver.get_tuple(stored)
        assert found is not None and found.pending_writes == ([("task", *write) for write in writes] if done else [])
        if done:
            break
    assert after > 1
    # Later writes leave ordinary writes as they are, and replace errors.
    saver.put_writes(stored, [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("__error__", "one")], "task")
    saver.put_writes(stored, [("__error__", "two")], "task")
    found = saver.get_tuple(stored)
    assert found is not None and found.pending_writes is not None
    assert [(channel, value) for _, channel, value in found.pending_writes] == [("__error__", "two"), *writes, ("d", 4)]
