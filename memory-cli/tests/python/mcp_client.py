"""Uses every tool and resource of agent-memory as a client of the official SDK does.

    mcp_client.py stdio BINARY DATABASE_FILE
    mcp_client.py http URL RUNTIME_TOKEN MODEL_TOKEN
"""

import asyncio
import json
import sqlite3
import sys

import httpx2
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

MODEL_TOOLS = ["memory_query", "memory_add_document", "memory_remove_document", "memory_recall"]
RUNTIME_TOOLS = ["memory_store", "memory_update"]

# For each tool: read only, destructive.
HINTS = {
    "memory_query": (True, False),
    "memory_add_document": (False, False),
    "memory_remove_document": (False, True),
    "memory_recall": (True, False),
    "memory_store": (False, False),
    "memory_update": (False, True),
}


async def answer(session, tool, **arguments):
    """The structured answer of a call that succeeds; its text says the same."""
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, (tool, result.content)
    assert json.loads(result.content[0].text) == result.structured_content, tool
    return result.structured_content


async def refusal(session, tool, **arguments):
    """The sentence of a call that is refused."""
    result = await session.call_tool(tool, arguments)
    assert result.is_error, (tool, arguments)
    return result.content[0].text


def ids(found):
    return [record["id"] for record in found["records"]]


async def use_everything(session, space):
    """As a runtime that may write under `space`."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert list(tools) == MODEL_TOOLS + RUNTIME_TOOLS, list(tools)
    for name, (read_only, destructive) in HINTS.items():
        hints = tools[name].annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (read_only, destructive, False), name
        assert tools[name].description and tools[name].input_schema["type"] == "object"
        assert tools[name].output_schema["type"] == "object"

    steps = []

    async def on_progress(progress, total, _message):
        steps.append((progress, total))

    added = await session.call_tool(
        "memory_add_document", {"id": "cat", "content": "Ana has a cat"}, progress_callback=on_progress
    )
    assert added.structured_content == {"id": "cat", "spaceId": space}, added
    assert steps == [(0.0, 1.0), (1.0, 1.0)], steps
    assert "id:" in await refusal(session, "memory_add_document", id="cat", content="Ana has a dog")

    assert ids(await answer(session, "memory_query", text="cat")) == ["cat"]
    assert ids(await answer(session, "memory_query", question="Who has cats?")) == ["cat"]
    assert ids(await answer(session, "memory_query", where="content ILIKE '%CAT%'")) == ["cat"]
    assert "column 1" in await refusal(session, "memory_query", where="1 = 1")
    assert "limit" in await refusal(session, "memory_query", limit=1000)

    stored = await answer(
        session, "memory_store", space=f"{space}-m1", trigger={"text": "hello"}, createdAt=5, metadata={"topic": "pets"}
    )
    updated = await answer(
        session, "memory_update", id=stored["id"], context={"reply": "hi"}, status="completed", ifRevision=1
    )
    assert updated["revision"] == 2, updated
    assert "revision is 2" in await refusal(session, "memory_update", id=stored["id"], ifRevision=1)
    assert "may be written" in await refusal(session, "memory_store", space="elsewhere", trigger={})

    found = await answer(session, "memory_recall", after=4, before=6, status=["completed"], where="metadata.topic = 'pets'")
    assert ids(found) == [stored["id"]] and found["records"][0]["context"] == {"reply": "hi"}, found
    assert ids(await answer(session, "memory_recall", before=5)) == []
    assert ids(await answer(session, "memory_recall", question="Who said hello?")) == [stored["id"]]
    assert ids(await answer(session, "memory_recall", question="hello", before=5)) == []
    assert ids(await answer(session, "memory_query", source="ledger", space=space)) == [stored["id"]]

    resources = [str(resource.uri) for resource in (await session.list_resources()).resources]
    assert resources == ["memory://newest", f"memory://space/{space}"], resources
    templates = (await session.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["memory://space/{space}"]
    for uri in [*resources, f"memory://space/{space}-m1"]:
        contents = (await session.read_resource(uri)).contents
        assert ids(json.loads(contents[0].text)) == [stored["id"]], uri
    for uri in ["memory://spaces", "file:///etc/passwd"]:
        try:
            await session.read_resource(uri)
        except MCPError:
            continue
        raise AssertionError(f"{uri} was read")

    dry = await answer(session, "memory_remove_document", ids=["cat", "dog"], dryRun=True)
    assert dry == {"ids": ["cat"], "notFound": ["dog"], "dryRun": True}, dry
    assert (await answer(session, "memory_remove_document", text="cat"))["ids"] == ["cat"]
    assert ids(await answer(session, "memory_query")) == []


async def see_only_what_a_model_sees(session):
    tools = [tool.name for tool in (await session.list_tools()).tools]
    assert tools == MODEL_TOOLS, tools
    for name, arguments in [("memory_store", {"trigger": {}}), ("memory_update", {"id": "x"}), ("memory_drop", {})]:
        try:
            await session.call_tool(name, arguments)
        except MCPError:
            continue
        raise AssertionError(f"{name} is callable")


async def cancel(session, file):
    """A call that waits for a lock is given up, and the session goes on."""
    lock = sqlite3.connect(file, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        await session.call_tool("memory_add_document", {"content": "late"}, read_timeout_seconds=0.3)
        raise AssertionError("the call did not wait for the lock")
    except MCPError:
        pass
    assert len((await session.list_tools()).tools) == 6
    lock.execute("ROLLBACK")
    lock.close()
    assert (await answer(session, "memory_add_document", content="in time"))["id"]


async def stdio(binary, file):
    for arguments, use in [(["--ledger", "write"], True), ([], False)]:
        server = StdioServerParameters(
            command=binary, args=["serve", "--stdio", *arguments], env={"AGENT_MEMORY_URL": f"sqlite://{file}"}
        )
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            if use:
                await use_everything(session, "agent")
                await cancel(session, file)
            else:
                await see_only_what_a_model_sees(session)


async def http(url, runtime_token, model_token):
    for token, use in [
        (runtime_token, lambda session: use_everything(session, "guild1")),
        (model_token, see_only_what_a_model_sees),
    ]:
        client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
        async with client, streamable_http_client(url, http_client=client) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                await use(session)


if __name__ == "__main__":
    asyncio.run({"stdio": stdio, "http": http}[sys.argv[1]](*sys.argv[2:]))
    print("ok")
