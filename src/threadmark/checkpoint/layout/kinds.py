"""What the first byte of a stored row says, and which frames the row names."""

from __future__ import annotations

from typing import Final

from threadmark.checkpoint.layout.codec import KEY_SIZE
from threadmark.errors import DamagedRow

__all__ = ["BARE", "FRAMED", "INLINE", "PROGRAM", "STEPPED", "WHOLE", "frame_keys", "kind_of"]

INLINE: Final = 0
"""Value: its bytes follow."""
PROGRAM: Final = 2
"""Value: a packed program follows."""
FRAMED: Final = 3
"""Value: a frame's key, then the program as a patch of the frame (nothing: the program is the frame)."""
STEPPED: Final = 4
"""Value: a frame's key and a step's key, then the program as a patch of what the step makes of the
frame.
"""
WHOLE: Final = 16
"""Checkpoint row: all its maps follow."""
BARE: Final = 17
"""Checkpoint row: the key of a whole block, then what differs from it."""

_FRAMES: Final = {INLINE: 0, PROGRAM: 0, FRAMED: 1, STEPPED: 2, WHOLE: 0, BARE: 1}


def kind_of(body: bytes) -> int:
    """The row's kind; DamagedRow when there is none such or its keys are cut short."""
    kind = body[0] if body else -1
    if kind in _FRAMES and len(body) > _FRAMES[kind] * KEY_SIZE:
        return kind
    raise DamagedRow(
        f"a row starts with {body[:1]!r}, which no format of this version does; it was damaged or "
        "written by a newer version"
    )


def frame_keys(body: bytes) -> tuple[bytes, ...]:
    """The segment keys that a row names before anything of it can be read: none, one or two."""
    count = _FRAMES[kind_of(body)]
    return tuple(body[at : at + KEY_SIZE] for at in range(1, 1 + count * KEY_SIZE, KEY_SIZE))
