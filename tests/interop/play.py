"""Runs graphs of LangGraph's and writes down all that a caller sees, with ids by order of appearance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tests.conftest import Call

MODES = ["values", "updates", "custom", "tasks", "checkpoints"]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TIMES = frozenset({"created_at", "ts", "timestamp"})
_SIDE_BY_SIDE = frozenset({"tasks", "updates", "custom"})
_PAIRS = "counters_since_delta_snapshot"
"""Metadata in which LangGraph puts pairs: its savers give back lists, ours the pairs."""


class Play:
    """One scenario on one saver in one colour. ``told`` is what it has shown so far."""

    def __init__(self, checkpointer: Any, call: Call, thread: str = "1") -> None:
        self.checkpointer, self.call = checkpointer, call
        self.config: dict[str, Any] = {"configurable": {"thread_id": thread}}
        self.told: list[Any] = []
        self._names: dict[str, str] = {}
        self.graph: Any = None

    def compile(self, builder: Any, **options: Any) -> Any:
        """The graph that the calls below are about."""
        self.graph = builder.compile(checkpointer=self.checkpointer, **options)
        return self.graph

    def run(self, given: Any, at: Any = None, **options: Any) -> None:
        """Stream a run in every mode; an error that it raises is a part of what is told."""
        config = {**self.config, "configurable": {**self.config["configurable"], **_place(at)}}
        try:
            events = self.call(self.graph, "stream", given, config, **_all_modes(options))
            self._tell("stream", [*_in_order(events)])
        except Exception as error:
            self._tell("raised", f"{type(error).__name__}: {error}")

    def state(self, at: Any = None, **options: Any) -> Any:
        """The thread as it stands, or at a snapshot."""
        config = self.config if at is None else at.config
        found = self.call(self.graph, "get_state", config, **options)
        self._tell("state", found)
        return found

    def history(self, config: Any = None, **query: Any) -> list[Any]:
        """Every snapshot, newest first."""
        found: list[Any] = self.call(self.graph, "get_state_history", config or self.config, **query)
        self._tell("history", found)
        return found

    def update(self, values: Any, at: Any = None, **options: Any) -> Any:
        """An edit of the state."""
        config = self.config if at is None else at.config
        made = self.call(self.graph, "update_state", config, values, **options)
        self._tell("updated", made)
        return made

    def _tell(self, what: str, value: Any) -> None:
        self.told.append((what, self._plain(value)))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return _ID.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names)}>"), value)
        if isinstance(value, dict):
            shown = {key: part for key, part in value.items() if key not in _TIMES}
            if _PAIRS in shown:
                shown[_PAIRS] = {channel: list(counts) for channel, counts in shown[_PAIRS].items()}
            return {self._plain(key): self._plain(part) for key, part in shown.items()}
        named = f"{type(value).__module__}.{type(value).__qualname__}"
        if hasattr(value, "_fields"):
            return named, {name: self._plain(getattr(value, name)) for name in value._fields if name not in _TIMES}
        if hasattr(value, "model_dump"):
            return named, self._plain(value.model_dump())
        if is_dataclass(value):
            return named, {field.name: self._plain(getattr(value, field.name)) for field in fields(value)}
        if isinstance(value, BaseException):
            return self._plain(repr(value))
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [self._plain(part) for part in value]
        if named == "langgraph.types.Send":
            return named, value.node, self._plain(value.arg)
        return named, self._plain(repr(value)) if named.startswith("langgraph") else value


def _in_order(events: list[Any]) -> Iterator[Any]:
    """The events, those of tasks that run side by side in an order that does not depend on which was faster."""
    told: list[Any] = []
    for event in events:
        if event[1] not in _SIDE_BY_SIDE:
            yield from sorted(told, key=lambda one: _ID.sub("", repr(one)))
            yield event
            told = []
        else:
            told.append(event)
    yield from sorted(told, key=lambda one: _ID.sub("", repr(one)))


def _place(at: Any) -> dict[str, Any]:
    return {} if at is None else dict(at.config["configurable"])


def _all_modes(options: dict[str, Any]) -> dict[str, Any]:
    return {"stream_mode": MODES, "subgraphs": True, **options}


def difference(one: Any, other: Any, where: str = "") -> str:
    """Where two records first differ, and how; "" when they do not. A comparison by pytest would take minutes."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        parts = [(f"{where}.{key}", one[key], other[key]) for key in one]
    elif isinstance(one, (list, tuple)) and type(one) is type(other) and len(one) == len(other):
        parts = [(f"{where}[{number}]", *pair) for number, pair in enumerate(zip(one, other, strict=True))]
    else:
        return "" if one == other else f"{where}: {one!r:.400} / {other!r:.400}"
    return next((found for path, a, b in parts if (found := difference(a, b, path))), "")
