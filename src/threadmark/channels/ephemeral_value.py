"""A channel whose value lives for one superstep: triggers and input (spec 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.channels.base import MISSING, Value
from threadmark.channels.holding import Holding


class EphemeralValue(Holding[Value]):
    """Holds the value written in the superstep before; with ``guard`` two writes in one superstep are an error."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EphemeralValue) and other.guard == self.guard

    __hash__ = None

    def _like(self) -> Any:
        if type(self) is EphemeralValue:  # two for each node: without three constructors they take a third
            new = EphemeralValue.__new__(EphemeralValue)
            new.typ, new.key, new.guard, new.value = self.typ, self.key, self.guard, MISSING
            return new
        made = self.__class__(self.typ, self.guard)
        made.key = self.key
        return made

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            if self.value is MISSING:
                return False
            self.value = MISSING
            return True
        if self.guard:
            self._refuse_several(values)
        self.value = values[-1]
        return True


__all__ = ["EphemeralValue"]
