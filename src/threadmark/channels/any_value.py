"""A channel that assumes all writes of a superstep are equal (spec 2.2)."""

from __future__ import annotations

from collections.abc import Sequence

from threadmark.channels.base import MISSING, Value
from threadmark.channels.holding import Holding


class AnyValue(Holding[Value]):
    """Holds the last of the writes of a superstep; cleared by a superstep without one."""

    __slots__ = ()

    def update(self, values: Sequence[Value]) -> bool:
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True


__all__ = ["AnyValue"]
