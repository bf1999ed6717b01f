"""From stored rows back to values, in at most two fetches however many rows are read at once."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from threadmark.checkpoint.layout.codec import plain_size, segment_key, unpack, unpack_all, unpack_joined
from threadmark.checkpoint.layout.frame import read_row, segment_of
from threadmark.checkpoint.layout.kinds import WHOLE, frame_keys, kind_of
from threadmark.checkpoint.layout.program import Program
from threadmark.checkpoint.layout.rows import Known
from threadmark.errors import DamagedRow

__all__ = [
    "assemble", "assemble_packed", "check_segment", "decode", "decode_many", "frames_wanted", "inline_body",
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


def segments_wanted(programs: Iterable[Program | None]) -> set[bytes]:
    """Keys of the segments to fetch second, for all rows together."""
    return {key for program in programs if program is not None for key in program.keys}


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


def assemble_packed(body: bytes, program: Program | None, rows: Mapping[bytes, bytes]) -> Known:
    """``assemble`` from segment rows, unpacked straight into the value: for one that is read once."""
    if program is None:
        return Known(body[1:], body)
    sizes = {key: plain_size(segment_of(rows, key)) for key in program.keys}
    pieces, opened, at, total = list[bytes](), dict[bytes, bytes](), 0, 0
    for key, offset, length in program.extents:
        total += length
        if key is None:
            pieces.append(b"\0" + program.literals[at : at + length])
            at += length
        elif length == sizes[key] and not offset:
            pieces.append(rows[key])
        else:
            _expect(key, sizes[key], offset + length)
            if key not in opened:
                opened[key] = unpack(rows[key])
            pieces.append(b"\0" + opened[key][offset : offset + length])
    return Known(unpack_joined(pieces, total), body, program, sizes)


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
