"""Ids of checkpoints, under the name that savers and their tests know."""

from __future__ import annotations

import random
from uuid import UUID

from threadmark import ids

__all__ = ["uuid6"]

_NODE = (1 << 48) - 1


def uuid6(node: int | None = None, clock_seq: int | None = None) -> UUID:
    """A UUID of version 6: later ones are greater, as text too, within one process (spec 1.2).

    ``node`` fills the last 48 bits and ``clock_seq`` the 14 before them; both are random when left out.
    """
    made = UUID(ids.checkpoint_id(random.getrandbits(14) if clock_seq is None else clock_seq))
    return made if node is None else UUID(int=made.int & ~_NODE | node & _NODE)
