"""From a value's bytes to its row and the segments that are new."""

from __future__ import annotations

from typing import Final, TypeAlias

from threadmark.checkpoint.layout.codec import KEY_SIZE, patch, segment_key
from threadmark.checkpoint.layout.cut import Cutter, fold, inherit, melt, thin
from threadmark.checkpoint.layout.diff import matches
from threadmark.checkpoint.layout.policy import DEFAULT, Policy
from threadmark.checkpoint.layout.program import Extent, Program, pack_program, put_varint
from threadmark.checkpoint.layout.read import FRAMED, INLINE, PROGRAM
from threadmark.checkpoint.layout.rows import Encoded, Known, Segment

__all__ = ["encode"]

_INLINE: Final = bytes([INLINE])
_PROGRAM: Final = bytes([PROGRAM])


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
    sizes = dict(base.sizes) if base is not None else {}
    cutter = Cutter(new, salt, policy, sizes)
    extents = cutter.spill(cutter.seal(_draft(new, base, sizes, policy)))
    literals = cutter.literals(extents)
    packed, keys = pack_program(extents, literals)
    body, frame_key, frame, spent = _row(packed, keys, base.program if base is not None else None, cutter)
    program = Program(tuple(extents), keys, literals, frame_key, frame, spent)
    known = Known(new, body, program, {key: sizes[key] for key in keys})
    return Encoded(body, tuple(cutter.made.values()), known)


def _draft(new: bytes, base: Known | None, sizes: dict[bytes, int], policy: Policy) -> list[Extent]:
    """The new value's extents before new segments are cut."""
    if base is None or base.program is None or not base.program.keys:
        return [(None, 0, len(new))]
    found = matches(base.plain, new, policy)
    extents = inherit(base.program.extents, found, len(new), policy.min_copy)
    extents = thin(extents, sizes, len(new), policy)
    windows = fold(extents, sizes, policy)
    return melt(extents, windows) if windows else extents


_Row: TypeAlias = tuple[bytes, bytes | None, bytes | None, int]
"""Body, frame key, frame, and the bytes spent on rows since that frame was made."""


def _row(packed: bytes, keys: tuple[bytes, ...], old: Program | None, cutter: Cutter) -> _Row:
    """The value row: the program itself, or a patch of the base's frame, or a new frame.

    A frame costs its length once; rows without a fitting one cost theirs each time. So a new frame is made
    when as much has been spent on rows as it costs: whoever rents until he has paid the price never pays
    more than twice the least. A value that is written once never makes one, unless it is too long for a
    row.
    """
    policy = cutter.policy
    data = cutter.pack(packed)
    # A small value against a big base is no new version of it (a task's write of one message): nobody will
    # build on its frame.
    aside = old is not None and not keys and bool(old.keys)
    spent = 0 if old is None or aside else old.spent
    if old is not None and old.frame_key is not None and old.frame is not None and policy.compress:
        tail = patch(packed, old.frame, policy.patch_level)
        due = spent + len(tail)
        fits = len(tail) <= policy.patch_max and len(tail) + KEY_SIZE < len(data)
        if fits and (aside or due <= max(policy.patch_free, len(data))):
            head = bytearray((FRAMED,)) + old.frame_key
            put_varint(head, due)
            return bytes(head) + tail, old.frame_key, old.frame, due
    due = spent + len(data)
    once = old is None or aside or due <= policy.patch_free or not policy.compress
    if len(data) <= policy.patch_max and once:
        return _PROGRAM + data, None, None, len(data)
    key = segment_key(packed, cutter.salt)
    cutter.made[key] = Segment(key, data)
    return bytes((FRAMED,)) + key, key, packed, 0
