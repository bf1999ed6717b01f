"""What a channel is: one value of the state, and the rule by which writes change it (spec 2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from threadmark.errors import EmptyChannelError

Value = TypeVar("Value")
Update = TypeVar("Update")
Stored = TypeVar("Stored")
Self = TypeVar("Self", bound="BaseChannel[Any, Any, Any]")


class _Missing:
    """The type of ``MISSING``; there is one such object in a process, copies and pickles included."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""No value: not the same as None, which is a value."""


class BaseChannel(ABC, Generic[Value, Update, Stored]):
    """One value of the state with its update rule.

    A channel in a schema is a specification; ``from_checkpoint`` makes a live one out of it. Channels know values
    and nothing about versions, checkpoints or storage.
    """

    __slots__ = ("key", "typ")

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    @property
    @abstractmethod
    def ValueType(self) -> Any:
        """The type of the value, for schemas."""

    @property
    @abstractmethod
    def UpdateType(self) -> Any:
        """The type of one write, for schemas."""

    @abstractmethod
    def from_checkpoint(self: Self, checkpoint: Stored | Any) -> Self:
        """A live channel with the stored value; an empty one for ``MISSING``."""

    @abstractmethod
    def get(self) -> Value:
        """The value; ``EmptyChannelError`` when there is none."""

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Take the writes of one superstep, none included; whether the value changed.

        Raises ``InvalidUpdateError`` for writes that the channel cannot take.
        """

    def peek(self) -> Value | Any:
        """The value, or ``MISSING`` when there is none."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def checkpoint(self) -> Stored | Any:
        """What to store; ``MISSING`` when there is nothing to store."""
        return self.peek()

    def is_available(self) -> bool:
        """Whether there is a value to read."""
        return self.peek() is not MISSING

    def copy(self: Self) -> Self:
        """Another live channel with the same value."""
        return self.from_checkpoint(self.checkpoint())

    def consume(self) -> bool:
        """A task that this channel triggered is about to count as run; whether that changed the value."""
        return False

    def finish(self) -> bool:
        """Nothing else is left to run; whether that changed the value."""
        return False

    def _like(self: Self) -> Self:
        """A new channel of the same kind, type and key, without a value."""
        new = self.__class__(self.typ)
        new.key = self.key
        return new


def with_finish(checkpoint: Any) -> tuple[Any, bool | None]:
    """What is stored of a channel, and whether the end of a run has come, for which some kinds wait.

    None where another kind has stored it: a node may have become a deferred one, or one that no longer is, since then.
    """
    is_pair = isinstance(checkpoint, (tuple, list)) and len(checkpoint) == 2 and type(checkpoint[1]) is bool
    return (checkpoint[0], checkpoint[1]) if is_pair else (checkpoint, None)


__all__ = ["MISSING", "BaseChannel", "with_finish"]
