"""How much of a thread's history is to be kept: a policy, given to a saver or to one call of ``prune``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

__all__ = ["Age", "Retention"]

Age: TypeAlias = timedelta | datetime | float
"""How old is too old: an age (seconds when it is a number), or the moment before which all is old."""


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
        if self.older_than is not None and not self.age >= timedelta(0):
            raise ValueError(f"older_than must not be negative, but it is {self.older_than}")
        if isinstance(self.namespaces, str):
            raise TypeError(f"namespaces must be several, not one text; write namespaces=({self.namespaces!r},)")

    @property
    def age(self) -> timedelta:
        """``older_than`` as a ``timedelta``; zero without one."""
        older = self.older_than
        return older if isinstance(older, timedelta) else timedelta(seconds=older or 0)
