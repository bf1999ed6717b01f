"""A program: a value's bytes as copies of segments and literal bytes
(docs/explanation/storage-layout.md).

Programs and frames are values that nobody changes, and not frozen for the reason that is told in ``rows.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from struct import Struct
from typing import Final, NoReturn, TypeAlias

from threadmark.checkpoint.layout.codec import KEY_SIZE
from threadmark.errors import DamagedRow

__all__ = [
    "MAX_VALUE",
    "Extent",
    "Frame",
    "Program",
    "key_of",
    "length_of",
    "offset_of",
    "pack_program",
    "parse_program",
    "put_varint",
    "take_varint",
    "varint",
]

MAX_VALUE: Final = 1 << 31
"""No value is longer (2 GiB)."""

Extent: TypeAlias = "tuple[bytes | None, int, int]"
"""(segment key, offset in it, length), or (None, 0, length) for literal bytes."""

_LITERAL, _NEXT, _AGAIN, _NEXT_START = 0, 1, 2, 3
key_of: Final = itemgetter(0)
offset_of: Final = itemgetter(1)
length_of: Final = itemgetter(2)
_KEYS: Final = Struct(f"{KEY_SIZE}s")


@dataclass(slots=True)
class Frame:
    """An earlier program, against which rows are stored as patches.

    ``keys`` names one segment, the program itself (``root``); or two, that and a *step*: a patch that makes
    ``plain``, a later program, of it. ``excess`` is the writer's note of what steps have cost too much.
    """

    keys: tuple[bytes, ...]
    root: bytes
    plain: bytes
    excess: int = 0


@dataclass(slots=True)
class Program:
    """What a value row says, before any segment is there.

    ``extents`` cover the value from front to end; ``keys`` are the segments in order of first use;
    ``literals`` are the literal extents' bytes joined; ``frame`` is what the row is a patch of, None when
    of nothing; ``spent`` the writer's note of what rows have cost since that was made.
    """

    extents: tuple[Extent, ...]
    keys: tuple[bytes, ...]
    literals: bytes
    frame: Frame | None = None
    spent: int = 0

    @property
    def refs(self) -> frozenset[bytes]:
        """Every segment key that the row depends on, its frame's included."""
        return frozenset(self.keys if self.frame is None else (*self.keys, *self.frame.keys))


@lru_cache(maxsize=256)
def varint(number: int) -> bytes:
    """``put_varint`` of one number: small ones come again and again."""
    out = bytearray()
    put_varint(out, number)
    return bytes(out)


def put_varint(out: bytearray, number: int) -> None:
    """Append a non-negative integer, seven bits a byte, lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def take_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and the position behind it; IndexError at the end of the data."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    second = data[at + 1]
    if second < 0x80:
        return first + (second << 7) - 0x80, at + 2
    third = data[at + 2]
    if third < 0x80:
        return first + (second << 7) + (third << 14) - 0x4080, at + 3
    number, at, shift = first + (second << 7) + (third << 14) - 0x204080, at + 3, 21
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            _damaged("a number in it is too long")


def pack_program(extents: Sequence[Extent], literals: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """The program's bytes and its keys in order of first use.

    Copies of a segment seen before are written relative to the end of its last copy, so that an edit at the
    front leaves the bytes behind it as they were, and the patch against the frame stays small.
    """
    keys = [*map(key_of, extents)]
    ranks = dict.fromkeys(keys, 0)
    ranks.pop(None, 0)
    if len(ranks) + keys.count(None) == len(keys) and not any(map(offset_of, extents)):
        # As a rule: each segment once, from its start. varint() has seen most of them in the version before.
        ops = [varint(length << 2 | (_LITERAL if key is None else _NEXT_START)) for key, _, length in extents]
    else:
        ops, ranks = _ops(extents)
    head = varint(len(ranks)), *ranks, varint(len(extents))
    return b"".join((*head, *ops, literals)), tuple(ranks)


def _ops(extents: Sequence[Extent]) -> tuple[list[bytes], dict[bytes, int]]:
    """The entries, and the keys by rank."""
    ops, ends, ranks = list[bytes](), dict[bytes, int](), dict[bytes, int]()
    add = ops.append
    for key, offset, length in extents:
        if key is None:
            add(varint(length << 2 | _LITERAL))
        elif key not in ranks:
            add(varint(length << 2 | (_NEXT if offset else _NEXT_START)))
            if offset:
                add(varint(offset))
            ranks[key] = len(ranks)
            ends[key] = offset + length
        else:
            add(varint(length << 2 | _AGAIN))
            add(varint(len(ranks) - 1 - ranks[key]))
            skip = offset - ends[key]
            add(varint(skip << 1 if skip >= 0 else (-skip << 1) - 1))
            ends[key] = offset + length
    return ops, ranks


def parse_program(data: bytes, frame: Frame | None = None, spent: int = 0) -> Program:
    """The inverse of ``pack_program``; DamagedRow when lengths do not add up or exceed MAX_VALUE."""
    try:
        count, at = take_varint(data, 0)
        end = at + count * KEY_SIZE
        total, behind = take_varint(data, end)
        keys = tuple(chain.from_iterable(_KEYS.iter_unpack(data[at:end])))
        if total > len(data) - behind:
            _damaged("it has more entries than bytes")
        extents, at, literal = _parse_extents(data, behind, total, keys)
    except IndexError:
        _damaged("it ends too early")
    literals = data[at:]
    if sum(map(length_of, extents)) > MAX_VALUE:
        _damaged(f"it makes a value longer than {MAX_VALUE} bytes")
    if literal != len(literals):
        _damaged("its literal bytes are not as many as it says")
    return Program(extents, keys, literals, frame, spent)


def _parse_extents(data: bytes, at: int, total: int, keys: tuple[bytes, ...]) -> tuple[tuple[Extent, ...], int, int]:
    """The entries, the position behind them, and how many literal bytes there should be."""
    extents, ends, used, literal = list[Extent](), dict[bytes, int](), 0, 0
    for _ in range(total):
        # The lines of take_varint for up to three bytes: its call would take as long.
        head = data[at]
        if head < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            head += (second << 7) - 0x80
            at += 2
        elif (third := data[at + 2]) < 0x80:
            head += (second << 7) + (third << 14) - 0x4080
            at += 3
        else:
            head, at = take_varint(data, at)
        length, kind = head >> 2, head & 3
        if kind == _NEXT_START:  # most of them
            key = keys[used]
            used += 1
            ends[key] = length
            extents.append((key, 0, length))
            continue
        if kind == _LITERAL:
            extents.append((None, 0, length))
            literal += length
            continue
        offset = 0
        if kind == _AGAIN:
            back, at = take_varint(data, at)
            if back >= used:
                _damaged("it names a segment before the first")
            key = keys[used - 1 - back]
            skip, at = take_varint(data, at)
            offset = ends[key] + (-((skip + 1) >> 1) if skip & 1 else skip >> 1)
            if offset < 0:
                _damaged("it reads before a segment's start")
        else:
            key = keys[used]
            used += 1
            offset, at = take_varint(data, at)
        ends[key] = offset + length
        extents.append((key, offset, length))
    if used != len(keys):
        _damaged("it does not use all its segments")
    return tuple(extents), at, literal


def _damaged(why: str) -> NoReturn:
    raise DamagedRow(f"a value row is damaged: {why}; restore it from a backup or go on from an earlier checkpoint")
