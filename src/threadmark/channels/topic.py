"""A channel that gathers values of a superstep, or of all of them (spec 2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.errors import EmptyChannelError


def _flatten(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


class Topic(BaseChannel[Sequence[Value], Value | list[Value], list[Value]], Generic[Value]):
    """A list of the values written in the last superstep; with ``accumulate``, in all of them.

    A list that is written is taken apart one level.
    """

    __slots__ = ("accumulate", "values")

    def __init__(self, typ: Any, accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values: list[Value] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and other.accumulate == self.accumulate

    __hash__ = None  # type: ignore[assignment]

    @property
    def ValueType(self) -> Any:
        return Sequence[self.typ]  # type: ignore[name-defined]

    @property
    def UpdateType(self) -> Any:
        return self.typ | list[self.typ]  # type: ignore[name-defined]

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self.__class__(self.typ, self.accumulate)
        new.key = self.key
        if checkpoint is not MISSING:
            # Older stores hold a pair (seen values, values).
            new.values = list(checkpoint[1] if isinstance(checkpoint, tuple) else checkpoint)
        return new

    def copy(self) -> Any:
        return self.from_checkpoint(self.values)

    def checkpoint(self) -> Any:
        return list(self.values)

    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        updated = False
        if not self.accumulate:
            updated = bool(self.values)
            self.values = []
        if flat := list(_flatten(values)):
            updated = True
            self.values.extend(flat)
        return updated

    def get(self) -> Sequence[Value]:
        if not self.values:
            raise EmptyChannelError(f"channel {self.key!r} has no values")
        return list(self.values)

    def peek(self) -> Any:
        return list(self.values) if self.values else MISSING

    def is_available(self) -> bool:
        return bool(self.values)


__all__ = ["Topic"]
