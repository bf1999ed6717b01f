"""The base of the channels that are one value (spec 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from threadmark.channels.base import MISSING, BaseChannel, Value
from threadmark.errors import EmptyChannelError, ErrorCode, InvalidUpdateError, create_error_message


class Holding(BaseChannel[Value, Value, Value], Generic[Value]):
    """What most kinds share: one attribute that is the value, stored as it is."""

    __slots__ = ("value",)

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Any = MISSING

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None  # type: ignore[assignment]

    @property
    def ValueType(self) -> Any:
        return self.typ

    @property
    def UpdateType(self) -> Any:
        return self.typ

    def from_checkpoint(self, checkpoint: Any) -> Any:
        new = self._like()
        if checkpoint is not MISSING:  # else it starts as the kind does
            new.value = checkpoint
        return new

    def copy(self) -> Any:
        new = self._like()
        new.value = self.value
        return new

    def get(self) -> Value:
        if self.value is MISSING:
            raise EmptyChannelError(f"channel {self.key!r} has no value yet")
        return self.value  # type: ignore[no-any-return]

    def peek(self) -> Any:
        return self.value

    def checkpoint(self) -> Any:
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def _refuse_several(self, values: Sequence[Any]) -> None:
        if len(values) > 1:
            raise InvalidUpdateError(
                create_error_message(
                    message=(
                        f"At key '{self.key}': can receive only one value per step, got {len(values)}. "
                        f"Use Annotated[..., reducer] for a key that several nodes write in one step."
                    ),
                    error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                )
            )


__all__ = ["Holding"]
