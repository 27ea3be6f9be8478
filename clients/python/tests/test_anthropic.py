"""Anthropic's memory tool: the answers of its documentation, and a whole session of the official package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from scripted import Asked, Reply, scripted

from agent_memory import Memory
from agent_memory.anthropic import AgentMemoryTool, AsyncAgentMemoryTool


@pytest.fixture
def tool(memory: Memory, root: str, collection: str) -> AgentMemoryTool:
    return AgentMemoryTool(memory, root=root, collection=collection)


def ask(tool: AgentMemoryTool, command: str, **arguments: Any) -> str:
    """The answer to a command, or the text of its error."""
    try:
        return str(tool.call({"command": command, **arguments}))
    except ToolError as error:
        return f"! {error.content}"


def test_view(tool: AgentMemoryTool) -> None:
    header = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:\n"
    assert ask(tool, "view", path="/memories") == header.format("/memories") + "0B\t/memories"
    ask(tool, "create", path="/memories/a.txt", file_text="x" * 1536)
    ask(tool, "create", path="/memories/d/e/f.txt", file_text="yy")
    ask(tool, "create", path="/memories/.hidden", file_text="")
    ask(tool, "create", path="/memories/node_modules/x", file_text="")
    listed = "1.5K\t/memories\n1.5K\t/memories/a.txt\n2B\t/memories/d/\n2B\t/memories/d/e/"
    assert ask(tool, "view", path="/memories") == header.format("/memories") + listed
    assert (
        ask(tool, "view", path="/memories/d")
        == header.format("/memories/d") + "2B\t/memories/d\n2B\t/memories/d/e/\n2B\t/memories/d/e/f.txt"
    )
    ask(tool, "create", path="/memories/n.md", file_text="one\ntwo\nthree\n")
    content = "Here's the content of /memories/n.md with line numbers:\n"
    assert ask(tool, "view", path="/memories/n.md") == content + "     1\tone\n     2\ttwo\n     3\tthree\n     4\t"
    assert ask(tool, "view", path="/memories/n.md", view_range=[2, 3]) == content + "     2\ttwo\n     3\tthree"
    assert ask(tool, "view", path="/memories/n.md", view_range=[3, -1]) == content + "     3\tthree\n     4\t"
    assert ask(tool, "view", path="/memories/x") == "! The path /memories/x does not exist. Please provide a valid path."
    ask(tool, "create", path="/memories/long", file_text="\n" * 999_999)
    assert ask(tool, "view", path="/memories/long") == "! File /memories/long exceeds maximum line limit of 999,999 lines."


def test_create(tool: AgentMemoryTool) -> None:
    assert ask(tool, "create", path="/memories/a/b.txt", file_text="x") == "File created successfully at: /memories/a/b.txt"
    for path in ("/memories/a/b.txt", "/memories/a", "/memories/a/b.txt/c", "/memories"):
        assert ask(tool, "create", path=path, file_text="y") == f"! Error: File {path} already exists"
    assert ask(tool, "create", path="/memories/ä-ö: c", file_text="y") == "File created successfully at: /memories/ä-ö: c"
    assert ask(tool, "create", path="/memories/large", file_text="x" * (2 << 20)).startswith("! Error: ")


def test_str_replace(tool: AgentMemoryTool) -> None:
    path = "/memories/a"
    ask(tool, "create", path=path, file_text="1\n2\n3\nred\n5\n6\n7\n5")
    answer = ask(tool, "str_replace", path=path, old_str="red", new_str="blue")
    assert answer.startswith("The memory file has been edited.")
    assert answer.endswith("\n     2\t2\n     3\t3\n     4\tblue\n     5\t5\n     6\t6")
    missing = f"! No replacement was performed, old_str `red` did not appear verbatim in {path}."
    assert ask(tool, "str_replace", path=path, old_str="red", new_str="x") == missing
    twice = "! No replacement was performed. Multiple occurrences of old_str `5` in lines: 5, 8. Please ensure it is unique"
    assert ask(tool, "str_replace", path=path, old_str="5", new_str="x") == twice
    ask(tool, "create", path="/memories/d/f", file_text="")
    for wrong in ("/memories/x", "/memories/d"):
        error = f"! Error: The path {wrong} does not exist. Please provide a valid path."
        assert ask(tool, "str_replace", path=wrong, old_str="a", new_str="b") == error


def test_insert(tool: AgentMemoryTool) -> None:
    path = "/memories/a"
    ask(tool, "create", path=path, file_text="one\ntwo\n")
    assert ask(tool, "insert", path=path, insert_line=1, insert_text="middle\n") == f"The file {path} has been edited."
    ask(tool, "insert", path=path, insert_line=0, insert_text="first")
    ask(tool, "insert", path=path, insert_line=4, insert_text="last\n")
    shown = [line[7:] for line in ask(tool, "view", path=path).split("\n")[1:]]
    assert shown == ["first", "one", "middle", "two", "last", ""]
    wrong = "! Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 5]"
    assert ask(tool, "insert", path=path, insert_line=9, insert_text="x") == wrong
    assert ask(tool, "insert", path="/memories/x", insert_line=0, insert_text="x") == "! Error: The path /memories/x does not exist"


def test_delete(tool: AgentMemoryTool) -> None:
    for name in ("a", "d/x", "d/y/z", "dd"):
        ask(tool, "create", path=f"/memories/{name}", file_text="")
    assert ask(tool, "delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert ask(tool, "delete", path="/memories/d") == "! Error: The path /memories/d does not exist"
    assert ask(tool, "view", path="/memories").split("\n")[2:] == ["0B\t/memories/a", "0B\t/memories/dd"]
    assert ask(tool, "delete", path="/memories").startswith("! Error")
    assert tool.clear_all_memory() == "All memory cleared"
    assert len(ask(tool, "view", path="/memories").split("\n")) == 2


def test_rename(tool: AgentMemoryTool) -> None:
    for name in ("a", "b", "d/x", "d/y/z"):
        ask(tool, "create", path=f"/memories/{name}", file_text=name)
    assert ask(tool, "rename", old_path="/memories/d", new_path="/memories/e/f") == "Successfully renamed /memories/d to /memories/e/f"
    assert ask(tool, "view", path="/memories/e/f/y/z").endswith("     1\td/y/z")
    assert ask(tool, "rename", old_path="/memories/a", new_path="/memories/b") == "! Error: The destination /memories/b already exists"
    assert ask(tool, "rename", old_path="/memories/a", new_path="/memories/e") == "! Error: The destination /memories/e already exists"
    assert ask(tool, "rename", old_path="/memories/d", new_path="/memories/x") == "! Error: The path /memories/d does not exist"
    assert ask(tool, "rename", old_path="/memories/e", new_path="/memories/e/f/g").startswith("! Error")


def test_what_is_written_during_a_rename_comes_along(tool: AgentMemoryTool, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(tool, "create", path="/memories/a", file_text="one\n")
    remove = Memory.remove_documents

    def edit_first(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Memory, "remove_documents", remove)
        assert ask(tool, "insert", path="/memories/a", insert_line=1, insert_text="two") == "The file /memories/a has been edited."
        return remove(*arguments, **options)

    monkeypatch.setattr(Memory, "remove_documents", edit_first)
    assert ask(tool, "rename", old_path="/memories/a", new_path="/memories/b").startswith("Successfully")
    assert ask(tool, "view", path="/memories/b").endswith("     1\tone\n     2\ttwo\n     3\t")
    assert ask(tool, "view", path="/memories/a").startswith("! The path")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/memoriesx",
        "memories/a",
        "/memories/../a",
        "/memories/a/../../b",
        "/memories/./a",
        "/memories//a",
        "/memories/%2e%2e/a",
        "/memories/%2e%2e%2fa",
        "/memories/..\\a",
        "/memories/a\0b",
        "",
    ],
)
def test_paths_are_confined(tool: AgentMemoryTool, memory: Memory, collection: str, path: str) -> None:
    for command in ({"command": "create", "file_text": "x", "path": path}, {"command": "view", "path": path}):
        assert ask(tool, **command).startswith("! Error: Path")
    assert ask(tool, "rename", old_path=path, new_path="/memories/a").startswith("! Error: Path")
    assert collection not in memory.collections()


def test_two_roots_see_nothing_of_each_other(memory: Memory, root: str, collection: str) -> None:
    ana, bob = (AgentMemoryTool(memory, root=(root, user), collection=collection) for user in ("ana", "ana-2"))
    ask(ana, "create", path="/memories/a", file_text="of Ana")
    assert ask(bob, "view", path="/memories/a").startswith("! The path")
    bob.clear_all_memory()
    assert ask(ana, "view", path="/memories/a").endswith("of Ana")


async def test_racing_edits_all_survive(memory: Memory, root: str, collection: str) -> None:
    tool = AsyncAgentMemoryTool(memory, root=root, collection=collection)
    await tool.call({"command": "create", "path": "/memories/a", "file_text": ""})
    lines = [{"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": str(n)} for n in range(16)]
    await asyncio.gather(*(tool.call(line) for line in lines))
    text = str(await tool.call({"command": "view", "path": "/memories/a"}))
    assert sorted(line[7:] for line in text.split("\n")[1:17]) == sorted(str(n) for n in range(16))


def model(commands: list[dict[str, Any]]) -> Any:
    """A model that calls the tool with each command, and then ends."""
    left = list(commands)

    def answer(_: Asked) -> Reply:
        block: dict[str, Any] = {"type": "text", "text": "Done"}
        if left:
            block = {"type": "tool_use", "id": f"toolu_{len(left)}", "name": "memory", "input": left.pop(0)}
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [block], "stop_reason": stop}
        return Reply(200, {**message, "stop_sequence": None, "usage": usage})

    return answer


COMMANDS = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/coffee.md", "file_text": "Likes coffee\n"},
    {"command": "create", "path": "/memories/coffee.md", "file_text": "again"},
    {"command": "str_replace", "path": "/memories/coffee.md", "old_str": "coffee", "new_str": "tea"},
    {"command": "view", "path": "/memories/coffee.md"},
]


def results(asked: list[Asked]) -> list[tuple[str, bool]]:
    blocks = [each.json["messages"][-1]["content"][0] for each in asked[1:]]
    return [(text(block["content"]), bool(block.get("is_error"))) for block in blocks]


def text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def test_a_whole_session(tool: AgentMemoryTool) -> None:
    with scripted(model(COMMANDS)) as (url, asked):
        client = Anthropic(base_url=url, api_key="x", max_retries=0)
        runner = client.beta.messages.tool_runner(
            model="claude", max_tokens=100, tools=[tool], messages=[{"role": "user", "content": "Remember that I like tea"}]
        )
        assert runner.until_done().content[0].type == "text"
    assert asked[0].json["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    told = results(asked)
    assert told[1:3] == [
        ("File created successfully at: /memories/coffee.md", False),
        ("Error: File /memories/coffee.md already exists", True),
    ]
    assert told[4][0].split("\n")[1] == "     1\tLikes tea"


async def test_a_whole_async_session(memory: Memory, root: str, collection: str) -> None:
    tool = AsyncAgentMemoryTool(memory, root=root, collection=collection)
    with scripted(model(COMMANDS)) as (url, asked):
        client = AsyncAnthropic(base_url=url, api_key="x", max_retries=0)
        runner = client.beta.messages.tool_runner(
            model="claude", max_tokens=100, tools=[tool], messages=[{"role": "user", "content": "Remember that I like tea"}]
        )
        await runner.until_done()
    assert results(asked)[4][0].split("\n")[1] == "     1\tLikes tea"
