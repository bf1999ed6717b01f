"""A reducer channel whose checkpoints hold what is new, not the whole value (spec 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from threadmark.channels.base import MISSING, Value
from threadmark.channels.binop import concrete, overwritten
from threadmark.channels.holding import Holding
from threadmark.errors import ErrorCode, InvalidUpdateError, create_error_message
from threadmark.types import _DeltaSnapshot


class DeltaChannel(Holding[Value]):
    """Folds the writes of a superstep in with one call of ``reducer(value, [write, ...])``.

    A checkpoint holds the value only every ``snapshot_frequency`` updates; between, it is rebuilt from the task
    writes stored with the checkpoint's ancestors. The reducer must be deterministic, and
    ``reducer(reducer(s, xs), ys)`` must equal ``reducer(s, xs + ys)``.

    Args:
        reducer: ``(value, writes) -> value``.
        typ: The value's type, whose empty value it starts with; by default the annotation's.
        snapshot_frequency: Updates between two stored values, at least 1.
    """

    __slots__ = ("_fold", "reducer", "snapshot_frequency")

    def __init__(
        self, reducer: Callable[[Any, Sequence[Any]], Any], typ: Any = None, *, snapshot_frequency: int = 100
    ) -> None:
        if snapshot_frequency < 1:
            raise ValueError(f"snapshot_frequency must be at least 1, not {snapshot_frequency}")
        super().__init__(list if typ is None else concrete(typ))
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self._fold = reducer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeltaChannel) and other.reducer is self.reducer

    __hash__ = None

    def retyped(self, typ: Any) -> DeltaChannel[Value]:
        """The same specification for a field annotated with ``typ``."""
        new: DeltaChannel[Value] = self._like()
        new.typ = concrete(typ)
        return new

    def _like(self) -> Any:
        new = self.__class__(self.reducer, self.typ, snapshot_frequency=self.snapshot_frequency)
        new.key = self.key
        return new

    def _empty(self) -> Any:
        try:
            return self.typ()
        except Exception:  # a type that cannot be made without arguments starts as an empty list
            return []

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self._like()
        # A reducer may keep an index for one live channel, so that a call costs what is new.
        new._fold = getattr(self.reducer, "live", lambda: self.reducer)()
        if checkpoint is MISSING:
            new.value = self._empty()
        else:
            new.value = checkpoint.value if _is_snapshot(checkpoint) else checkpoint
        return new

    def copy(self) -> Any:
        return self.from_checkpoint(MISSING if self.value is MISSING else _DeltaSnapshot(self.value))

    def checkpoint(self) -> Any:
        return MISSING

    def snapshot(self) -> _DeltaSnapshot:
        """The whole value in the form that a checkpoint holds it."""
        return _DeltaSnapshot(self.value)

    def prepared(self, write: Any) -> Any:
        """A write as it is stored: what replaying it must find the same every time (ids of messages) is fixed."""
        if overwritten(write)[0]:
            return write
        return getattr(self.reducer, "prepare_write", _identified)(write)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        replaced = [content for value in values for is_one, content in (overwritten(value),) if is_one]
        if len(replaced) > 1:
            raise InvalidUpdateError(
                create_error_message(
                    message=f"Can receive only one Overwrite value per super-step, got more for key {self.key!r}.",
                    error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                )
            )
        if replaced:  # what else is written in a superstep with an Overwrite does not count
            self.value = self._empty() if replaced[0] is None else replaced[0]
        else:
            self.value = self._fold(self._empty() if self.value is MISSING else self.value, list(values))
        return True

    def replay_writes(self, writes: Sequence[Any]) -> None:
        """Apply stored writes, oldest first: those behind the last Overwrite on top of it, in one call.

        ``writes`` are values, or (task id, channel, value) as they are stored.
        """
        values = [write[2] if _is_stored(write) else write for write in writes]
        for place in range(len(values) - 1, -1, -1):
            is_one, content = overwritten(values[place])
            if is_one:
                self.value = self._empty() if content is None else content
                values = values[place + 1 :]
                break
        if values:
            self.value = self._fold(self._empty() if self.value is MISSING else self.value, values)


def _identified(write: Any) -> Any:
    """Chat messages without an id are given one: a reducer that made one up would do so anew at each replay."""
    if isinstance(write, list):
        return [_identified(item) for item in write] if any(map(_lacks_id, write)) else write
    return write.model_copy(update={"id": str(uuid4())}) if _lacks_id(write) else write


def _lacks_id(item: Any) -> bool:
    """Whether it is a chat message object whose id was left open; dicts stay what they are."""
    return getattr(item, "id", "") is None and hasattr(item, "content") and hasattr(item, "model_copy")


def _is_snapshot(value: Any) -> bool:
    """Ours, or one of the same name that another package's saver gave back."""
    return isinstance(value, _DeltaSnapshot) or type(value).__name__ == "_DeltaSnapshot"


def _is_stored(write: Any) -> bool:
    return isinstance(write, tuple) and len(write) == 3 and isinstance(write[0], str) and isinstance(write[1], str)


__all__ = ["DeltaChannel"]
