"""Long values whose bytes lie in several places: two versions that share most of them share the pieces too."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

__all__ = ["Pieces", "Plain", "cut", "equal", "joined"]


class Pieces:
    """The bytes of ``parts``, one after the other.

    A part that two values have in common is best the same object in both: that is how it is found. The first part is
    never looked for; it is for what comes before the parts that are shared, such as a length.
    """

    __slots__ = ("ends", "parts")

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        self.parts = tuple(parts)
        self.ends = (0, *accumulate(map(len, self.parts)))
        """Where each part ends, behind where the first one starts."""

    def __len__(self) -> int:
        return self.ends[-1]


Plain: TypeAlias = bytes | Pieces
"""A value as it is stored, before it is cut and packed."""


def joined(plain: Plain) -> bytes:
    """The bytes in one place."""
    return plain if type(plain) is bytes else b"".join(_pieces(plain).parts)


def cut(plain: Plain, start: int, end: int) -> bytes:
    """``joined(plain)[start:end]``, without joining all of it."""
    if type(plain) is bytes:
        return plain[start:end]
    value = _pieces(plain)
    ends = value.ends
    first = bisect_right(ends, start) - 1
    found = value.parts[first : bisect_left(ends, end, first)]
    if not found:
        return b""
    # A list of a thousand messages has a dozen parts, and of each new version some dozen stretches are cut out.
    start -= ends[first]
    if len(found) == 1:
        return bytes(found[0][start : end - ends[first]])
    last = found[-1]
    rest = end - ends[first + len(found) - 1]
    return b"".join((memoryview(found[0])[start:], *found[1:-1], memoryview(last)[:rest]))


def equal(one: Plain, other: Plain) -> bool:
    """Whether two values have the same bytes."""
    if type(one) is bytes is type(other):
        return one == other
    if len(one) != len(other):
        return False
    if isinstance(one, Pieces) and isinstance(other, Pieces) and [*map(len, one.parts)] == [*map(len, other.parts)]:
        pairs = zip(one.parts, other.parts, strict=True)
        return all(ours is theirs or bytes(ours) == bytes(theirs) for ours, theirs in pairs)
    return joined(one) == joined(other)


def _pieces(plain: Plain) -> Pieces:
    assert isinstance(plain, Pieces)
    return plain
