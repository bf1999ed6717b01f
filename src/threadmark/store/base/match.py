"""Which items and namespaces a request is about: filters and conditions, as pure functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from threadmark.store.base.items import InvalidFilterError, ListNamespacesOp, MatchCondition


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    def holds(have: Any, want: Any) -> bool:
        if have is None or want is None:
            return False
        try:
            return bool(compare(have, want))
        except TypeError:  # a text is neither more nor less than a number
            return False

    return holds


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
}


def matches(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether every key of the filter holds; a key that the value lacks counts as None.

    Raises ``InvalidFilterError`` for an operator that does not exist.
    """
    return not filter or all(_holds(value.get(key), want) for key, want in filter.items())


def _holds(have: Any, want: Any) -> bool:
    if not isinstance(want, dict):
        return bool(have == want)
    if any(key.startswith("$") for key in want if isinstance(key, str)):
        return all(_operator(name)(have, limit) for name, limit in want.items())
    return isinstance(have, dict) and all(_holds(have.get(key), inner) for key, inner in want.items())


def _operator(name: str) -> Callable[[Any, Any], bool]:
    known = OPERATORS.get(name)
    if known is None:
        raise InvalidFilterError(f"unknown operator {name!r} in a filter; there are {', '.join(OPERATORS)}")
    return known


def under(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Whether a namespace lies at or below a prefix."""
    return tuple(namespace[: len(prefix)]) == tuple(prefix)


def meets(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as the condition says."""
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidFilterError(f"unknown match type {condition.match_type!r}; choose 'prefix' or 'suffix'")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(want in ("*", have) for have, want in zip(part, path, strict=True))


def listed(namespaces: Iterable[tuple[str, ...]], op: ListNamespacesOp) -> list[tuple[str, ...]]:
    """The namespaces that an operation asks for, in order, each once."""
    conditions = op.match_conditions or ()
    found = {
        namespace if op.max_depth is None else namespace[: op.max_depth]
        for namespace in namespaces
        if all(meets(namespace, condition) for condition in conditions)
    }
    return sorted(found)[op.offset : op.offset + op.limit]
