"""LangGraph's filters: the part that the server evaluates, and the exact check in Python."""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition

from .._documents import all_of, condition

_OPERATORS = {"$eq": "=", "$ne": "<>", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_KEY = re.compile(r"[\w.-]+")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operators.gt,
    "$gte": operators.ge,
    "$lt": operators.lt,
    "$lte": operators.le,
}


def condition_of(filter: Mapping[str, Any] | None) -> str | None:
    """The condition for the server, which also lets values in parts pass. Each item found is checked again."""
    return all_of(_conditions(filter or {}))


def is_at(namespace: Sequence[str], wanted: MatchCondition) -> bool:
    """Whether a namespace begins or ends with a path, in which ``*`` matches any name."""
    if len(wanted.path) > len(namespace):
        return False
    part = namespace[: len(wanted.path)] if wanted.match_type == "prefix" else namespace[len(namespace) - len(wanted.path) :]
    return all(one in ("*", name) for name, one in zip(part, wanted.path, strict=True))


def _conditions(filter: Mapping[str, Any]) -> Iterator[str]:
    for name, wanted in filter.items():
        if not _KEY.fullmatch(name):
            raise ValueError(f"Invalid filter key: {name!r} has other characters than letters, digits, '_', '-' and '.'")
        operators = wanted if isinstance(wanted, dict) else {"$eq": wanted}
        for operator, value in operators.items():
            if "." not in name and operator in _OPERATORS and (text := condition(("value", name), _OPERATORS[operator], value)):
                yield f"({text} OR metadata.packed IS NOT NULL)"


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value satisfies a filter."""
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if not any(name.startswith("$") for name in wanted):
        return isinstance(value, dict) and all(matches(_at(value, name), each) for name, each in wanted.items())
    return all(_holds(value, operator, operand) for operator, operand in wanted.items())


def _at(value: dict[str, Any], name: str) -> Any:
    """The member with this name, or at this path of names separated by dots."""
    if name in value or "." not in name:
        return value.get(name)
    first, rest = name.split(".", 1)
    inner = value.get(first)
    return _at(inner, rest) if isinstance(inner, dict) else None


def _holds(value: Any, operator: str, operand: Any) -> bool:
    if operator not in _OPERATORS:
        raise ValueError(f"Operator {operator} not supported")
    if operator == "$eq":
        return bool(value == operand)
    if operator == "$ne":
        return bool(value != operand)
    comparable = (isinstance(value, str) and isinstance(operand, str)) or (_is_number(value) and _is_number(operand))
    return comparable and bool(_COMPARED[operator](value, operand))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))
