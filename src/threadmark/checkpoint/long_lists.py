"""Long lists of plain values as pieces of a few dozen kilobytes: what did not change is not held twice.

A list of a thousand messages that gets one more is packed piece by piece, into memory that is still warm, and each
piece that equals the one before is let go at once. Joined, the pieces are what the serializer would have made of the
list. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

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
"""The msgpack of a list; None when there is anything in it that is no plain value, but for what ``Proof`` finds."""
Proof: TypeAlias = Callable[[list[Any], bytes], bool | None]
"""None when there is something in a list that its msgpack does not tell; True when nothing such can be in any list that
has this msgpack."""
Part: TypeAlias = bytes | memoryview


class LongList(Pieces):
    """A msgpack array of plain values: behind its head, items in runs.

    ``counts`` are those of the runs. ``proven`` tells which runs tell all about their items, see ``Proof``.
    """

    __slots__ = ("counts", "proven")

    def __init__(self, runs: Sequence[Part], counts: Sequence[int], proven: Sequence[bool]) -> None:
        super().__init__((bytes((MSGPACK,)) + _head(sum(counts)), *runs))
        self.counts, self.proven = tuple(counts), tuple(proven)

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
    return LongList((memoryview(plain)[start:],), (count,), (False,))


def unpacked(plain: LongList, unpack: Callable[[Part], Any]) -> list[Any]:
    """The items."""
    found: list[Any] = []
    for run, count in zip(plain.runs, plain.counts, strict=True):
        head = _head(count)
        whole: Any = run.obj if type(run) is memoryview else None
        # To put the head and a copy of the run together would take a tenth of reading it. What it was cut out of is an
        # array with one head: where that is the same, the run is all that stands behind it.
        tag = len(whole) - len(head) - len(run) if type(whole) is bytes else -1
        if tag == 0 and whole.startswith(head):
            found += unpack(whole)
        elif tag == 1 and whole[0] == MSGPACK and whole.startswith(head, 1):
            found += unpack(memoryview(whole)[1:])
        else:
            found += unpack(b"".join((head, run)))
    return found


def lengthened(old: LongList, items: Any, pack: Pack, proof: Proof) -> LongList | None:
    """A list that begins with what ``old`` holds, without packing that again; None if it cannot be made so."""
    known = sum(old.counts)
    if type(items) is not list or not known <= len(items) < _MOST:
        return None
    if len(items) == known:
        return old
    more = items[known:]
    packed = pack(more)
    proven = None if packed is None else proof(more, packed)
    if packed is None or proven is None:
        return None
    return LongList((*old.runs, _body(packed, len(more))), (*old.counts, len(more)), (*old.proven, proven))


class _Looking:
    """Goes through a list's runs beside a packing of its items, and says how many items to pack next."""

    def __init__(self, old: LongList) -> None:
        self._left = list(zip(old.runs, old.counts, old.proven, strict=True))[::-1]
        self._each = max(1, LONG * sum(old.counts) // max(1, len(old)))

    def next(self) -> int:
        """The number of items of the next run: as many as the old one has, if that is neither small nor huge."""
        if self._left:
            run, count, _ = self._left[-1]
            if _SMALL <= len(run) <= 2 * LONG:
                return count
            if len(run) > LONG and count > self._each:
                return self._each
        self._left.clear()
        return self._each

    def same(self, packed: bytes, count: int) -> Part | None:
        """The old run, if this is its msgpack and tells all about its items."""
        if not self._left:
            return None
        run, most, proven = self._left[-1]
        if not proven or count != most or len(packed) != len(run) + _head_size(count) or not packed.endswith(run):
            return None
        self._left.pop()
        return run

    def found(self, packed: bytes, count: int) -> Part:
        """The old run where it equals the new one, else the new one."""
        body = _body(packed, count)
        if not self._left:
            return body
        run, most, proven = self._left.pop()
        if count == most:
            return run if len(run) == len(body) and packed.endswith(run) else body
        view = memoryview(run)
        start, rest = view[: len(body)], view[len(body) :]
        if len(start) == len(body) and packed.endswith(start):
            self._left.append((rest, most - count, proven))
            return start
        self._left.clear()  # where the old run would go on, its bytes do not say
        return body


def repacked(old: LongList, items: Any, pack: Pack, proof: Proof) -> LongList | None:
    """A list, with the runs of ``old`` in it wherever they are the same; None if it cannot be made so."""
    if type(items) is not list or not items or len(items) >= _MOST:
        return None
    looking = _Looking(old)
    runs, counts, proofs, at = list[Part](), list[int](), list[bool](), 0
    while at < len(items):
        some = items[at : at + looking.next()]
        packed, count = pack(some), len(some)
        if packed is None:
            return None
        run, proven = looking.same(packed, count), True
        if run is None:
            shown = proof(some, packed)
            if shown is None:
                return None
            run, proven = looking.found(packed, count), shown
        runs.append(run)
        counts.append(count)
        proofs.append(proven)
        at += count
    return LongList(runs, counts, proofs)


def _body(packed: bytes, count: int) -> memoryview:
    """The items of an array without its head."""
    return memoryview(packed)[_head_size(count) :]


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
