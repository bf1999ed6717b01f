"""Long lists of plain values as pieces of a few dozen kilobytes: what did not change is not held twice.

A list of a thousand messages that gets one more is packed piece by piece, into memory that is still warm, and each
piece that equals the one before is let go at once. Joined, the pieces are what the serializer would have made of the
list. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

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
_body_of: Final = itemgetter(0)
_count_of: Final = itemgetter(1)
Pack: TypeAlias = Callable[[list[Any]], bytes | None]
"""The msgpack of a list; None when there is anything in it that is no plain value, but for what ``Proof`` finds."""
Proof: TypeAlias = Callable[[list[Any], bytes], bool | None]
"""None when there is something in a list that its msgpack does not tell; True when nothing such can be in any list that
has this msgpack."""
Part: TypeAlias = bytes | memoryview


class Run(NamedTuple):
    """Some items of a list."""

    body: Part
    items: int
    proven: bool
    """Whether the bytes tell all about the items, see ``Proof``."""
    array: Part | None
    """The msgpack array that the body is cut out of, if it has these items and no others."""


class LongList(Pieces):
    """A msgpack array of plain values: behind its head, the bodies of runs."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        super().__init__((bytes((MSGPACK,)) + _head(self.count), *map(_body_of, runs)))

    @property
    def count(self) -> int:
        """How many items it has."""
        return sum(map(_count_of, self.runs))


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
    view = memoryview(plain)
    return LongList((Run(view[start:], count, False, view[1:]),))


def unpacked(plain: LongList, unpack: Callable[[Part], Any]) -> list[Any]:
    """The items."""
    found: list[Any] = []
    for body, count, _, array in plain.runs:
        # A head and a copy of the body would take a tenth of reading them.
        found += unpack(array if array is not None else b"".join((_head(count), body)))
    return found


def lengthened(old: LongList, items: Any, pack: Pack, proof: Proof) -> LongList | None:
    """A list that begins with what ``old`` holds, without packing that again; None if it cannot be made so."""
    known = old.count
    if type(items) is not list or not known <= len(items) < _MOST:
        return None
    if len(items) == known:
        return old
    more = items[known:]
    packed = pack(more)
    proven = None if packed is None else proof(more, packed)
    if packed is None or proven is None:
        return None
    return LongList((*old.runs, _run(packed, len(more), proven)))


class _Looking:
    """Goes through a list's runs beside a packing of its items, and says how many items to pack next."""

    def __init__(self, old: LongList) -> None:
        self._left = list(old.runs[::-1])
        self._each = max(1, LONG * old.count // max(1, len(old)))

    def next(self) -> int:
        """The number of items of the next run: as many as the old one has, if that is neither small nor huge."""
        if self._left:
            body, count, _, _ = self._left[-1]
            if _SMALL <= len(body) <= 2 * LONG:
                return count
            if len(body) > LONG and count > self._each:
                return self._each
        self._left.clear()
        return self._each

    def same(self, packed: bytes, count: int) -> Run | None:
        """The old run, if this is its msgpack and tells all about its items."""
        if not self._left:
            return None
        body, most, proven, _ = run = self._left[-1]
        if not proven or count != most or len(packed) != len(body) + _head_size(count) or not packed.endswith(body):
            return None
        self._left.pop()
        return run

    def found(self, packed: bytes, count: int, *, proven: bool) -> Run:
        """The old run where it has the same bytes, else a new one."""
        new = _run(packed, count, proven)
        if not self._left:
            return new
        old = self._left.pop()
        size, most = len(new.body), old.items
        if count == most:
            is_same = len(old.body) == size and packed.endswith(old.body)
            return old._replace(proven=proven) if is_same else new
        view = memoryview(old.body)
        start, rest = view[:size], view[size:]
        if len(start) == size and packed.endswith(start):
            self._left.append(Run(rest, most - count, old.proven, None))
            return Run(start, count, proven, None)
        self._left.clear()  # where the old run would go on, its bytes do not say
        return new


def repacked(old: LongList, items: Any, pack: Pack, proof: Proof) -> LongList | None:
    """A list, with the runs of ``old`` in it wherever they are the same; None if it cannot be made so."""
    if type(items) is not list or not items or len(items) >= _MOST:
        return None
    looking = _Looking(old)
    runs, at = list[Run](), 0
    while at < len(items):
        some = items[at : at + looking.next()]
        packed, count = pack(some), len(some)
        if packed is None:
            return None
        run = looking.same(packed, count)
        if run is None:
            proven = proof(some, packed)
            if proven is None:
                return None
            run = looking.found(packed, count, proven=proven)
        runs.append(run)
        at += count
    return LongList(runs)


def _run(packed: bytes, count: int, proven: bool) -> Run:
    return Run(memoryview(packed)[_head_size(count) :], count, proven, packed)


def _head_size(count: int) -> int:
    return 1 if count < 16 else 3 if count < 1 << 16 else 5


def _head(count: int) -> bytes:
    """The msgpack head of an array."""
    if 15 < count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")


def _array(plain: bytes) -> tuple[int, int]:
    """How many items a long list has and where the first one starts."""
    size = _SIZES.get(plain[1])
    return (plain[1] & 0x0F, 2) if size is None else (int.from_bytes(plain[2 : 2 + size], "big"), 2 + size)
