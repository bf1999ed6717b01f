"""How much of a thread's history is kept, and what a prune has to say of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

__all__ = ["Age", "PruneReport", "PrunedThread", "Retention"]

Age: TypeAlias = timedelta | datetime | float
"""How old is too old: an age, in seconds when it is a number, or the moment before which all is too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What stays of a thread. What it says nothing about stays too; the newest checkpoint always does.

    Args:
        keep_last: So many of the newest checkpoints of each namespace stay, at least 1.
        older_than: Checkpoints that are younger stay: a ``timedelta`` or seconds. With ``keep_last`` as well, only
            those go that are both beyond the last N and older.
        namespaces: The namespaces that it is about, ``""`` for the graph itself; None for all of them. What tasks of
            removed checkpoints left in namespaces of their own goes with them.

    Raises:
        TypeError: An argument of another kind.
        ValueError: It would remove nothing, or the newest checkpoint too.
    """

    keep_last: int | None = None
    older_than: timedelta | float | None = None
    namespaces: Collection[str] | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.older_than is None:
            raise ValueError("say what to keep: keep_last=N, older_than=..., or both")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise ValueError(f"keep_last must be a whole number of at least 1, not {self.keep_last!r}")
        if self.older_than is not None:
            checked_age(self.older_than)
        if isinstance(self.namespaces, str):
            raise TypeError(f"namespaces must be several, not one text; write namespaces=({self.namespaces!r},)")

    def cutoff(self, now: datetime) -> float | None:
        """What was made before is too old, in seconds since 1970; None when age does not count."""
        return None if self.older_than is None else now.timestamp() - checked_age(self.older_than)


def checked_age(age: Any) -> float:
    """An age in seconds. TypeError when it is none, ValueError when it is negative."""
    if isinstance(age, bool) or not isinstance(age, (timedelta, int, float)):
        raise TypeError(f"older_than must be a timedelta or seconds, not {age!r}")
    seconds = age.total_seconds() if isinstance(age, timedelta) else float(age)
    if not seconds >= 0:
        raise ValueError(f"older_than must not be negative, but it is {age}")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedThread:
    """What a prune removed of one thread, or would remove. Rows, and their bytes as they were stored.

    ``kept`` checkpoints are seen as before. ``hidden`` ones stay for delta channels of kept ones, which are rebuilt
    through them; nobody sees them.
    """

    thread_id: str
    kept: int = 0
    hidden: int = 0
    checkpoints: int = 0
    tasks: int = 0
    values: int = 0
    segments: int = 0
    bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune did, thread by thread in the order given. With ``dry_run`` nothing was changed."""

    threads: tuple[PrunedThread, ...]
    dry_run: bool = False

    def total(self, what: str) -> int:
        """The sum over all threads of one of the numbers, such as ``"bytes"``."""
        return sum(int(getattr(thread, what)) for thread in self.threads)

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, for JSON."""
        return {"dry_run": self.dry_run, "threads": [thread.to_dict() for thread in self.threads]}
