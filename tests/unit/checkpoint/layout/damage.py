"""Rows as a bad disk leaves them."""

from __future__ import annotations

import random


def damaged(body: bytes, rng: random.Random) -> bytes:
    """The row with one byte changed, its end cut off, or one byte too many."""
    changed = bytearray(body)
    match rng.randrange(3):
        case 0:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        case 1:
            del changed[rng.randrange(len(changed)) :]
        case _:
            changed.insert(rng.randrange(len(changed)), rng.randrange(256))
    return bytes(changed)
