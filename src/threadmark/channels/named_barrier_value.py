"""Channels that wait for several writers: the join of ``add_edge([...], node)`` (spec 2.2, 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from threadmark.channels.base import MISSING, BaseChannel, Value, with_finish
from threadmark.errors import EmptyChannelError, InvalidUpdateError


class NamedBarrierValue(BaseChannel[None, Value, set[Value]], Generic[Value]):
    """Available, with the value None, once each of ``names`` was written since the last consumption."""

    __slots__ = ("names", "seen")

    def __init__(self, typ: Any, names: set[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen: set[Value] = set()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.names == self.names

    __hash__ = None  # type: ignore[assignment]

    @property
    def ValueType(self) -> Any:
        return self.typ

    @property
    def UpdateType(self) -> Any:
        return self.typ

    def _like(self) -> Any:
        new = self.__class__(self.typ, self.names)
        new.key = self.key
        return new

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self._like()
        if checkpoint is not MISSING:
            seen, _ = with_finish(checkpoint)
            new.seen = set(seen)
        return new

    def checkpoint(self) -> Any:
        return set(self.seen)

    def update(self, values: Sequence[Value]) -> bool:
        updated = False
        for value in values:
            if value not in self.names:
                raise InvalidUpdateError(f"At key '{self.key}': {value!r} is not one of {sorted(map(str, self.names))}")
            if value not in self.seen:
                self.seen.add(value)
                updated = True
        return updated

    def get(self) -> None:
        if not self.is_available():
            raise EmptyChannelError(f"channel {self.key!r} still waits for {sorted(map(str, self.names - self.seen))}")

    def peek(self) -> Any:
        return None if self.is_available() else MISSING

    def is_available(self) -> bool:
        return self.seen == self.names

    def consume(self) -> bool:
        if self.seen != self.names:
            return False
        self.seen = set()
        return True


class NamedBarrierValueAfterFinish(NamedBarrierValue[Value]):
    """The same, shown only once nothing else is left to run: the join before a deferred node."""

    __slots__ = ("finished",)

    def __init__(self, typ: Any, names: set[Value]) -> None:
        super().__init__(typ, names)
        self.finished = False

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self._like()
        if checkpoint is not MISSING:
            seen, finished = with_finish(checkpoint)
            new.seen = set(seen)
            new.finished = new.seen == new.names if finished is None else finished
        return new

    def checkpoint(self) -> Any:
        return (set(self.seen), self.finished)

    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.finished = False
        self.seen = set()
        return True

    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True


__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish"]
