"""Which bytes of a new value an old one holds already. Every step over bytes is one call into C.

Work is bounded whatever the bytes are: at most ``Policy.places`` changed places, and at most ``SCAN``
bytes searched for every byte of the two values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from threadmark.checkpoint.layout.pieces import Pieces, Plain, cut
from threadmark.checkpoint.layout.policy import Policy

__all__ = ["SCAN", "Match", "Search", "common_ends", "matches"]

Match: TypeAlias = tuple[int, int, int]
"""(position in the new value, position in the old one, length)."""

ANCHOR: Final = 24
SCAN: Final = 2
_GOOD: Final = 512
_SECOND_THOUGHTS: Final = 4
_WINDOW: Final = 4096
_NEAR: Final = 16
_TIMES: Final = 4
_FAR: Final = 1 << 16


def matches(old: Plain, new: Plain, policy: Policy) -> list[Match]:
    """Equal stretches, in order and without overlap in either value."""
    if type(old) is bytes is type(new):
        return Search(old, new).run(policy.places)
    shared = _shared(old, new)
    # Beside a value that is much longer a short one has little to look for: its end is joined, not all of it.
    found, i, j = list[Match](), 0, 0 if shared else max(0, len(old) - _TIMES * len(new) - _FAR)
    for match in (*shared, (len(new), len(old), 0)):
        if match[0] > i and match[1] > j:
            # Between shared pieces one byte is compared with the other, as in any value.
            inner = Search(cut(old, j, match[1]), cut(new, i, match[0])).run(policy.places)
            found += [(i + at, j + old_at, length) for at, old_at, length in inner]
        if match[2]:
            found.append(match)
        i, j = match[0] + match[2], match[1] + match[2]
    return found


def _shared(old: Plain, new: Plain) -> list[Match]:
    """Pieces at the front, and at the end, that two values have in common."""
    if not isinstance(new, Pieces):
        return []
    if not isinstance(old, Pieces):
        return _shared_with_bytes(old, new)
    ours, theirs = new.parts, old.parts
    shorter = min(len(ours), len(theirs))
    first = next((at for at in range(1, shorter) if ours[at] is not theirs[at]), shorter)
    if first == 1 < shorter and isinstance(theirs[1], memoryview):
        # A value that was read lies in one piece; the next one may have cut it into several.
        whole = theirs[1].obj
        if type(whole) is bytes and whole.endswith(theirs[1]):
            length = _so_far(whole, len(whole) - len(theirs[1]), ours[1:])
            return [(len(ours[0]), len(theirs[0]), length)] if length else []
    last = next((at for at in range(shorter - first) if ours[-1 - at] is not theirs[-1 - at]), shorter - first)
    front, back = sum(map(len, ours[1:first])), sum(map(len, ours[len(ours) - last :]))
    ends = ((len(ours[0]), len(theirs[0]), front), (len(new) - back, len(old) - back, back))
    return [match for match in ends if match[2]]


def _shared_with_bytes(old: bytes, new: Pieces) -> list[Match]:
    """Pieces at the front that stand in the old value as well, where the first one is near its front."""
    head, *parts = new.parts
    if not parts or not len(parts[0]):
        return []
    start = old.find(parts[0][:_GOOD], 0, _GOOD + _NEAR)
    length = _so_far(old, start, parts) if start >= 0 else 0
    return [(len(head), start, length)] if length else []


def _so_far(old: bytes, start: int, parts: Sequence[bytes | memoryview]) -> int:
    """How many bytes of the parts, whole ones alone, stand in the old value from ``start`` on."""
    end = start
    for part in parts:
        if not old.startswith(part, end):
            break
        end += len(part)
    return end - start


def common_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes at the front and at the back are equal; together no more than the shorter one has."""
    return Search(old, new).ends()


class Search:
    """One comparison. ``probes`` and ``scanned`` count the searches made and the bytes they may have looked
    at.
    """

    def __init__(self, old: bytes, new: bytes) -> None:
        self._old, self._new = old, new
        self._view = memoryview(old)
        self.probes = self.scanned = 0
        self._budget = SCAN * (len(old) + len(new)) + (1 << 16)

    def run(self, places: int) -> list[Match]:
        """The common front, what lies between, the common end."""
        old, new = self._old, self._new
        front, back = self.ends()
        self._new_end, self._old_end = len(new) - back, len(old) - back
        found = [(0, 0, front)] if front else []
        i = j = front
        for _ in range(places):
            match = self._resume(i, j)
            if match is None:
                break
            found.append(match)
            i, j = match[0] + match[2], match[1] + match[2]
            if j == self._old_end and back and self._ahead(i, j, back) == back:
                # An appended record ends as the last one did; that end belongs to the last one.
                found[-1] = (match[0], match[1], match[2] + back)
                back = 0
        if back:
            found.append((self._new_end, self._old_end, back))
        return found

    def ends(self) -> tuple[int, int]:
        """Lengths of the common front and of the common end."""
        shorter = min(len(self._old), len(self._new))
        front = self._ahead(0, 0, shorter)
        return front, self._behind(len(self._new), len(self._old), shorter - front)

    def _resume(self, i: int, j: int) -> Match | None:
        """The next equal stretch behind a difference at ``i`` of the new and ``j`` of the old value.

        Looks for short pieces of the old value at growing distances, so that a long change costs few
        searches. A piece of what every record repeats matches in the wrong place; so a short match has to
        beat the next few.
        """
        best: Match | None = None
        patience, distance = _SECOND_THOUGHTS, 0
        while j + distance + ANCHOR <= self._old_end and i + ANCHOR <= self._new_end and patience:
            match = self._probe(i, j, distance)
            if match is not None and (best is None or match[2] > best[2]):
                best = match
                if match[2] >= _GOOD:
                    break
            if best is not None:
                patience -= 1
            if self.scanned > self._budget:
                break
            distance += distance // 2 + 16
        return best

    def _probe(self, i: int, j: int, distance: int) -> Match | None:
        at = j + distance
        end = min(self._new_end, i + _WINDOW + 8 * distance)
        place = self._new.find(self._view[at : at + ANCHOR], i, end)
        self.probes += 1
        self.scanned += (end if place < 0 else place) - i
        if place < 0:
            return None
        before = self._behind(place, at, min(place - i, distance))
        limit = min(self._new_end - place, self._old_end - at)
        ahead = ANCHOR + self._ahead(place + ANCHOR, at + ANCHOR, limit - ANCHOR)
        self.scanned += before + ahead
        return place - before, at - before, before + ahead

    def _ahead(self, i: int, j: int, limit: int) -> int:
        """How many bytes from ``i`` of the new and ``j`` of the old value on are equal."""
        new, view = self._new, self._view
        if new.startswith(view[j : j + limit], i):
            return limit
        done, step = 0, 64
        while new.startswith(view[j + done : j + done + step], i + done):
            done += step
            step *= 4
        low, high = done, min(done + step, limit)
        while high - low > 1:
            middle = (low + high) // 2
            if new.startswith(view[j + low : j + middle], i + low):
                low = middle
            else:
                high = middle
        return low

    def _behind(self, i: int, j: int, limit: int) -> int:
        """How many bytes before ``i`` of the new and ``j`` of the old value are equal."""
        new, view = self._new, self._view
        if new.endswith(view[j - limit : j], 0, i):
            return limit
        done, step = 0, 64
        while done + step <= limit and new.endswith(view[j - done - step : j - done], 0, i - done):
            done += step
            step *= 4
        low, high = done, min(done + step, limit)
        while high - low > 1:
            middle = (low + high) // 2
            if new.endswith(view[j - middle : j - low], 0, i - low):
                low = middle
            else:
                high = middle
        return low
