"""Files and directories as Anthropic's memory tool prints them."""

from __future__ import annotations

from collections.abc import Sequence

from anthropic.lib.tools import ToolError

from .models import Document

_MOST_LINES = 999_999
_LEVELS = 2
_HEADER = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"


def content(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """A file as `view` prints it."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = view_range if view_range and len(view_range) == 2 else (1, -1)
    start = max(1, first)
    shown = lines[start - 1 : len(lines) if last == -1 else max(0, last)]
    return f"Here's the content of {path} with line numbers:\n{numbered(shown, start)}"


def numbered(lines: Sequence[str], first: int) -> str:
    """Lines with their numbers."""
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))


def listing(path: str, files: Sequence[tuple[tuple[str, ...], Document]]) -> str:
    """A directory as `view` prints it, from its files by their paths below it."""
    sizes: dict[tuple[str, ...], int] = {(): 0}
    directories: set[tuple[str, ...]] = set()
    for names, document in files:
        size = len(document.content.encode())
        sizes[()] += size
        for end in range(1, min(len(names), _LEVELS) + 1):
            if names[end - 1].startswith(".") or names[end - 1] == "node_modules":
                break
            sizes[names[:end]] = sizes.get(names[:end], 0) + size
            directories.update([names[:end]] if end < len(names) else [])
    lines = [f"{_size(size)}\t{'/'.join((path, *names))}{'/' if names in directories else ''}" for names, size in sorted(sizes.items())]
    return "\n".join([_HEADER.format(path), *lines])


def _size(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    return f"{size / 1024:.1f}K" if size < 1024 * 1024 else f"{size / (1024 * 1024):.1f}M"
