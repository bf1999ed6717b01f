"""From stored rows back to values, in at most two fetches however many rows are read at once."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from io import BytesIO

from threadmark.checkpoint.layout.codec import MAX_PLAIN, segment_key, unpack, unpack_all
from threadmark.checkpoint.layout.frame import read_row, segment_of
from threadmark.checkpoint.layout.kinds import WHOLE, frame_keys, kind_of
from threadmark.checkpoint.layout.program import Program, key_of, length_of
from threadmark.checkpoint.layout.rows import Known
from threadmark.errors import DamagedRow

__all__ = [
    "Assembly", "assemble", "check_segment", "decode", "decode_many", "frames_wanted", "inline_body",
    "inline_value", "open_segment",
    "open_segments",
    "parted_values", "reachable", "read_programs", "segments_wanted",
]  # fmt: skip


def inline_body(value: bytes) -> bytes:
    """The row that holds a value as it is. What ``encode`` makes of one of at most ``Policy.inline`` bytes."""
    return b"\0" + value


def inline_value(body: bytes) -> bytes | None:
    """The value when the row holds it as it is, else None. The quick way for the many small rows."""
    return body[1:] if body[:1] == b"\0" else None


def parted_values(bodies: Iterable[bytes]) -> list[bytes]:
    """The rows among these that do not hold their value as it is."""
    return [body for body in bodies if body[:1] != b"\0"]


def frames_wanted(bodies: Iterable[bytes]) -> set[bytes]:
    """Keys of the segments to fetch first. Takes value, task-write and checkpoint rows alike; often
    empty.
    """
    return {key for body in bodies for key in frame_keys(body)}


def read_programs(bodies: Iterable[bytes], frames: Mapping[bytes, bytes]) -> list[Program | None]:
    """The programs of value or task-write rows, in order; None for an inline row.

    ``frames`` maps the keys of ``frames_wanted`` to plaintext (``open_segments``).
    """
    return [read_row(body, frames) for body in bodies]


def segments_wanted(programs: Iterable[Program | None]) -> Set[bytes]:
    """Keys of the segments to fetch second, for all rows together, in the order in which the values begin with them."""
    found = dict[bytes, None]()
    for program in programs:
        if program is not None:
            found |= dict.fromkeys(program.keys)
    return found.keys()


def open_segment(data: bytes) -> bytes:
    """A segment row's plaintext, at most 16 MiB. DamagedRow when it cannot be unpacked."""
    return unpack(data)


def open_segments(rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The plaintext of many segment rows by key: what the reading functions take. Faster than one by
    one.
    """
    return unpack_all(rows)


def check_segment(key: bytes, plain: bytes, salt: bytes) -> None:
    """DamagedRow unless ``plain`` is what ``key`` stands for in the thread with this ``salt``.

    Costs about 1 ms a MB, so it is for what does not already come authenticated, and for checking a file.
    """
    if not hmac.compare_digest(segment_key(plain, salt), key):
        raise DamagedRow(f"segment {key.hex()} holds other bytes than were written; restore it from a backup")


def assemble(body: bytes, program: Program | None, segments: Mapping[bytes, bytes]) -> Known:
    """One value from its row, the row's program and the plaintext of its segments.

    ``segments`` may hold more than this row needs. DamagedRow when a segment is missing or too short.
    """
    if program is None:
        return Known(body[1:], body)
    parts, at = list[bytes | memoryview](), 0
    literals = program.literals
    views = {key: memoryview(segment_of(segments, key)) for key in program.keys}
    for key, offset, length in program.extents:
        if key is None:
            parts.append(literals[at : at + length])
            at += length
            continue
        view = views[key]
        _expect(key, len(view), offset + length)
        parts.append(view[offset : offset + length])
    return Known(b"".join(parts), body, program, {key: len(view) for key, view in views.items()})


class Assembly:
    """Values that are put together while their segment rows come in, in any order, each of them read once.

    A segment is let go when its last copy is in its place, so that values whose segments come in order are never
    in memory twice. Of what rows only promise, ``MAX_PLAIN`` is reserved at most, for all of them together.
    """

    __slots__ = ("_left", "_plain", "_programs", "_room", "_sizes", "_unfinished", "_values")

    def __init__(self, programs: Mapping[bytes, Program | None]) -> None:
        self._programs = {body: program for body, program in programs.items() if program is not None}
        """By the bodies of their rows."""
        uses = Counter[bytes | None]()
        for program in self._programs.values():
            uses.update(map(key_of, program.extents))
        del uses[None]
        self._left = {key: count for key, count in uses.items() if count > 1} if uses.total() > len(uses) else {}
        """How often segments that are used again are still to be copied."""
        self._plain: dict[bytes, bytes | memoryview] = {}
        self._room = MAX_PLAIN
        """What may still be reserved for values that are not finished."""
        self._sizes: dict[bytes, int] = {}
        self._values: dict[bytes, bytes] = {}
        self._unfinished = [self._put_together(body, program) for body, program in self._programs.items()]
        self.take({})

    def take(self, rows: Mapping[bytes, bytes]) -> None:
        """Segment rows; DamagedRow when one cannot be unpacked, or is shorter than a value wants."""
        plain, sizes = self._plain, self._sizes
        for key, row in rows.items():
            plain[key] = opened = memoryview(row)[1:] if row and not row[0] else unpack(row)
            sizes[key] = len(opened)
        self._unfinished = [value for value in self._unfinished if next(value, False)]

    def known(self, body: bytes) -> Known:
        """A value, once everything has come in. DamagedRow when a segment of it has not."""
        program, sizes = self._programs[body], self._sizes
        if body not in self._values:
            for key in program.keys:
                segment_of(sizes, key)
        keys = program.keys
        return Known(self._values[body], body, program, dict(zip(keys, map(sizes.__getitem__, keys), strict=True)))

    def _put_together(self, body: bytes, program: Program) -> Iterator[bool]:
        """Put a value together; gives True whenever it has to wait for a segment."""
        plain, left, out, at = self._plain, self._left, BytesIO(), 0
        write, literals = out.write, memoryview(program.literals)
        while program.keys and program.keys[0] not in plain:
            yield True
        size = min(sum(map(length_of, program.extents)), self._room)
        if size:
            # All of its memory at once: by and by it would be copied nine times.
            self._room -= size
            out.seek(size - 1)
            write(b"\0")
            out.seek(0)
        for key, offset, length in program.extents:
            if key is None:
                write(literals[at : at + length])
                at += length
                continue
            while key not in plain:
                yield True
            if key not in left:
                segment = plain.pop(key)
            else:
                segment = plain[key]
                left[key] -= 1
                if not left[key]:
                    del plain[key]
            if offset or length != len(segment):
                _expect(key, len(segment), offset + length)
                segment = memoryview(segment)[offset : offset + length]
            write(segment)
        self._room += size
        self._values[body] = out.getvalue()


def _expect(key: bytes, length: int, end: int) -> None:
    if end > length:
        raise DamagedRow(f"segment {key.hex()} has {length} bytes, its row wants {end}")


def decode(body: bytes, fetch: Callable[[Collection[bytes]], Mapping[bytes, bytes]]) -> Known:
    """``decode_many`` for one row."""
    return decode_many((body,), fetch)[0]


def decode_many(bodies: Sequence[bytes], fetch: Callable[[Collection[bytes]], Mapping[bytes, bytes]]) -> list[Known]:
    """The values of many rows, for a caller whose segments are at hand without waiting.

    ``fetch`` maps segment keys to segment rows (packed); it is called twice at most, never with an empty
    set.
    """
    frames = _open(fetch, frames_wanted(bodies))
    programs = read_programs(bodies, frames)
    wanted = segments_wanted(programs)
    segments = _open(fetch, wanted - frames.keys()) | frames
    return [assemble(body, program, segments) for body, program in zip(bodies, programs, strict=True)]


def reachable(bodies: Iterable[bytes], frames: Mapping[bytes, bytes]) -> set[bytes]:
    """Every segment key that these rows depend on: the mark of mark and sweep.

    Takes value, task-write and checkpoint rows alike. ``frames`` maps ``frames_wanted(bodies)`` to
    plaintext; those of checkpoint rows may be left out.
    """
    bodies = tuple(bodies)
    values = [body for body in bodies if kind_of(body) < WHOLE]
    return frames_wanted(bodies) | segments_wanted(read_programs(values, frames))


def _open(fetch: Callable[[Collection[bytes]], Mapping[bytes, bytes]], keys: Collection[bytes]) -> dict[bytes, bytes]:
    return unpack_all(fetch(keys)) if keys else {}
