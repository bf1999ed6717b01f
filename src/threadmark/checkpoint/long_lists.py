"""Long lists of plain values as pieces of a few dozen kilobytes: what did not change is not held twice.

A list of a thousand messages that gets one more is packed piece by piece, into memory that is still warm, and each
piece that equals the one before is let go at once. Joined, the pieces are what the serializer would have made of the
list. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

from threadmark.checkpoint.layout import Pieces, Plain
from threadmark.checkpoint.plain import MSGPACK

__all__ = ["LONG", "LongList", "is_long", "items_of", "lengthened", "repacked", "unpacked"]

LONG: Final = 1 << 16
"""A value of so many bytes is long, and so is a piece."""
_SMALL: Final = LONG // 2
_MOST: Final = 1 << 32
_SIZES: Final = {0xDC: 2, 0xDD: 4}
"""Heads of longer arrays, each with how many bytes of length follow."""
_HEADS: Final = frozenset((*range(0x91, 0xA0), *_SIZES))
Pack: TypeAlias = Callable[[list[Any]], bytes | None]
"""The msgpack of a list; None when there is anything in it that is no plain value."""
Part: TypeAlias = bytes | memoryview


class LongList(Pieces):
    """A msgpack array of plain values: behind its head, items in runs. ``counts`` are those of the runs."""

    __slots__ = ("counts",)

    def __init__(self, runs: Sequence[Part], counts: Sequence[int]) -> None:
        super().__init__((bytes((MSGPACK,)) + _head(sum(counts)), *runs))
        self.counts = tuple(counts)

    @property
    def runs(self) -> tuple[Part, ...]:
        """The items' bytes."""
        return self.parts[1:]


def is_long(plain: bytes) -> bool:
    """Whether ``items_of`` makes a long list of these bytes."""
    return len(plain) >= LONG and plain[0] == MSGPACK and plain[1] in _HEADS


def items_of(plain: Plain) -> LongList | None:
    """A value as a long list; None if it is none. Of bytes it is not known whether its items are plain values."""
    if isinstance(plain, LongList):
        return plain
    if type(plain) is not bytes or not is_long(plain):
        return None
    count, start = _array(plain)
    return LongList((memoryview(plain)[start:],), (count,))


def unpacked(plain: LongList, unpack: Callable[[bytes], Any]) -> list[Any]:
    """The items."""
    found: list[Any] = []
    for run, count in zip(plain.runs, plain.counts, strict=True):
        found += unpack(b"".join((_head(count), run)))
    return found


def lengthened(old: LongList, items: Any, pack: Pack) -> LongList | None:
    """A list that begins with what ``old`` holds, without packing that again; None if it cannot be made so."""
    known = sum(old.counts)
    if type(items) is not list or not known <= len(items) < _MOST:
        return None
    if len(items) == known:
        return old
    body = _packed(items[known:], pack)
    return None if body is None else LongList((*old.runs, body), (*old.counts, len(items) - known))


class _Looking:
    """Goes through a list's runs beside a packing of its items, and says how many items to pack next."""

    def __init__(self, old: LongList) -> None:
        self._left = list(zip(old.runs, old.counts, strict=True))[::-1]
        self._each = max(1, LONG * sum(old.counts) // max(1, len(old)))

    def next(self) -> int:
        """The number of items of the next run: as many as the old one has, if that is neither small nor huge."""
        if self._left:
            run, count = self._left[-1]
            if _SMALL <= len(run) <= 2 * LONG:
                return count
            if len(run) > LONG and count > self._each:
                return self._each
        self._left.clear()
        return self._each

    def found(self, body: memoryview, count: int) -> Part:
        """The old run where it equals the new one, else the new one."""
        if not self._left:
            return body
        run, most = self._left.pop()
        packed = cast("bytes", body.obj)
        if count == most:
            return run if len(run) == len(body) and packed.endswith(run) else body
        view = memoryview(run)
        start, rest = view[: len(body)], view[len(body) :]
        if len(start) == len(body) and packed.endswith(start):
            self._left.append((rest, most - count))
            return start
        self._left.clear()  # where the old run would go on, its bytes do not say
        return body


def repacked(old: LongList, items: Any, pack: Pack) -> LongList | None:
    """A list, with the runs of ``old`` in it wherever they are the same; None if it cannot be made so."""
    if type(items) is not list or not items or len(items) >= _MOST:
        return None
    looking = _Looking(old)
    runs, counts, at = list[Part](), list[int](), 0
    while at < len(items):
        some = items[at : at + looking.next()]
        body = _packed(some, pack)
        if body is None:
            return None
        runs.append(looking.found(body, len(some)))
        counts.append(len(some))
        at += len(some)
    return LongList(runs, counts)


def _packed(items: list[Any], pack: Pack) -> memoryview | None:
    """The bytes of items without the head of their list."""
    packed = pack(items)
    return None if packed is None else memoryview(packed)[len(_head(len(items))) :]


def _head(count: int) -> bytes:
    """The msgpack head of an array."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _array(plain: bytes) -> tuple[int, int]:
    """How many items a long list has and where the first one starts."""
    size = _SIZES.get(plain[1])
    return (plain[1] & 0x0F, 2) if size is None else (int.from_bytes(plain[2 : 2 + size], "big"), 2 + size)
