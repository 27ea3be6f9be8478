"""What a task of a graph has written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._parts import Packed, Write


@dataclass(frozen=True)
class TaskWrite:
    """One value that a task has written to a channel, serialised."""

    task: str
    path: str
    index: int
    channel: str
    kind: str
    data: bytes

    def packed(self, write: Write) -> dict[str, Any]:
        """Its form in a document, with the parts of a large value stored."""
        return {**vars(self), "data": write.pack(self.data)}

    @classmethod
    def unpacked(cls, packed: dict[str, Any], unpack: Callable[[Packed], bytes]) -> TaskWrite:
        """What :meth:`packed` has put into a document."""
        return cls(**{**packed, "data": unpack(packed["data"])})
