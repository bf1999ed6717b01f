"""A serializer that shows stored values as plain data, and tells how many bytes each of them takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from threadmark.checkpoint.serde.view import ViewSerializer

_SHARED: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Classes of values that a saver may load once and show in several checkpoints, since nobody can change them."""


class Meter:
    """Loads values for viewing: no class is imported, nothing is unpickled. It writes none."""

    def __init__(self) -> None:
        self._view = ViewSerializer()
        self._loaded: list[tuple[Any, int]] = []
        self._shared: dict[tuple[type, int], int] = {}
        """Weights of values of those classes, by hash: none of them is held on to."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Refused."""
        return self._view.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value as plain data."""
        value = self._view.loads_typed(data)
        if type(value) in _SHARED:
            self._shared[type(value), hash(value)] = len(data[1])
        else:
            self._loaded.append((value, len(data[1])))
        return value

    def weigh(self, values: Iterable[Any]) -> int:
        """Bytes that these values took when they were loaded. Lists and the like are then forgotten."""
        # The list holds on to each value, so that an identity names one value only.
        weights = {id(value): weight for value, weight in self._loaded}
        total = 0
        for value in values:
            kind = type(value)
            total += self._shared.get((kind, hash(value)), 0) if kind in _SHARED else weights.get(id(value), 0)
        self.forget()
        return total

    def forget(self) -> None:
        """Let go of the lists and the like that were loaded until now."""
        self._loaded.clear()
