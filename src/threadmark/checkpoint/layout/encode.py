"""From a value's bytes to its row and the segments that are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from threadmark.checkpoint.layout.cut import Cutter, inherit, thin
from threadmark.checkpoint.layout.diff import matches
from threadmark.checkpoint.layout.frame import write_row
from threadmark.checkpoint.layout.kinds import INLINE
from threadmark.checkpoint.layout.pieces import Plain, cut, equal, joined
from threadmark.checkpoint.layout.policy import DEFAULT, Policy
from threadmark.checkpoint.layout.program import MAX_VALUE, Extent, Program, pack_program
from threadmark.checkpoint.layout.rows import Encoded, Known

__all__ = ["encode"]

_INLINE: Final = bytes([INLINE])


def encode(
    new: Plain, base: Known | None, *, salt: bytes, also: Sequence[Known] = (), policy: Policy = DEFAULT
) -> Encoded:
    """Store ``new`` as what it shares with ``base`` and what it does not.

    ``base`` is any earlier value of the same thread, nearly always the one that the writer has just read, or
    None. ``also`` are further ones that may hold what the base does not: the step's task writes, which a
    reducer is about to put into the channel. ``salt`` is the thread's secret for segment keys (16 random
    bytes). Any bases give a right answer; good ones a small one. The rule of ``Known`` holds for each of them.

    ValueError for a value of more than 2 GiB.
    """
    if base is not None and equal(new, base.plain):
        return Encoded(base.body, (), base, unchanged=True)
    if len(new) > MAX_VALUE:
        raise ValueError(
            f"a value of {len(new)} bytes cannot be stored, the limit is {MAX_VALUE}; split it, or keep a path"
        )
    if len(new) <= policy.inline:
        body = _INLINE + joined(new)
        return Encoded(body, (), Known(new, body))
    sizes = dict(base.sizes) if base is not None else {}
    extents = _inherited(new, base, policy)
    for other in also:
        if other.program is not None and other.program.keys:
            extents = _borrowed(new, extents, other, policy)
            sizes |= other.sizes
    extents = thin(extents, sizes, len(new), policy)
    cutter = Cutter(new, salt, policy, sizes)
    extents = cutter.spill(cutter.seal(cutter.merge(extents)))
    literals = cutter.literals(extents)
    packed, keys = pack_program(extents, literals)
    body, frame, spent = write_row(packed, keys, base.program if base is not None else None, cutter)
    program = Program(tuple(extents), keys, literals, frame, spent)
    known = Known(new, body, program, dict(zip(keys, map(sizes.__getitem__, keys), strict=True)))
    return Encoded(body, tuple(cutter.made.values()), known)


def _inherited(new: Plain, base: Known | None, policy: Policy) -> list[Extent]:
    """The new value's extents as the base has them, the rest literal."""
    if base is None or base.program is None or not base.program.keys:
        return [(None, 0, len(new))]
    found = matches(base.plain, new, policy)
    return inherit(base.program.extents, found, len(new), policy.min_copy)


def _borrowed(new: Plain, extents: list[Extent], other: Known, policy: Policy) -> list[Extent]:
    """The extents with what ``other`` holds of their long literal runs copied from there."""
    made, at = list[Extent](), 0
    for extent in extents:
        length = extent[2]
        if extent[0] is None and length >= policy.seal and other.program is not None:
            found = matches(other.plain, cut(new, at, at + length), policy)
            made += inherit(other.program.extents, found, length, policy.seal // 2)
        else:
            made.append(extent)
        at += length
    return made
