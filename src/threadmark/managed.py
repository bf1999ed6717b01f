"""Values that the runtime computes for a node and that are never stored (spec 2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from inspect import isclass
from typing import Annotated, Any, Generic, TypeVar

V = TypeVar("V")


class ManagedValue(ABC, Generic[V]):
    """A key of the state that is computed when a node's input is read."""

    @staticmethod
    @abstractmethod
    def get(step: int, stop: int) -> V:
        """The value for a task of superstep ``step`` in a run whose limit is ``stop``."""


class IsLastStepManager(ManagedValue[bool]):
    """Whether the run may not go on behind this superstep."""

    @staticmethod
    def get(step: int, stop: int) -> bool:
        return step == stop - 1


class RemainingStepsManager(ManagedValue[int]):
    """Supersteps left to the run, this one included."""

    @staticmethod
    def get(step: int, stop: int) -> int:
        return stop - step


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]


def is_managed(value: Any) -> bool:
    """Whether an annotation's metadata names a managed value."""
    return isclass(value) and issubclass(value, ManagedValue)


__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]
