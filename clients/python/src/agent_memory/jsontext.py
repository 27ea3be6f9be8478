"""JSON text that is kept byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.decoder import JSONDecodeError
from typing import Any

from .errors import InvalidInput


class JsonText(str):
    """A JSON value as text, sent and kept byte for byte.

    Python's ``json`` reads integers of any size exactly (up to 4,300 digits), rounds other numbers to doubles (``1.10`` becomes
    ``1.1``), and of duplicate keys keeps the last. Where that matters, store ``JsonText('{"price":1.10}')``, and read
    ``trigger_text`` and ``context_text``.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> JsonText:
        """Raises :class:`InvalidInput` unless the text is exactly one JSON value."""
        try:
            end = _SPAN.raw_decode(text, start := _skip(text, 0))[1]
            if _skip(text, end) != len(text):
                raise InvalidInput("JsonText: the text must be one value, and more follows it")
        except (JSONDecodeError, RecursionError):
            raise InvalidInput("JsonText: not valid JSON") from None
        return str.__new__(cls, text[start:end])

    def parse(self) -> Any:
        """The value, as Python's ``json`` reads it."""
        return json.loads(self)


def dumps(what: str, value: Any) -> JsonText:
    """The compact JSON text of a value, with Unicode unescaped. ``what`` names the value in errors."""
    if isinstance(value, JsonText):
        return value
    try:
        text = _COMPACT.encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        # The text of these errors may quote the value.
        raise InvalidInput(f"{what} is not JSON: it holds {_WHY.get(type(error), 'a value that JSON does not have')}") from None
    return str.__new__(JsonText, text)


def members(parts: Mapping[str, JsonText | None]) -> JsonText:
    """A JSON object with these members, whose bytes are kept. Members that are ``None`` are left out; names must need no escaping."""
    inner = (f'"{name}":{part}' for name, part in parts.items() if part is not None)
    return str.__new__(JsonText, "{" + ",".join(inner) + "}")


def array(parts: list[JsonText]) -> JsonText:
    """A JSON array of these elements, whose bytes are kept."""
    return str.__new__(JsonText, "[" + ",".join(parts) + "]")


def loads(text: str) -> Any:
    """Parses an answer of a server. Trigger and context of records become :class:`JsonText`. Raises ``ValueError`` if it is not JSON."""
    try:
        return _value(text, _skip(text, 0))[0]
    except IndexError:
        raise JSONDecodeError("cut", text, len(text)) from None


_RAW = frozenset({"trigger", "context"})
# Members that contain records. Everything else, such as metadata, is parsed as usual.
_WALKED = frozenset({"memories", "hits", "memory", "before", "after"})
_WHY: dict[type[BaseException], str] = {
    TypeError: "a value of a type that JSON does not have",
    RecursionError: "too many levels",
    UnicodeEncodeError: "half of a surrogate pair",
}
_SPACE = re.compile(r"[ \t\n\r]*")


def _refuse(constant: str) -> Any:
    raise JSONDecodeError(constant, "", 0)


_VALUE = json.JSONDecoder()
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
# Finds the end of a value without converting numbers: an integer with too many digits would be refused.
_SPAN = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _array(text, at)
    return _VALUE.raw_decode(text, at)


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(text, at + 1)
    if text[at] == "}":
        return found, at + 1
    while True:
        name, at = _VALUE.raw_decode(text, at)
        at = _expect(text, at, ":")
        if name in _RAW:
            start = at
            _, at = _SPAN.raw_decode(text, at)
            found[name] = str.__new__(JsonText, text[start:at])
        elif name in _WALKED:
            found[name], at = _value(text, at)
        else:
            found[name], at = _VALUE.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == "}":
            return found, at + 1
        at = _expect(text, at, ",")


def _array(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at + 1)
    if text[at] == "]":
        return found, at + 1
    while True:
        value, at = _value(text, at)
        found.append(value)
        at = _skip(text, at)
        if text[at] == "]":
            return found, at + 1
        at = _expect(text, at, ",")


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at] != mark:
        raise JSONDecodeError(f"Expecting {mark!r}", text, at)
    return _skip(text, at + 1)
