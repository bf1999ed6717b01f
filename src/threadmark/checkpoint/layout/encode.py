"""From a value's bytes to its row and the segments that are new."""

from __future__ import annotations

from typing import Final

from threadmark.checkpoint.layout.cut import Cutter, fold, inherit, melt, thin
from threadmark.checkpoint.layout.diff import matches
from threadmark.checkpoint.layout.frame import write_row
from threadmark.checkpoint.layout.kinds import INLINE
from threadmark.checkpoint.layout.policy import DEFAULT, Policy
from threadmark.checkpoint.layout.program import Extent, Program, pack_program
from threadmark.checkpoint.layout.rows import Encoded, Known

__all__ = ["encode"]

_INLINE: Final = bytes([INLINE])


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
    body, frame, spent = write_row(packed, keys, base.program if base is not None else None, cutter)
    program = Program(tuple(extents), keys, literals, frame, spent)
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
