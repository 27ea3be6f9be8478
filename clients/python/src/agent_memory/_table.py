"""HTML tables, for notebooks. All text in their cells is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

# The length limit of a text in a cell, in characters.
_SHOWN = 200


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of these rows below a head."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return "<table>" + "".join(lines) + "</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(_cut(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
