"""Names that stand in stored data, and the shapes that people import from here (spec 1.7, 8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from threadmark.types import _DeltaSnapshot

__all__ = ["ERROR", "INTERRUPT", "RESUME", "SCHEDULED", "TASKS", "ChannelProtocol", "SendProtocol", "_DeltaSnapshot"]

ERROR = "__error__"
SCHEDULED = "__scheduled__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
TASKS = "__pregel_tasks"

Value = TypeVar("Value", covariant=True)
Update = TypeVar("Update", contravariant=True)
Stored = TypeVar("Stored")


class ChannelProtocol(Protocol[Value, Update, Stored]):
    """What the engine asks of a channel (spec 2.2)."""

    @property
    def ValueType(self) -> Any: ...

    @property
    def UpdateType(self) -> Any: ...

    def checkpoint(self) -> Stored | None: ...

    def from_checkpoint(self, checkpoint: Stored | None) -> Any: ...

    def update(self, values: Sequence[Update]) -> bool: ...

    def get(self) -> Value: ...

    def consume(self) -> bool: ...


@runtime_checkable
class SendProtocol(Protocol):
    """A task for a node with an input of its own."""

    node: str
    arg: Any
