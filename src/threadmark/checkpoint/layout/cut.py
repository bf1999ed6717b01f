"""Where a value is cut: what it inherits from its base, what is written anew, what becomes a segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from threadmark.checkpoint.layout.codec import MAX_PLAIN, Packer, segment_key
from threadmark.checkpoint.layout.diff import Match
from threadmark.checkpoint.layout.pieces import Plain, cut
from threadmark.checkpoint.layout.policy import Policy
from threadmark.checkpoint.layout.program import Extent, key_of, length_of
from threadmark.checkpoint.layout.rows import Segment

__all__ = ["Cutter", "inherit", "thin"]

_FEW: Final = 3


def inherit(extents: Sequence[Extent], found: Iterable[Match], length: int, shortest: int) -> list[Extent]:
    """The new value's extents: those of its base where they match, literal bytes between.

    ``extents`` cover the base; ``length`` is the new value's; a copy of fewer than ``shortest`` bytes is
    not made.
    """
    starts = [0, *accumulate(map(length_of, extents))]
    made, at = list[Extent](), 0
    for new_at, old_at, size in found:
        if size < shortest:
            continue
        _add(made, (None, 0, new_at - at), shortest)
        index, left = bisect_right(starts, old_at) - 1, size
        skip = old_at - starts[index]
        whole = extents[index + 1 : bisect_right(starts, old_at + size) - 1]
        if len(whole) > _FEW and min(map(length_of, whole)) >= shortest:
            # All but the ends at once: they are as they were made, beside each other.
            key, offset, span = extents[index]
            _add(made, (key, offset + skip if key is not None else 0, span - skip), shortest)
            made += whole
            index, skip, left = index + 1 + len(whole), 0, old_at + size - starts[index + 1 + len(whole)]
        while left:
            key, offset, span = extents[index]
            span = min(span - skip, left)
            _add(made, (key, offset + skip if key is not None else 0, span), shortest)
            left -= span
            index, skip = index + 1, 0
        at = new_at + size
    _add(made, (None, 0, length - at), shortest)
    return made


def _add(made: list[Extent], extent: Extent, shortest: int) -> None:
    """Append, joined with the last one where both are literal or one copy goes on where the other ends."""
    key, offset, length = extent
    if not length:
        return
    last = made[-1] if made else (b"", 0, 0)
    if key is not None and key == last[0] and offset == last[1] + last[2]:
        made[-1] = (key, last[1], last[2] + length)
        return
    if key is None or length < shortest:
        if last[0] is None:
            made[-1] = (None, 0, last[2] + length)
            return
        extent = (None, 0, length)
    made.append(extent)


def melt(extents: list[Extent], windows: Sequence[tuple[int, int]]) -> list[Extent]:
    """The extents with those of each window [first, end) made literal, to be cut anew."""
    if not windows:
        return extents
    made, at = list[Extent](), 0
    for first, end in windows:
        for extent in extents[at:first]:
            _add(made, extent, 0)
        _add(made, (None, 0, sum(extent[2] for extent in extents[first:end])), 0)
        at = end
    for extent in extents[at:]:
        _add(made, extent, 0)
    return made


def fold(extents: Sequence[Extent], sizes: dict[bytes, int], policy: Policy) -> list[tuple[int, int]]:
    """Windows of small, nearly whole segments side by side that should become one: each byte is merged
    about once.

    Smaller parts of segments are left alone: every edit makes two, and merging them would store again what
    it split.
    """
    windows, first = list[tuple[int, int]](), 0
    if sum(map(policy.fold_bytes.__gt__, map(length_of, extents))) < policy.fold_count:
        return windows  # as a rule
    for at, (key, _, length) in enumerate((*extents, (None, 0, 0))):
        if key is not None and length < policy.fold_bytes and length >= sizes[key] * 7 // 8:
            continue
        if at - first >= policy.fold_count:
            windows.append((first, at))
        first = at + 1
    return windows


def thin(extents: list[Extent], sizes: dict[bytes, int], length: int, policy: Policy) -> list[Extent]:
    """Rewrite the densest windows while there are too many entries, and the emptiest segments while they
    hold too many bytes that this version does not use."""
    most = policy.entries + length // policy.entry_bytes
    if len(extents) > most:
        extents = melt(extents, _densest(extents, len(extents) - most * 3 // 4, policy.window))
    behind = sum(map(sizes.__getitem__, {*map(key_of, extents)} - {None}))
    limit = int(length * policy.dead_part) + policy.dead_slack
    if behind <= limit:
        return extents
    used = dict[bytes, int]()
    for key, _, size in extents:
        if key is not None:
            used[key] = used.get(key, 0) + size
    empty = set[bytes]()
    for key in sorted(used, key=lambda key: used[key] / sizes[key]):
        if behind <= limit:
            break
        empty.add(key)
        behind -= sizes[key] - used[key]
    return melt(extents, [(at, at + 1) for at, extent in enumerate(extents) if extent[0] in empty])


def _literals(extents: Sequence[Extent]) -> Iterator[tuple[int, int, int]]:
    """The few literal extents among many others: place among them, position in the value, length."""
    keys, at, behind = [*map(key_of, extents)], 0, 0
    for _ in range(keys.count(None)):
        index = keys.index(None, behind)
        at += sum(map(length_of, extents[behind:index]))
        length = extents[index][2]
        yield index, at, length
        at, behind = at + length, index + 1


def _densest(extents: Sequence[Extent], spare: int, size: int) -> list[tuple[int, int]]:
    """Windows of ``size`` entries with the fewest bytes, apart from each other, enough to spare so many entries."""
    size = min(size, len(extents))
    starts = [0, *accumulate(map(length_of, extents))]
    order = sorted(range(len(extents) - size + 1), key=lambda at: starts[at + size] - starts[at])
    taken, chosen = bytearray(len(extents)), list[tuple[int, int]]()
    for at in order:
        if spare <= 0:
            break
        if not (taken[at] or taken[at + size - 1]):
            taken[at : at + size] = b"\1" * size
            chosen.append((at, at + size))
            spare -= size - 1
    return sorted(chosen)


@dataclass(slots=True)
class Cutter:
    """Makes segments of literal bytes. ``sizes`` gains the plain length of each, ``made`` the rows."""

    value: Plain
    salt: bytes
    policy: Policy
    sizes: dict[bytes, int]
    made: dict[bytes, Segment] = field(default_factory=dict)
    _packer: Packer = field(init=False)

    def __post_init__(self) -> None:
        self._packer = Packer(self.policy)

    def pack(self, plain: bytes) -> bytes:
        """Flag byte and data."""
        return self._packer.pack(plain)

    def segment(self, plain: bytes, *, raw: bool = False) -> bytes:
        """The key of a segment with these bytes."""
        key = segment_key(plain, self.salt)
        if key not in self.made:
            self.made[key] = Segment(key, b"\0" + plain if raw else self.pack(plain))
            self.sizes[key] = len(plain)
        return key

    def add(self, segment: Segment) -> None:
        """A row that is stored with the value beside the segments of its bytes."""
        self.made[segment.key] = segment

    def merge(self, extents: list[Extent]) -> list[Extent]:
        """The extents with small segments side by side in new ones."""
        windows = fold(extents, self.sizes, self.policy)
        if not windows:
            return extents
        done, at, starts = list[Extent](), 0, [0, *accumulate(map(length_of, extents))]
        for first, end in windows:
            done += extents[at:first]
            done += self._pieces(starts[first], starts[end] - starts[first], raw=not self.policy.pack_merged)
            at = end
        return done + extents[at:]

    def seal(self, extents: list[Extent]) -> list[Extent]:
        """The extents with every long literal run in segments of its own."""
        done, behind = list[Extent](), 0
        for index, at, length in _literals(extents):
            if length >= self.policy.seal:
                done += extents[behind:index]
                done += self._pieces(at, length)
                behind = index + 1
        return done + extents[behind:] if behind else extents

    def spill(self, extents: list[Extent]) -> list[Extent]:
        """The extents with all literal runs in one segment, when together they are too long for a row."""
        total = sum(length for _, _, length in _literals(extents))
        if total < self.policy.spill or total > MAX_PLAIN:
            return extents
        key = self.segment(self.literals(extents))
        done, offset = list[Extent](), 0
        for extent in extents:
            if extent[0] is None:
                done.append((key, offset, extent[2]))
                offset += extent[2]
            else:
                done.append(extent)
        return done

    def literals(self, extents: Sequence[Extent]) -> bytes:
        """The bytes of all literal extents, joined."""
        return b"".join([cut(self.value, at, at + length) for _, at, length in _literals(extents)])

    def _pieces(self, at: int, length: int, *, raw: bool = False) -> Iterable[Extent]:
        count = -(-length // self.policy.max_segment)
        for piece in range(count):
            first, end = length * piece // count, length * (piece + 1) // count
            yield self.segment(cut(self.value, at + first, at + end), raw=raw), 0, end - first
