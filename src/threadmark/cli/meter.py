"""A serializer that shows stored values as plain data, and tells how many bytes each of them takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from threadmark.checkpoint.serde.view import ViewSerializer


class Meter:
    """Loads values for viewing: no class is imported, nothing is unpickled. It writes none."""

    def __init__(self) -> None:
        self._view = ViewSerializer()
        self._loaded: list[tuple[Any, int]] = []

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Refused."""
        return self._view.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value as plain data."""
        value = self._view.loads_typed(data)
        self._loaded.append((value, len(data[1])))
        return value

    def weigh(self, values: Iterable[Any]) -> int:
        """Bytes that these values took when they were loaded. What was loaded until now is then forgotten."""
        # The list holds on to each value, so that an identity names one value only.
        weights = {id(value): weight for value, weight in self._loaded}
        total = sum(weights.get(id(value), 0) for value in values)
        self.forget()
        return total

    def forget(self) -> None:
        """Let go of what was loaded until now."""
        self._loaded.clear()
