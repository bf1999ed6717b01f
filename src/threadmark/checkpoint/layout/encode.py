"""From a value's bytes to its row and the segments that are new."""

from __future__ import annotations

from threadmark.checkpoint.layout.codec import pack, segment_key
from threadmark.checkpoint.layout.policy import Policy
from threadmark.checkpoint.layout.program import Extent, pack_program, parse_program
from threadmark.checkpoint.layout.read import FRAMED, INLINE, PROGRAM
from threadmark.checkpoint.layout.rows import Encoded, Known, Segment

__all__ = ["DEFAULT", "encode"]

DEFAULT = Policy()
_INLINE = bytes([INLINE])


def encode(new: bytes, base: Known | None, *, salt: bytes, policy: Policy = DEFAULT) -> Encoded:
    """Store ``new`` as what it shares with ``base`` and what it does not.

    ``base`` is any earlier value of the same thread, nearly always the one that the writer has just read,
    or None. ``salt`` is the thread's secret for segment keys (16 random bytes). Any base gives a right
    answer; a good one a small one.
    """
    if base is not None and new == base.plain:
        return Encoded(base.body, (), base, unchanged=True)
    if len(new) <= policy.inline:
        body = _INLINE + new
        return Encoded(body, (), Known(new, body))
    extents = list[Extent]()
    sizes, segments = dict[bytes, int](), list[Segment]()
    for at in range(0, len(new), policy.max_segment):
        plain = new[at : at + policy.max_segment]
        key = segment_key(plain, salt)
        if key not in sizes:
            segments.append(Segment(key, pack(plain, policy)))
        sizes[key] = len(plain)
        extents.append((key, 0, len(plain)))
    program, _ = pack_program(tuple(extents), b"")
    packed = pack(program, policy)
    if len(packed) <= policy.patch_max:
        body = bytes([PROGRAM]) + packed
        return Encoded(body, tuple(segments), Known(new, body, parse_program(program), sizes))
    frame = segment_key(program, salt)
    body = bytes([FRAMED]) + frame
    segments.append(Segment(frame, packed))
    return Encoded(body, tuple(segments), Known(new, body, parse_program(program, frame, program), sizes))
