"""The rule that maps names of other systems to spaces and ids, without collisions.

Each name becomes a segment, and segments are joined by ``/``. In a segment, every character but the letters and digits of ASCII and ``_``,
``.``, ``~`` is percent-encoded as UTF-8, and the empty name becomes a single ``%``. So different names have different spaces, ``under``
finds exactly what lies below a name, and :func:`names_of` returns the names.

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
    """The space with these names, from broad to narrow. A space has at most 512 bytes and 33 names."""
    if not names:
        raise InvalidInput("a space must have at least one name")
    try:
        return "/".join(quote(name, safe="").replace("-", "%2D") or "%" for name in names)
    except UnicodeEncodeError:
        raise InvalidInput("a name holds half of a surrogate pair") from None


def names_of(space: str) -> tuple[str, ...]:
    """The names of a space that :func:`space_of` has made."""
    return tuple("" if segment == "%" else unquote(segment) for segment in space.split("/"))


def id_in(space: str, *names: str) -> str:
    """An id of at most 256 bytes for a document with these names in a space.

    It begins with a hash of the space. Names of more than 200 bytes are replaced by ``+`` and a hash; no other name begins with ``+``. In
    one space, the ids sort as their names do, for short names that differ only in letters and digits.
    """
    name = space_of(*names)
    if len(name) > 200:
        name = "+" + hashlib.sha256(name.encode()).hexdigest()
    return f"{hashlib.sha256(space.encode()).hexdigest()[:32]}/{name}"


def id_moved(id: str, space: str) -> str:
    """The id of the same document in another space, for an id that :func:`id_in` has made."""
    return f"{hashlib.sha256(space.encode()).hexdigest()[:32]}/{id.split('/', 1)[1]}"
