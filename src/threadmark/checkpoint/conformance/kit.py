"""Small makers of checkpoints and configs, a thread that grows step by step, and what checks are written with.

Nothing here needs pytest: the checks are run by it, or without it by ``validate``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from threadmark.checkpoint.base import Checkpoint, empty_checkpoint

F = TypeVar("F", bound=Callable[..., None])


def config(thread_id: Any = "t", id: str | None = None, ns: str | None = "", **more: Any) -> Any:
    """A config of one thread; ``ns`` None leaves the namespace out."""
    named: dict[str, Any] = {"thread_id": thread_id, **more}
    if ns is not None:
        named["checkpoint_ns"] = ns
    if id is not None:
        named["checkpoint_id"] = id
    return {"configurable": named}


def checkpoint(values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None, **more: Any) -> Checkpoint:
    """A checkpoint with these values, each at version 1 unless told."""
    made: dict[str, Any] = {**empty_checkpoint(), "updated_channels": sorted(values or {}), **more}
    made["channel_values"] = dict(values or {})
    made["channel_versions"] = dict.fromkeys(values or {}, 1) if versions is None else dict(versions)
    return made  # type: ignore[return-value]


class Grown:
    """A thread built by puts: each ``put`` follows the one before it.

    ``next_version(current)`` makes versions; by default the saver's own.
    """

    def __init__(
        self,
        saver: Any,
        call: Any,
        thread_id: Any = "t",
        ns: str = "",
        next_version: Callable[[Any], Any] | None = None,
    ) -> None:
        self.saver, self.call = saver, call
        self.config = config(thread_id, ns=ns)
        self.configs: list[Any] = []
        self.versions: dict[str, Any] = {}
        self.step = -1
        self._next_version = next_version or (lambda current: saver.get_next_version(current, None))

    def put(self, values: dict[str, Any], *, changed: Any = None, config: Any = None, **metadata: Any) -> Any:
        """Store a checkpoint with ``values``; ``changed`` are the channels whose version moves (None: all)."""
        moved = list(values) if changed is None else list(changed)
        version = self._next_version(max(self.versions.values(), default=None))
        self.versions = {**self.versions, **dict.fromkeys(moved, version)}
        made = checkpoint(values, {c: v for c, v in self.versions.items() if c in values or c in moved})
        kept = {"source": "loop", "step": self.step, "parents": {}, **metadata}
        new = {channel: self.versions[channel] for channel in moved}
        self.config = self.call(self.saver, "put", config or self.config, made, kept, new)
        self.configs.append(self.config)
        self.step += 1
        return self.config

    def values(self, at: Any = None) -> Any:
        """Channel values at a config, the newest by default."""
        return self.call(self.saver, "get_tuple", at or self.config).checkpoint["channel_values"]


def filled(saver: Any, call: Any, thread_id: str = "t", ns: str = "", count: int = 4) -> Grown:
    """A thread with a growing list, an untouched value and a task write on every checkpoint."""
    grown = Grown(saver, call, thread_id, ns)
    rows: list[str] = []
    for number in range(count):
        rows = [*rows, f"line {number} " * 100]
        grown.put(
            {"rows": rows, "same": "x" * 3000},
            changed=["rows", "same"] if not number else ["rows"],
            run_id=f"r{number}",
        )
        call(saver, "put_writes", grown.config, [("rows", rows), ("n", number)], f"task {number}", "~p")
    return grown


def steps(found: Any) -> list[Any]:
    """The steps of listed checkpoints."""
    return [item.metadata["step"] for item in found]


def content(saver: Any, call: Any, thread_id: str) -> list[Any]:
    """All that can be seen of a thread, ready to be compared with another's."""
    found = call(saver, "list", config(thread_id, ns=None))
    return [
        (
            item.config["configurable"]["checkpoint_ns"],
            item.checkpoint,
            item.metadata,
            (item.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
            item.pending_writes or [],
        )
        for item in found
    ]


# -- how checks are written ------------------------------------------------------------------------------------------


def cases(name: str, values: Iterable[Any]) -> Callable[[F], F]:
    """Run a check once for each value, handed over as the argument ``name``. A dict names its cases."""
    table = dict(values) if isinstance(values, dict) else {_label(value, n): value for n, value in enumerate(values)}

    def mark(check: F) -> F:
        check.cases = (name, table)  # type: ignore[attr-defined]
        return check

    return mark


def cases_of(check: Any) -> tuple[str, dict[str, Any]] | None:
    """The argument and the values that a check is run with, or None."""
    found: tuple[str, dict[str, Any]] | None = getattr(check, "cases", None)
    return found


def _label(value: Any, number: int) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{number}"


@contextmanager
def raises(*kinds: type[BaseException], match: str = "") -> Iterator[SimpleNamespace]:
    """The block must raise one of ``kinds``, with a message in which ``match`` is found."""
    caught = SimpleNamespace(value=None)
    try:
        yield caught
    except kinds as error:
        caught.value = error
        if not re.search(match, str(error)):
            raise AssertionError(f"the error must say {match!r}, but it says: {error}") from error
        return
    raise AssertionError(f"must raise {' or '.join(kind.__name__ for kind in kinds)}, but nothing was raised")
