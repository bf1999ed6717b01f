"""Serializers that show what a saver does with bytes: opaque, counted, or failing at a given call."""

from __future__ import annotations

from typing import Any, Final

PAYLOADS: Final = ("own", "hex")
"""The saver's own serializer, and the same with everything spelled out in hexadecimal."""
_MARK = "hex of "


class HexSerializer:
    """Writes what another serializer makes as hexadecimal text: bytes in which a saver can recognise nothing."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The inner serializer's bytes, spelled out."""
        tag, data = self.inner.dumps_typed(obj)
        return _MARK + tag, bytes(data).hex().encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value; ValueError for bytes that this serializer did not write."""
        tag, text = data
        if not tag.startswith(_MARK):
            raise ValueError(f"these bytes did not come from dumps_typed: their tag is {tag!r}")
        return self.inner.loads_typed((tag.removeprefix(_MARK), bytes.fromhex(bytes(text).decode())))


class CountingSerializer:
    """Counts the values that are read."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.loaded = 0

    def dumps_typed(self, obj: Any) -> Any:
        """As the inner one."""
        return self.inner.dumps_typed(obj)

    def loads_typed(self, data: Any) -> Any:
        """As the inner one, counted."""
        self.loaded += 1
        return self.inner.loads_typed(data)


class FailingSerializer:
    """Fails at its ``fails_at``-th write, counted from 1; 0 for never."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.fails_at = 0
        self.written = 0

    def dumps_typed(self, obj: Any) -> Any:
        """As the inner one, or ``Died``."""
        self.written += 1
        if self.written == self.fails_at:
            raise Died("the serializer fails here, on purpose")
        return self.inner.dumps_typed(obj)

    def loads_typed(self, data: Any) -> Any:
        """As the inner one."""
        return self.inner.loads_typed(data)


class Died(Exception):
    """Stands for the death of a process at this point."""
