"""HTML tables of results, for notebooks. All text of records is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ._time import time_of

if TYPE_CHECKING:
    from .models import Document, Hit, MemoryRecord, Neighbour, SpaceCount

# The length limit of a text in a cell, in characters.
_SHOWN = 200


def memories(records: Iterable[MemoryRecord]) -> str:
    """An HTML table of memories."""
    rows = [(r.id, _time(r.created_at), r.space_id, r.status, r.trigger_text) for r in records]
    return _table(("id", "created", "space", "status", "trigger"), rows)


def documents(records: Iterable[Document]) -> str:
    """An HTML table of documents."""
    rows = [(r.id, _time(r.created_at), r.space_id, str(r.revision), r.content) for r in records]
    return _table(("id", "created", "space", "revision", "content"), rows)


def spaces(found: Iterable[SpaceCount]) -> str:
    """An HTML table of spaces."""
    rows = [(each.id, f"{each.count}{'+' if each.more else ''}", _time(each.newest)) for each in found]
    return _table(("space", "count", "newest"), rows)


def hits(found: Iterable[Hit]) -> str:
    """An HTML table of hits."""
    return _table(("score", "created", "space", "text"), [(f"{hit.score:.3f}", *_record(hit)) for hit in found])


def _record(hit: Neighbour) -> tuple[str, str, str]:
    if hit.document is not None:
        return _time(hit.document.created_at), hit.document.space_id, hit.document.content
    if hit.memory is not None:
        return _time(hit.memory.created_at), hit.memory.space_id, hit.memory.trigger_text
    return "", "", ""


def _time(millis: int) -> str:
    return time_of(millis).strftime("%Y-%m-%d %H:%M:%S")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return "<table>" + "".join(lines) + "</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(_cut(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
