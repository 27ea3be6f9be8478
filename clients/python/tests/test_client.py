"""The client against a server on a real engine."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from scripted import Reply, scripted

from agent_memory import (
    CLEAR,
    AsyncMemory,
    Conflict,
    Erased,
    HistoryPage,
    InvalidInput,
    JsonText,
    LimitExceeded,
    Memory,
    NewDocument,
    NewMemory,
    NotFound,
    Outcome,
    TooLarge,
    Unavailable,
)


def test_the_first_five_lines(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as m:
        m.store("ana-m1", {"text": "I adopted a cat"})
        hits = m.recall("Who adopted a cat?", under="ana").hits
    assert hits[0].memory is not None and hits[0].memory.trigger == {"text": "I adopted a cat"}
    assert path.exists()


def test_a_memory_comes_back_as_it_was_stored(memory: Memory, root: str) -> None:
    space = f"{root}-m1"
    time = datetime(2026, 1, 5, 8, 0, 0, 1000, tzinfo=timezone.utc)
    id = memory.store(space, ["é", None], context=None, created_at=time, metadata={"n": 2**63}, status="observed")
    found = memory.get(id)
    assert found is not None
    assert (found.trigger, found.context, found.context_text) == (["é", None], None, "null")
    assert (found.trigger_text, found.space_id, found.status, found.metadata) == ('["é",null]', space, "observed", {"n": 2**63})
    assert (found.created_at, found.updated_at, found.revision) == (1767600000001, None, 1)
    assert memory.get("01a20fdd-ecf9-7054-85e1-8de7d06c8991") is None


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "1.10", "1e400", "9" * 5000, '"\\u00e9"', "[-0,0.0]"])
def test_json_text_keeps_its_bytes(memory: Memory, root: str, text: str) -> None:
    found = memory.get(memory.store(root, JsonText(text), context=JsonText(f"[{text}]")))
    assert found is not None and (found.trigger_text, found.context_text) == (text, f"[{text}]")
    # Also among others in a page.
    assert [each.trigger_text for each in memory.query(space=root).memories] == [text]


def test_python_reads_json_as_its_library_does() -> None:
    assert JsonText('{"a":1,"a":2}').parse() == {"a": 2}
    assert JsonText("123456789012345678901234567890").parse() == 123456789012345678901234567890
    assert JsonText("1.10").parse() == 1.1


@pytest.mark.parametrize("text", ["", "{", "1 2", "NaN", "[" * 100_000, '1,"status":"failed"'])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        JsonText(text)


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800", {1, 2}])
def test_a_value_that_is_no_json_is_refused_and_not_quoted(memory: Memory, root: str, value: object) -> None:
    with pytest.raises(InvalidInput) as error:
        memory.store(root, value)
    assert str(value) not in str(error.value)


def test_a_key_makes_a_second_store_find_the_first(memory: Memory, root: str) -> None:
    id = memory.store(root, {"n": 1}, idempotency_key=f"{root}-k")
    assert memory.store(root, {"n": 1}, idempotency_key=f"{root}-k") == id
    with pytest.raises(Conflict) as error:
        memory.store(root, {"n": 2}, idempotency_key=f"{root}-k")
    assert (error.value.kind, error.value.outcome, error.value.status) == ("Conflict", Outcome.NOT_DONE, 409)


def test_many_are_stored_all_or_none(memory: Memory, root: str) -> None:
    new: list[NewMemory] = [{"space": f"{root}-{n}", "trigger": n} for n in range(120)]
    ids = memory.store_many(new)
    assert [memory.get(id).trigger for id in (ids[0], ids[119])] == [0, 119]  # type: ignore[union-attr]
    with pytest.raises(Conflict):
        memory.store_many([*new[:3], *(NewMemory(space=root, trigger=n, idempotency_key=f"{root}-k") for n in range(2))])
    with pytest.raises(TooLarge):
        memory.store_many(NewMemory(space=root, trigger=n) for n in range(10_001))
    assert len(list(memory.walk(under=root))) == 120
    with pytest.raises(TypeError, match="spaceId"):
        memory.store_many([{"spaceId": root, "trigger": 1}])  # type: ignore[typeddict-item,typeddict-unknown-key]


def test_each_part_of_an_update_works_alone(memory: Memory, root: str) -> None:
    id = memory.store(root, 1, context={"a": 1}, metadata={"a": 1, "b": 2})
    assert memory.update(id, status="completed").revision == 2
    assert memory.update(id, merge_metadata={"a": None, "c": 3}).revision == 3
    found = memory.get(id)
    assert found is not None and (found.status, found.metadata, found.context) == ("completed", {"b": 2, "c": 3}, {"a": 1})
    memory.update(id, context=None, replace_metadata={})
    found = memory.get(id)
    assert found is not None and (found.context_text, found.metadata) == ("null", {})
    memory.update(id, context=CLEAR, if_revision=4)
    found = memory.get(id)
    assert found is not None and found.context_text is None and found.updated_at is not None
    with pytest.raises(Conflict):
        memory.update(id, status="failed", if_revision=4)
    with pytest.raises(InvalidInput):
        memory.update(id, merge_metadata={}, replace_metadata={})
    with pytest.raises(NotFound):
        memory.update("01a20fdd-ecf9-7054-85e1-8de7d06c8991", status="failed")


def test_queries_take_all_selectors_and_conditions(memory: Memory, root: str) -> None:
    base = datetime(2026, 1, 1, tzinfo=timezone.utc)
    ids = {}
    for minute, (name, status) in enumerate([("1-a", "pending"), ("1-b", "completed"), ("12-a", "observed")]):
        created_at = base + timedelta(minutes=minute)
        metadata = {"name": name, "n": minute}
        ids[name] = memory.store(f"{root}-{name}", {"text": f"word{name[0]}"}, created_at=created_at, status=status, metadata=metadata)  # type: ignore[arg-type]

    def names(**query: object) -> list[str]:
        return [each.metadata["name"] for each in memory.query(**query).memories]  # type: ignore[arg-type]

    assert names(under=f"{root}-1") == ["1-b", "1-a"]
    assert names(prefix=f"{root}-1") == ["12-a", "1-b", "1-a"]
    assert names(space=[f"{root}-1-a", f"{root}-12-a"]) == ["12-a", "1-a"]
    assert names(glob=f"{root}-*-a") == ["12-a", "1-a"]
    assert names(regex=f"^{root}-1-[ab]$", order="oldest") == ["1-a", "1-b"]
    assert names(under=root, where="metadata.n >= 1 AND metadata.name LIKE '1-%'") == ["1-b"]
    assert names(under=root, text="word1 nothing") == ["12-a", "1-b", "1-a"]
    assert names(under=root, status=["pending", "observed"]) == ["12-a", "1-a"]
    assert names(under=root, after=base, before=base + timedelta(minutes=2)) == ["1-b"]
    assert names(under=root, exclude=[ids["1-b"]], limit=1, offset=1) == ["1-a"]
    assert names(all=True, where=f"spaceId = '{root}-1-a'") == ["1-a"]
    with pytest.raises(InvalidInput, match="name its spaces"):
        memory.query()
    assert names(under=root, exclude=[], limit=1) == ["12-a"]
    for name in ("status", "space", "under"):
        with pytest.raises(InvalidInput, match=f"{name} is empty"):
            names(**{"under": root, name: []})
    with pytest.raises(TypeError, match="undr"):
        memory.query(undr="x")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="zone"):
        memory.query(under=root, after=datetime(2026, 1, 1))


def test_a_walk_yields_each_once(memory: Memory, root: str) -> None:
    memory.store_many(NewMemory(space=root, trigger=n, created_at=5) for n in range(25))
    assert [len(page.memories) for page in memory.pages(space=root, limit=10)] == [10, 10, 5]
    assert sorted(each.trigger for each in memory.walk(space=root, limit=10)) == list(range(25))
    assert len(list(memory.walk(space=root, limit=10, offset=5))) == 20


def test_documents(memory: Memory, root: str, collection: str) -> None:
    first = memory.put_document(collection, "a/b c.%", "one", space=root, metadata={"t": 1}, created_at=5, expect="absent")
    assert (first.revision, first.content, first.created_at, first.metadata) == (1, "one", 5, {"t": 1})
    second = memory.put_document(collection, first.id, "two", space=root, expect=1)
    assert (second.revision, second.metadata) == (2, {})
    with pytest.raises(Conflict):
        memory.put_document(collection, first.id, "three", space=root, expect="absent")
    with pytest.raises(Conflict):
        memory.put_document(collection, first.id, "three", space=root, expect=1)
    assert memory.put_document(collection, first.id, "three", space=root).revision == 3
    found = memory.get_document(collection, first.id)
    assert found is not None and found.content == "three"
    added = memory.add_document(collection, "four", space=f"{root}-below")
    assert collection in memory.collections()
    assert [each.content for each in memory.query_documents(collection, under=root).documents] == ["four", "three"]
    assert [each.content for each in memory.walk_documents(collection, under=root, limit=1)] == ["four", "three"]
    with pytest.raises(LimitExceeded):
        memory.remove_documents(collection, under=root, max=1)
    preview = memory.remove_documents(collection, under=root, where="content = 'four'", dry_run=True)
    assert (preview.ids, preview.dry_run) == ([added.id], True)
    assert memory.remove_document(collection, added.id) is True
    assert memory.remove_document(collection, added.id) is False
    with pytest.raises(InvalidInput):
        memory.remove_documents(collection, ids=[])
    assert memory.remove_documents(collection, under=root).ids == [first.id]
    assert memory.get_document(collection, first.id) is None


async def test_versions_are_shown_and_what_was_there_at_a_time(memory: Memory, root: str, collection: str) -> None:
    id = memory.store(root, {"text": "I adopted a cat"})
    memory.update(id, context=[1])
    memory.update(id, status="completed")
    page = memory.history(id, limit=2)
    assert [(each.revision, each.memory.status if each.memory else "") for each in page.versions] == [(3, "completed"), (2, "pending")]
    rest = memory.history(id, cursor=page.next)
    assert [each.revision for each in rest.versions] == [1] and rest.next is None
    now = page.versions[0].committed_at
    assert now is not None
    then = memory.get(id, as_of=now)
    assert then is not None and then.revision == 3
    with pytest.raises(InvalidInput):
        memory.get(id, as_of=1)
    with pytest.raises(NotFound):
        memory.history("01a1fed6-0358-76ab-aa80-f9ff382e7513")
    for content in ("one", "two"):
        memory.put_document(collection, "n", content, space=root)

    def contents(page: HistoryPage) -> list[str | None]:
        return [each.document.content if each.document else None for each in page.versions]

    async with AsyncMemory.connect(memory.url, memory.token) as client:
        assert contents(await client.document_history(collection, "n")) == ["two", "one"]
        assert memory.remove_document(collection, "n")
        assert contents(await client.document_history(collection, "n", removed=True)) == [None, "two", "one"]
        with pytest.raises(NotFound):
            await client.document_history(collection, "n")
        assert len((await client.history(id)).versions) == 3


async def test_many_documents_are_put_all_or_none(memory: Memory, root: str, collection: str) -> None:
    new: list[NewDocument] = [
        {"collection": collection, "id": "a", "space": root, "content": "one", "metadata": {"t": 1}, "created_at": 5, "expect": "absent"},
        {"collection": f"{collection}2", "id": "a", "space": root, "content": "two"},
        {"collection": collection, "space": root, "content": "three"},
    ]
    put = memory.put_documents(new)
    assert [(each.collection, each.revision) for each in put] == [(collection, 1), (f"{collection}2", 1), (collection, 1)]
    assert (put[0].id, put[0].created_at) == ("a", 5) and len(put[2].id) == 36
    found = memory.get_document(collection, "a")
    assert found is not None and (found.content, found.metadata) == ("one", {"t": 1})
    with pytest.raises(Conflict) as error:
        memory.put_documents([{**new[1], "content": "changed"}, new[0]])
    assert error.value.outcome is Outcome.NOT_DONE
    other = memory.get_document(f"{collection}2", "a")
    assert other is not None and other.content == "two"
    async with AsyncMemory.connect(memory.url, memory.token) as client:
        (again,) = await client.put_documents([{**new[0], "content": "four", "expect": 1}])
        assert again.revision == 2 and await client.put_documents([]) == []
    with pytest.raises(InvalidInput, match="a space"):
        memory.put_documents([{"collection": collection, "content": "x"}])  # type: ignore[typeddict-item]


@pytest.mark.parametrize("id", ["..", ".", "a/../b", "%2e", "é", "?x=1#y", "a b"])
def test_an_id_is_never_a_path(memory: Memory, root: str, collection: str, id: str) -> None:
    memory.put_document(collection, id, "x", space=root)
    found = memory.get_document(collection, id)
    assert found is not None and found.id == id


def test_recall_over_memories_and_documents(memory: Memory, root: str, collection: str) -> None:
    for n, text in enumerate(["The weather is fine", "Ana adopted a cat", "It is called Tom"]):
        memory.store(f"{root}-m{n}", {"text": text}, created_at=n, metadata={"speaker": "Ana"})
    found = memory.recall("Who adopted a cat?", under=root, neighbours=1, explain=True, limit=1)
    hit = found.hits[0]
    assert hit.memory is not None and hit.memory.trigger["text"] == "Ana adopted a cat"
    assert hit.score > 0 and hit.score == pytest.approx(sum(hit.parts.model_dump().values()))
    assert [each.memory.trigger["text"] for each in (*hit.before, *hit.after) if each.memory] == ["The weather is fine", "It is called Tom"]
    assert {term.term for term in hit.terms or []} == {"adopt", "cat"}
    assert found.complete and found.examined == 3 and found.explained is not None and found.explained.records == 3
    memory.add_document(collection, "Tom is a cat", space=root)
    documents = memory.recall("cat", under=root, collection=collection).hits
    assert [each.document.content for each in documents if each.document] == ["Tom is a cat"]
    with pytest.raises(InvalidInput):
        memory.recall("cat", under=root, collection=collection, status="pending")


def test_what_is_too_long_is_told(memory: Memory, root: str) -> None:
    for text in ("x" * 17_000, "x" * 70_000):
        with pytest.raises(TooLarge):
            memory.recall(text, under=root)
    with pytest.raises(TooLarge, match="fewer"):
        memory.query(under=root, exclude=["01a20fdd-ecf9-7054-85e1-8de7d06c8991"] * 3000)


def test_results_are_tables_with_everything_escaped(memory: Memory, root: str, collection: str) -> None:
    memory.store(f"{root}-<b>", {"text": "<script>alert(1)</script> cat"})
    memory.put_document(collection, "<i>", "<img> & cat", space=root)
    shown = [
        memory.query(under=root)._repr_html_(),
        memory.recall("cat", under=root)._repr_html_(),
        memory.query_documents(collection, under=root)._repr_html_(),
        memory.recall("cat", under=root, collection=collection)._repr_html_(),
    ]
    for table in shown:
        assert table.startswith("<table><tr><th>") and table.count("<tr>") == 2
        assert not any(tag in table for tag in ("<script", "<img", "<b>", "<i>"))
    assert "&lt;script&gt;" in shown[0] and "&lt;img&gt; &amp; cat" in shown[3]


async def test_spaces_are_listed_level_by_level(memory: Memory, root: str, collection: str) -> None:
    memory.store_many(NewMemory(space=f"{root}-{name}", trigger=n, created_at=n) for n, name in enumerate(["a-x", "a-y", "b", "b"]))
    memory.put_document(collection, "d", "x", space=f"{root}-c", created_at=7)
    (level,) = memory.spaces(root)
    assert level.under == root and level.next is None
    assert [(each.id, each.count, each.more, each.newest) for each in level.spaces] == [
        (f"{root}-a", 2, False, 1),
        (f"{root}-b", 2, False, 3),
    ]
    levels = memory.spaces(root, depth=2)
    assert [[each.id for each in level.spaces] for level in levels[1:]] == [[f"{root}-a-x", f"{root}-a-y"]]
    (first,) = memory.spaces(root, limit=1)
    async with AsyncMemory.connect(memory.url, memory.token) as client:
        (second,) = await client.spaces(root, limit=1, cursor=first.next)
    assert [each.id for level in (first, second) for each in level.spaces] == [f"{root}-a", f"{root}-b"]
    assert [each.id for each in memory.spaces(root, collection=collection)[0].spaces] == [f"{root}-c"]
    assert "<td>2</td>" in level._repr_html_() and root in [each.id.split("-")[0] for each in memory.spaces(limit=1000)[0].spaces]
    with pytest.raises(InvalidInput):
        memory.spaces(root, depth=9)


async def test_what_is_erased_is_gone_for_good(memory: Memory, root: str, collection: str) -> None:
    ids = [memory.store(f"{root}-{n}", {"text": f"cat {n}"}, idempotency_key=f"{root}-{n}") for n in range(3)]
    other = memory.store(f"{root}x", {"text": "cat"})
    memory.put_document(collection, "n", "a cat", space=f"{root}-n")
    first = memory.erase("a test", ids=ids[:1])
    assert ([each.id for each in first.records], first.is_complete) == (ids[:1], True)
    with pytest.raises(Erased):
        memory.get(ids[0])
    with pytest.raises(Erased):
        memory.store(f"{root}-0", {"text": "cat 0"}, idempotency_key=f"{root}-0")
    erased: list[tuple[str | None, str]] = []
    async with AsyncMemory.connect(memory.url, memory.token) as client:
        while True:
            more = await client.erase("a test", under=root, documents=True, collections=[collection], limit=1)
            erased += [(each.collection, each.id) for each in more.records]
            if more.is_complete:
                break
    assert set(erased) == {(None, ids[1]), (None, ids[2]), (collection, "n")} and len(erased) == 3
    assert memory.query(under=root).memories == [] and memory.get_document(collection, "n") is None
    assert memory.get(other) is not None
    with pytest.raises(InvalidInput):
        memory.erase("a test", all=True)
    with pytest.raises(InvalidInput):
        memory.erase("a test", ids=ids, under=root)
    with pytest.raises(InvalidInput):
        memory.erase(" ", under=root)
    with pytest.raises(InvalidInput, match="ids is empty"):
        memory.erase("a test", ids=[])
    with pytest.raises(InvalidInput, match="under is empty"):
        memory.erase("a test", under=[])
    with pytest.raises(InvalidInput, match="status is empty"):
        memory.erase("a test", under=root, status=[])
    with pytest.raises(InvalidInput, match="collections is empty"):
        memory.erase("a test", under=root, documents=True, collections=[])
    with pytest.raises(InvalidInput, match="collections is a text"):
        memory.erase("a test", under=root, documents=True, collections=collection)
    with pytest.raises(InvalidInput, match="ids is a text"):
        memory.erase("a test", ids=other)
    assert memory.get(other) is not None


async def test_what_expires_is_gone(memory: Memory, root: str, collection: str) -> None:
    far = 8_640_000_000_000
    id = memory.store(root, {"text": "a cat"}, expires_at=far)
    (second,) = memory.store_many([NewMemory(space=f"{root}-m2", trigger=1, expires_in=60_000)])

    def expiry(id: str) -> int | None:
        found = memory.get(id)
        assert found is not None
        return found.expires_at

    assert expiry(id) == far and far > (expiry(second) or 0) > 0
    memory.update(id, never_expires=True)
    assert expiry(id) is None
    memory.update(id, expires_at=datetime.now(timezone.utc) + timedelta(days=1))
    memory.update(id, status="running")
    assert expiry(id) is not None
    document = memory.put_document(collection, "n", "a cat", space=root, expires_in=timedelta(days=1))
    assert document.expires_at is not None
    # A put without one clears it.
    assert memory.put_document(collection, "n", "a cat", space=root).expires_at is None
    (put,) = memory.put_documents([NewDocument(collection=collection, id="n", space=root, content="b", expires_at=far)])
    assert put.expires_at == far
    with pytest.raises(InvalidInput):
        memory.store(root, 1, expires_at=1)
    with pytest.raises(InvalidInput, match="can't be combined"):
        memory.store(root, 1, expires_in=1, expires_at=far)
    with pytest.raises(InvalidInput, match="never_expires"):
        memory.update(id, expires_in=1, never_expires=True)

    async with AsyncMemory.connect(memory.url, memory.token) as client:
        await client.update(id, expires_in=timedelta(seconds=1))
        await client.put_document(collection, "n", "b", space=root, expires_in=1000)
        added = await client.add_document(collection, "b", space=root, expires_in=60_000)
        assert added.expires_at is not None
        with pytest.raises(Erased):
            while await client.get(id) is not None:
                await asyncio.sleep(0.01)
        while await client.get_document(collection, "n") is not None:
            await asyncio.sleep(0.01)
        assert [each.id async for each in client.walk(under=root)] == [second]


def test_health(memory: Memory) -> None:
    health = memory.health()
    assert health.engine and health.schema_version >= 1 and health.latency_ms >= 0


async def test_no_log_has_what_is_asked_or_stored(memory: Memory, root: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        memory.store(root, {"text": "secret cat"}, metadata={"secret": 1})
        memory.recall("secret cat", under=root)
        memory.query(under=root, where="metadata.secret = 1")
        async with AsyncMemory.connect(memory.url, memory.token) as client:
            await client.recall("secret cat", under=root)
    assert "send_request_headers" in caplog.text and "secret" not in caplog.text
    assert memory.token is not None and memory.token not in caplog.text


async def test_the_async_client_does_the_same(memory: Memory, root: str, collection: str) -> None:
    async with AsyncMemory.connect(memory.url, memory.token) as client:
        ids = await asyncio.gather(*(client.store(f"{root}-m", {"text": f"cat {n}"}) for n in range(20)))
        assert len(set(ids)) == 20
        assert {each.id async for each in client.walk(under=root, limit=7)} == set(ids)
        assert len((await client.recall("cat", under=root)).hits) == 10
        assert (await client.update(ids[0], status="completed")).revision == 2
        found = await client.get(ids[0])
        assert found is not None and found.status == "completed"
        document = await client.add_document(collection, "a cat", space=root)
        with pytest.raises(Conflict):
            await client.put_document(collection, document.id, "b", space=root, expect="absent")
        assert [each.id async for each in client.walk_documents(collection, under=root)] == [document.id]
        assert await client.remove_document(collection, document.id)
        assert (await client.health()).engine


async def test_the_proxy_of_the_environment_is_used_unless_the_server_is_here_or_excepted(
    memory: Memory, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = memory.health().model_dump(by_alias=True)
    with scripted(lambda _: Reply(200, health)) as (proxy, asked):
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.setenv("no_proxy", "excepted.test")
        Memory.connect("http://memory.test:7700").health()
        async with AsyncMemory.connect("http://memory.test:7700") as client:
            await client.health()
        assert [each.path for each in asked] == ["http://memory.test:7700/v1/health"] * 2
        memory.health()
        with pytest.raises(Unavailable):
            Memory.connect("http://excepted.test:7700", timeout=1).health()
        assert len(asked) == 2
