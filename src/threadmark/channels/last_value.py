"""Channels that hold the last value written (spec 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.channels.base import MISSING, Value, with_finish
from threadmark.channels.holding import Holding
from threadmark.errors import EmptyChannelError


class LastValue(Holding[Value]):
    """Holds the last value written; two writes in one superstep are an error."""

    __slots__ = ()

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        if len(values) > 1:
            self._refuse_several(values)
        self.value = values[-1]
        return True


class LastValueAfterFinish(Holding[Value]):
    """Holds the last value, shown only once nothing else is left to run: the trigger of a deferred node."""

    __slots__ = ("finished",)

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.finished = False

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self._like()
        if checkpoint is not MISSING:
            new.value, finished = with_finish(checkpoint)
            new.finished = finished is not False  # the node was due at once when it was not deferred yet
        return new

    def copy(self) -> Any:
        new = self._like()
        new.value, new.finished = self.value, self.finished
        return new

    def checkpoint(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        self.finished = False
        self.value = values[-1]
        return True

    def consume(self) -> bool:
        if not self.finished:
            return False
        self.finished = False
        self.value = MISSING
        return True

    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True

    def get(self) -> Value:
        if not self.is_available():
            raise EmptyChannelError(f"channel {self.key!r} has no value yet")
        return self.value  # type: ignore[no-any-return]

    def peek(self) -> Any:
        return self.value if self.finished else MISSING

    def is_available(self) -> bool:
        return self.finished and self.value is not MISSING


__all__ = ["LastValue", "LastValueAfterFinish"]
