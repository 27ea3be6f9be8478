"""The writes of a graph's tasks: one document holds all writes of a task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from .._parts import Parts, Write
from ..models import Document


@dataclass(frozen=True)
class TaskWrite:
    """A value that a task has written to a channel, serialised."""

    task: str
    path: str
    index: int
    channel: str
    kind: str
    data: bytes


def content_of(writes: Iterable[TaskWrite], write: Write) -> str:
    """The content of a task's document. Its large values become parts of ``write``."""
    return json.dumps(write.pack_json([{**vars(each), "data": write.pack(each.data)} for each in writes]))


def writes_in(parts: Parts, document: Document) -> dict[int, TaskWrite]:
    """The writes that :func:`content_of` has put into a document, by their indexes."""
    space = document.space_id
    stored = parts.unpack_json(space, json.loads(document.content))
    writes = (TaskWrite(**{**each, "data": parts.unpack(space, each["data"])}) for each in stored)
    return {write.index: write for write in writes}
