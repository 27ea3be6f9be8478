"""The one rule by which names of other systems become spaces and ids, without collisions.

Each name is a segment, and segments are joined by ``/``. In a segment everything but letters and digits of ASCII and ``_``, ``.``, ``~`` is
written as ``%`` and two hexadecimal digits for each byte of UTF-8, and the empty name is a ``%`` alone. So different names never meet,
``under`` finds exactly what lies below a name, and :func:`names_of` gives the names back.

    >>> space_of("langgraph", "users", "ana-1")
    'langgraph/users/ana%2D1'
    >>> names_of("langgraph/users/ana%2D1")
    ('langgraph', 'users', 'ana-1')
"""

from __future__ import annotations

import hashlib
from urllib.parse import quote, unquote

from .errors import InvalidInput


def space_of(*names: str) -> str:
    """The space with these names, from broad to narrow: at most 512 bytes, and 33 names."""
    if not names:
        raise InvalidInput("a space has at least one name")
    try:
        return "/".join(quote(name, safe="").replace("-", "%2D") or "%" for name in names)
    except UnicodeEncodeError:
        raise InvalidInput("a name holds half of a surrogate pair") from None


def names_of(space: str) -> tuple[str, ...]:
    """The names of a space that :func:`space_of` made."""
    return tuple("" if segment == "%" else unquote(segment) for segment in space.split("/"))


def id_in(space: str, *names: str) -> str:
    """An id of at most 256 bytes for a document with these names in a space.

    It begins with a hash of the space. Names of more than 200 bytes are a hash behind ``+``, which no other name begins with. In one space
    the ids have the order of short names that only differ in letters and digits.
    """
    name = space_of(*names)
    if len(name) > 200:
        name = "+" + hashlib.sha256(name.encode()).hexdigest()
    return f"{hashlib.sha256(space.encode()).hexdigest()[:32]}/{name}"


def id_moved(id: str, space: str) -> str:
    """The id that a document with this id of :func:`id_in` has in another space."""
    return f"{hashlib.sha256(space.encode()).hexdigest()[:32]}/{id.split('/', 1)[1]}"
