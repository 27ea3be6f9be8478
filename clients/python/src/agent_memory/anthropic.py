"""Anthropic's memory tool (``memory_20250818``) as documents.

Needs the extra: ``pip install 'agent-memory[anthropic]'``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from ._documents import put_once, remove_unchanged, remove_under, replace
from ._extra import extra
from .client import Memory
from .errors import AgentMemoryError, Conflict
from .models import Document
from .spaces import id_in, names_of, space_of

with extra("anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from ._files import content, listing, numbered

_ROOT = "/memories"
_SNIPPET = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{}"


class AgentMemoryTool(BetaAbstractMemoryTool):
    """Each file below ``/memories`` is a document, in the space ``ROOT/...`` of its path. Answers are those in the tool's documentation.
    ``root`` is one name or several, such as ``("anthropic", user)``: nothing outside of it can be reached.
    """

    def __init__(self, memory: Memory, *, root: str | Sequence[str] = "anthropic", collection: str = "memories", **options: Any) -> None:
        super().__init__(**options)
        self._memory = memory
        self._root = (root,) if isinstance(root, str) else tuple(root)
        self._collection = collection

    def execute(self, command: Any) -> Any:
        """Executes a command. Errors of the memory are reported to the model, as its own mistakes are."""
        try:
            return super().execute(command)
        except AgentMemoryError as error:
            raise ToolError(f"Error: {error}") from error

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        names, path = self._names(command.path), command.path
        found = self._file(names)
        if found is not None:
            return content(path, found.content, command.view_range)
        below = self._below(names)
        if not below and names:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return listing(path.rstrip("/"), [(names_of(each.space_id)[len(self._root) + len(names) :], each) for each in below])

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        names, path = self._names(command.path), command.path
        is_taken = not names or any(self._file(names[:end]) for end in range(1, len(names))) or self._below(names, limit=1)
        if is_taken or not put_once(self._memory, self._collection, self._id(names), command.file_text, self._space(names)):
            raise ToolError(f"Error: File {path} already exists")
        return f"File created successfully at: {path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old, new = command.path, command.old_str, command.new_str

        def change(text: str) -> tuple[str, str]:
            starts = [at for at in range(len(text)) if text.startswith(old, at)] if old else []
            if not starts:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if len(starts) > 1:
                lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in starts)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
                )
            changed = text[: starts[0]] + new + text[starts[0] + len(old) :]
            line = text.count("\n", 0, starts[0])
            lines_around = changed.split("\n")[max(0, line - 2) : line + new.count("\n") + 3]
            return changed, _SNIPPET.format(numbered(lines_around, max(0, line - 2) + 1))

        return self._edit(path, f"Error: The path {path} does not exist. Please provide a valid path.", change)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        path, at = command.path, command.insert_line

        def change(text: str) -> tuple[str, str]:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= at <= len(lines):
                raise ToolError(
                    f"Error: Invalid `insert_line` parameter: {at}. It should be within the range of lines of the file: [0, {len(lines)}]"
                )
            lines.insert(at, command.insert_text.removesuffix("\n"))
            return "\n".join(lines) + "\n", f"The file {path} has been edited."

        return self._edit(path, f"Error: The path {path} does not exist", change)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        names, path = self._names(command.path), command.path
        if not names:
            raise ToolError("Error: Cannot delete the /memories directory itself")
        if not self._below(names, limit=1):
            raise ToolError(f"Error: The path {path} does not exist")
        remove_under(self._memory, self._collection, self._space(names))
        return f"Successfully deleted {path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = self._names(command.old_path), self._names(command.new_path)
        if not old:
            raise ToolError("Error: Cannot rename the /memories directory itself")
        if not new:
            raise ToolError(f"Error: The destination {command.new_path} already exists")
        if new[: len(old)] == old and new != old:
            raise ToolError(f"Error: The path {command.new_path} is below {command.old_path}")
        found = self._below(old)
        if not found:
            raise ToolError(f"Error: The path {command.old_path} does not exist")
        if self._below(new, limit=1) or any(self._file(new[:end]) for end in range(1, len(new))):
            raise ToolError(f"Error: The destination {command.new_path} already exists")
        for each in found:
            self._move(each, new + names_of(each.space_id)[len(self._root) + len(old) :], command.new_path)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Removes all files."""
        remove_under(self._memory, self._collection, space_of(*self._root))
        return "All memory cleared"

    def _move(self, found: Document | None, names: tuple[str, ...], path: str) -> None:
        """Writes a file to its new path, and then removes the old one. What others write to the old one meanwhile is moved too."""
        id, space = self._id(names), self._space(names)
        if found is None or not put_once(self._memory, self._collection, id, found.content, space, created_at=found.created_at):
            raise ToolError(f"Error: The destination {path} already exists")
        while not remove_unchanged(self._memory, found):
            found = self._memory.get_document(self._collection, found.id)
            if found is None:
                return
            replace(self._memory, self._collection, id, found.content, space, created_at=found.created_at)

    def _edit(self, path: str, missing: str, change: Callable[[str], tuple[str, str]]) -> str:
        names = self._names(path)
        while True:
            found = self._file(names)
            if found is None:
                raise ToolError(missing)
            text, answer = change(found.content)
            try:
                self._memory.put_document(self._collection, found.id, text, space=found.space_id, expect=found.revision)
            except Conflict:
                continue
            return answer

    def _names(self, path: str) -> tuple[str, ...]:
        """The names of the segments of a path below ``/memories``."""
        if path != _ROOT and not path.startswith(_ROOT + "/"):
            raise ToolError(f"Error: Path must start with /memories, got: {path}")
        below = path[len(_ROOT) + 1 :].removesuffix("/")
        names = below.split("/") if below else []
        for name in names:
            plain = unquote(name)
            if plain in ("", ".", "..") or "/" in plain or "\\" in plain or not name.isprintable():
                raise ToolError(f"Error: Path {path} would escape /memories directory")
        return tuple(names)

    def _file(self, names: tuple[str, ...]) -> Document | None:
        return self._memory.get_document(self._collection, self._id(names)) if names else None

    def _below(self, names: tuple[str, ...], limit: int | None = None) -> list[Document]:
        under = self._space(names)
        if limit is not None:
            return self._memory.query_documents(self._collection, under=under, limit=limit).documents
        return list(self._memory.walk_documents(self._collection, under=under, limit=1000))

    def _space(self, names: tuple[str, ...]) -> str:
        return space_of(*self._root, *names)

    def _id(self, names: tuple[str, ...]) -> str:
        return id_in(self._space(names), names[-1])


class AsyncAgentMemoryTool(BetaAsyncAbstractMemoryTool):
    """:class:`AgentMemoryTool` for the async client: its commands run in a thread. Cancelling the task does not interrupt them."""

    def __init__(self, memory: Memory, *, root: str | Sequence[str] = "anthropic", collection: str = "memories", **options: Any) -> None:
        super().__init__(**options)
        self._tool = AgentMemoryTool(memory, root=root, collection=collection)

    async def execute(self, command: Any) -> Any:
        """Executes a command."""
        return await asyncio.to_thread(self._tool.execute, command)

    async def clear_all_memory(self) -> str:
        """Removes all files."""
        return await asyncio.to_thread(self._tool.clear_all_memory)

    view = create = str_replace = insert = delete = rename = execute
