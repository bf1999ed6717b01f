"""A channel that is never stored (spec 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.channels.base import MISSING, Value
from threadmark.channels.holding import Holding


class UntrackedValue(Holding[Value]):
    """Holds the last value for the rest of the run and leaves no trace in checkpoints or pending writes."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntrackedValue) and other.guard == self.guard

    __hash__ = None

    def _like(self) -> Any:
        new = self.__class__(self.typ, self.guard)
        new.key = self.key
        return new

    def checkpoint(self) -> Any:
        return MISSING

    def from_checkpoint(self, checkpoint: Any) -> Any:
        return self._like()

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        if self.guard:
            self._refuse_several(values)
        self.value = values[-1]
        return True


__all__ = ["UntrackedValue"]
