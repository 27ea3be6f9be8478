"""Recall by vectors of the caller's own, and by the model of the server."""

from __future__ import annotations

import asyncio
import base64
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import LOST, Asked, Reply, in_turn, problem, scripted

from agent_memory import (
    AgentMemoryError,
    AsyncMemory,
    Conflict,
    InvalidInput,
    Memory,
    MemoryRecord,
    Outcome,
    Parts,
    Recalled,
    Unavailable,
    VectorModel,
)
from agent_memory.langgraph import AgentMemoryStore

MISSING = "01a20fdd-ecf9-7054-85e1-8de7d06c8991"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Memory]:
    """A database of its own: all records of one have their vectors from the same model."""
    with Memory.open(tmp_path / "memory.db") as memory:
        yield memory


def ids(found: Recalled) -> list[str]:
    return [record.id for hit in found.hits for record in (hit.memory, hit.document) if record is not None]


def test_memories_are_found_by_vectors_of_ones_own(own: Memory) -> None:
    assert own.set_vector_model("mine", 3, "exact") == VectorModel(name="mine", width=3, precision="exact")
    assert own.vector_model() == VectorModel(name="mine", width=3, precision="exact")
    kitten = own.store("ana-m1", {"text": "The kitten sleeps"}, vector=(number for number in (1, 0, 0)))
    rain, plain = own.store_many(
        [
            {"space": "ana-m2", "trigger": {"text": "It rains"}, "vector": [0, 1, 0]},
            {"space": "ana-m3", "trigger": {"text": "Lunch is late"}},
        ]
    )
    found = own.recall(vector=[0.9, 0.1, 0], under="ana")
    assert (ids(found), found.unembedded) == ([kitten, rain], 1)
    assert ids(own.recall(vector=[0.1, 0.9, 0], under="ana", limit=1)) == [rain]
    # Words count, too, if there are any.
    found = own.recall("lunch", vector=[1, 0, 0], under=["ana"], status="pending", exclude=[MISSING], explain=True)
    assert set(ids(found)) == {kitten, rain, plain}
    parts = {hit.memory.id: hit.parts for hit in found.hits if isinstance(hit.memory, MemoryRecord)}
    assert parts[kitten].meaning > 0 and found.explained is not None and found.explained.greatest_cosine > 0

    late = {"id": plain, "revision": 1, "vector": [0, 0, 1]}
    kept = own.embed([late, {**late, "revision": 2}, {**late, "id": MISSING}], model="mine")  # type: ignore[list-item,typeddict-item]
    assert kept == [True, False, False]
    found = own.recall(vector=[0, 0.1, 0.9], under="ana")
    assert (ids(found), found.unembedded) == ([plain, rain, kitten], 0)
    assert own.recall("kitten", under="ana", meaning=False).unembedded is None

    with pytest.raises(AgentMemoryError):
        own.embed([{"id": plain, "revision": 1, "vector": [0, 0, 1]}], model="other")
    with pytest.raises(InvalidInput, match=r"2 numbers.*has 3"):
        own.store("ana", 1, vector=[1, 0])
    with pytest.raises(InvalidInput, match="no embedding model"):
        own.recall("kitten", under="ana", meaning=True)


def test_documents_are_found_by_vectors_of_ones_own(own: Memory) -> None:
    text, exact = "The kitten sleeps", 2
    with pytest.raises(Conflict):
        own.put_document("notes", "a", text, space="ana-a-m1", vector=[1, 0, 0])
    own.set_vector_model("mine", 3)
    # Each in a container of its own, since neighbours of a document count, too.
    own.put_document("notes", "a", text, space="ana-a-m1", vector=[1, 0, 0])
    # The bytes of an exact vector: a form, and numbers with the lowest byte first.
    kept = base64.b64encode(struct.pack("<B3f", exact, 0, 1, 0)).decode()
    b = own.add_document("notes", text, space="ana-b-m1", vector=kept).id
    own.put_documents([{"collection": "notes", "id": "c", "space": "ana-c-m1", "content": text, "vector": [0, 0, 1]}])

    def best(*vector: float) -> list[str]:
        return ids(own.recall(vector=vector, under="ana", collection="notes", limit=1))

    assert [best(1, 0, 0), best(0, 1, 0), best(0, 0, 1)] == [["a"], [b], ["c"]]
    assert own.embed([{"collection": "notes", "id": "a", "revision": 1, "vector": [0, 0.1, 1]}], model="mine") == [True]
    assert best(0, 0.1, 1) == ["a"]


@pytest.mark.parametrize("vector", [[1, "two"], 5, [None], [float("nan")]])
def test_what_is_no_vector_is_refused(vector: object) -> None:
    with scripted(in_turn(LOST)) as (url, asked), Memory.connect(url) as memory, pytest.raises(InvalidInput, match="vector"):
        memory.store("s", 1, vector=vector)  # type: ignore[arg-type]
    assert asked == []


def embeddings(asked: Asked) -> Reply:
    """The answer of an endpoint of embeddings for which all animals have the same vector."""
    assert (asked.path, asked.json["model"]) == ("/v1/embeddings", "small")
    vectors = ([1, 0] if "kitten" in text or "animal" in text else [0, 1] for text in asked.json["input"])
    return Reply(200, {"data": [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]})


def test_a_server_with_a_model_finds_what_is_meant(tmp_path: Path) -> None:
    question = "Which animal lives with Ana?"
    with (
        scripted(embeddings) as (url, _),
        Memory.open(tmp_path / "memory.db", embedder=f"{url}/v1", embedder_model="small", embedder_width=2) as memory,
    ):
        kitten = memory.store("ana-m1", {"text": "The kitten sleeps"})
        memory.store("ana-m2", {"text": "It rains"})
        end = time.monotonic() + 60
        while memory.recall(question, under="ana").unembedded != 0:
            assert time.monotonic() < end, "the server does not embed"
            time.sleep(0.02)
        found = memory.recall(question, under="ana", limit=1, meaning=True)
        assert ids(found) == [kitten] and found.hits[0].parts.meaning > 0
        found = memory.recall(question, under="ana", meaning=False)
        assert (found.hits, found.unembedded) == ([], None)
        assert memory.vector_model() == VectorModel(name="small", width=2, precision="compact")


def test_the_store_of_langgraph_finds_what_is_meant(tmp_path: Path) -> None:
    with (
        scripted(embeddings) as (url, _),
        Memory.open(tmp_path / "memory.db", embedder=f"{url}/v1", embedder_model="small", embedder_width=2) as memory,
    ):
        store = AgentMemoryStore(memory)
        store.put(("ana",), "rain", {"text": "It rains"})
        store.put(("ana",), "kitten", {"text": "The kitten sleeps"})
        store.put(("ana",), "hidden", {"text": "Another kitten"}, index=False)
        end = time.monotonic() + 60
        # The third has no text, and so no vector.
        while memory.recall("animal", collection="store", all=True).unembedded != 1:
            assert time.monotonic() < end, "the server does not embed"
            time.sleep(0.02)
        found = store.search(("ana",), query="Which animal lives with Ana?")
        assert [item.key for item in found] == ["kitten", "rain"] and (found[0].score or 0) > 0


async def test_the_async_client_does_the_same(tmp_path: Path) -> None:
    with scripted(embeddings) as (url, _):
        named = {"embedder_model": "small", "embedder_width": 2}
        async with AsyncMemory.open(tmp_path / "memory.db", embedder=f"{url}/v1", **named) as memory:  # type: ignore[arg-type]
            id = await memory.store("ana", {"text": "The kitten sleeps"})
            end = time.monotonic() + 60
            while (await memory.recall("Which animal?", under="ana")).unembedded != 0:
                assert time.monotonic() < end, "the server does not embed"
                await asyncio.sleep(0.02)
            assert ids(await memory.recall("Which animal?", under="ana", meaning=True)) == [id]
            assert await memory.embed([{"id": id, "revision": 1, "vector": [0, 1]}], model="small") == [True]
            assert ids(await memory.recall(vector=[0, 1], under="ana")) == [id]
            await memory.put_document("notes", "a", "a", space="ana", vector=[1, 0])
            await memory.add_document("notes", "b", space="ana", vector=[0, 1])
            await memory.store("ana", {"text": "c"}, vector=[1, 0])
            assert ids(await memory.recall(vector=[1, 0], under="ana", collection="notes", limit=1)) == ["a"]
            assert (await memory.set_vector_model("other", 3)).precision == "compact"
            found = await memory.vector_model()
            assert found is not None and (found.name, found.width) == ("other", 3)


def test_a_model_that_can_not_be_one_is_told_by_the_servers_own_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="--embedder-width"):
        Memory.open(tmp_path / "memory.db", embedder="http://127.0.0.1:1/v1", embedder_model="small")


def test_a_question_with_a_vector_is_a_read_and_a_model_is_set_once() -> None:
    answer = {"hits": [], "examined": 0, "complete": True, "unembedded": 0}
    with scripted(in_turn(LOST, Reply(200, answer), LOST)) as (url, asked), Memory.connect(url) as memory:
        assert memory.recall(vector=[1], under="ana", before=5).unembedded == 0
        assert asked[1].json == {"text": "", "under": ["ana"], "vector": [1.0], "before": 5}
        with pytest.raises(Unavailable) as error:
            memory.set_vector_model("mine", 3)
        assert (error.value.outcome, len(asked)) == (Outcome.UNKNOWN, 3)
        with pytest.raises(Unavailable) as error:
            memory.recall(vector=[1], under="ana")
        assert error.value.outcome is Outcome.NOT_DONE


def test_a_database_without_a_model_has_none(own: Memory) -> None:
    with scripted(in_turn(problem(404, error="NotFound"))) as (url, _), Memory.connect(url) as memory:
        assert memory.vector_model() is None
    assert own.vector_model() is None


def test_a_put_whose_answer_was_lost_does_not_vouch_for_its_vector() -> None:
    with scripted(in_turn(LOST, problem(409, error="Conflict"))) as (url, asked), Memory.connect(url) as memory:
        with pytest.raises(Conflict) as error:
            memory.add_document("notes", "x", space="s", vector=[1])
        assert error.value.outcome is Outcome.UNKNOWN
        assert [each.method for each in asked] == ["PUT", "PUT"]


def test_an_older_server_tells_of_no_meaning() -> None:
    older = {"words": 1, "neighbours": 0, "container": 0, "question": 0, "speaker": 0}
    assert Parts.model_validate(older).meaning == 0
    assert Recalled.model_validate({"hits": [], "examined": 0, "complete": True}).unembedded is None
