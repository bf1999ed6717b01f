"""What SQLite cannot see in our rows, as functions of SQL: so one statement can follow what rows name.

They read packed rows, not sealed ones. None of them raises: of a row that cannot be read they say nothing, and whoever
opens that row says what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from threadmark.checkpoint.layout import decode_row, frame_keys, open_segment, read_programs, segments_wanted
from threadmark.errors import DamagedRow

NONE: Final = "[]"
"""No channels."""


def names(channels: Any) -> str:
    """Channels, as the functions take and give them."""
    return json.dumps(sorted(channels))


def missing(channels: str, body: bytes, block: bytes | None) -> str:
    """Those of the channels whose values are not stored with a checkpoint, given its row and the segment it names."""
    try:
        blocks = {} if block is None else {key: _opened(block) for key in frame_keys(body)}
        held = decode_row(body, blocks).fields.values.keys()
    except (DamagedRow, TypeError, ValueError):
        return channels
    return channels if held.isdisjoint(_named(channels)) else names(_named(channels) - held)


def keys(body: bytes, frame: bytes | None, step: bytes | None) -> bytes:
    """The keys of a value's segments, one after the other, given its row and the segments that the row names."""
    try:
        found = zip(frame_keys(body), (frame, step), strict=False)
        frames = {key: open_segment(data) for key, data in found if data is not None}
        return b"".join(segments_wanted(read_programs((body,), frames)))
    except (DamagedRow, TypeError, ValueError):
        return b""


@lru_cache(maxsize=16)
def _opened(block: bytes) -> bytes:
    return open_segment(block)


@lru_cache(maxsize=16)
def _named(channels: str) -> frozenset[str]:
    return frozenset(json.loads(channels))


FUNCTIONS: Final[tuple[tuple[str, int, Callable[..., Any]], ...]] = (
    ("threadmark_missing", 3, missing),
    ("threadmark_keys", 3, keys),
    ("threadmark_bytes", 1, bytes.fromhex),
)
"""Name in SQL, number of arguments, and what it does."""
