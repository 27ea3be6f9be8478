"""Packages that only an adapter needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Says how to install what an adapter imports, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.msg}: install what this adapter needs by `pip install 'agent-memory[{name}]'`"
        raise ModuleNotFoundError(message, name=error.name) from error
