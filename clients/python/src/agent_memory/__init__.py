"""Persistent memory for AI agents.

>>> from agent_memory import Memory
>>> with Memory.open("memory.db") as memory:                            # doctest: +SKIP
...     memory.store("ana-m1", {"text": "I adopted a cat"})
...     memory.recall("Who adopted a cat?", under="ana").hits
"""

from ._calls import CLEAR, KEEP, Conditions, NewDocument, NewMemory, Paged, Query, Question, Selection, Spaces
from .aio import AsyncMemory
from .client import Memory
from .errors import (
    AgentMemoryError,
    Closed,
    Conflict,
    Corrupt,
    FeedReset,
    InvalidInput,
    LimitExceeded,
    NotFound,
    Outcome,
    SchemaMismatch,
    Timeout,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
    Unsupported,
)
from .jsontext import JsonText
from .models import (
    Change,
    Document,
    DocumentPage,
    Explained,
    Health,
    Hit,
    MemoryPage,
    MemoryRecord,
    Neighbour,
    Parts,
    PutDocument,
    Recalled,
    Removed,
    SpaceCount,
    SpaceLevel,
    Term,
    Unreadable,
    Updated,
)
from .watch import AsyncWatch, Watch

__all__ = [
    "CLEAR",
    "KEEP",
    "AgentMemoryError",
    "AsyncMemory",
    "AsyncWatch",
    "Change",
    "Closed",
    "Conditions",
    "Conflict",
    "Corrupt",
    "Document",
    "DocumentPage",
    "Explained",
    "FeedReset",
    "Health",
    "Hit",
    "InvalidInput",
    "JsonText",
    "LimitExceeded",
    "Memory",
    "MemoryPage",
    "MemoryRecord",
    "Neighbour",
    "NewDocument",
    "NewMemory",
    "NotFound",
    "Outcome",
    "Paged",
    "Parts",
    "PutDocument",
    "Query",
    "Question",
    "Recalled",
    "Removed",
    "SchemaMismatch",
    "Selection",
    "SpaceCount",
    "SpaceLevel",
    "Spaces",
    "Term",
    "Timeout",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
    "Unreadable",
    "Unsupported",
    "Updated",
    "Watch",
]
