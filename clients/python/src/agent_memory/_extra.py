"""Optional packages, which only an adapter needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """If a package that an adapter imports is missing, raises an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.msg}: install what this adapter needs by `pip install 'agent-memory[{name}]'`"
        raise ModuleNotFoundError(message, name=error.name) from error
