"""LangGraph's adapters: what its own tests do not ask."""

from __future__ import annotations

import asyncio
import operator
import os
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import test_utils as made
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import PutOp

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
        {},
    ],
    ids=["integer", "nul", "deep", "large", "keys", "empty"],
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
def test_any_key_can_be_asked_for(store: AgentMemoryStore, saver: AgentMemorySaver, key: str) -> None:
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


def test_a_time_to_live_is_refused(store: AgentMemoryStore) -> None:
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {}, ttl=5)
    with pytest.raises(NotImplementedError, match="no expiry"):
        store.batch([PutOp(("a",), "k", {}, ttl=5)])


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
    # A part that is missing is told, not passed over.
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
