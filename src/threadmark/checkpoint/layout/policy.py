"""The writer's thresholds. None of them is stored: a reader needs no policy, so all may change without a
migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT", "Policy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a value is cut, folded, framed and compressed. All sizes are bytes of plaintext."""

    compress: bool = True
    """Off: nothing is compressed, so that stored lengths say no more than plaintext lengths do."""
    level: int = 3
    """zstd level of segments and programs."""
    map_level: int = 1
    """zstd level of whole blocks of maps. A higher one takes twice as long and saves nothing."""
    inline: int = 256
    """A value up to this long is stored in its row as it is."""
    aside: int = 512
    """A task's write up to this long is stored as it is, too, when the value of its channel is four times as long.
    To compress 300 bytes takes 40 us, and 18 to read them again; it spares 60 of them."""
    seal: int = 1024
    """A run of new bytes this long becomes a segment; a shorter one stays in the row's program."""
    max_segment: int = 65536
    """A longer run is cut evenly into segments of at most this."""
    spill: int = 2048
    """When the short runs of one program reach this together, all of them move into one segment."""
    fold_count: int = 32
    """So many small neighbours become one segment, or a few."""
    fold_bytes: int = 8192
    """A copy of at least this is not small."""
    pack_merged: bool = True
    """Off: what small segments are merged into is stored as it is. Each byte is merged about once and read with every
    later version, so where rows are near, to read them is worth more than two thirds of these bytes.
    """
    patch_level: int = 3
    """zstd level of a patch. A high one saves 2 % and costs 20 us."""
    patch_free: int = 384
    """Patches against one frame may together have this length before a new frame is thought of."""
    step_price: int = 64
    """A step on a frame costs so much more than its bytes: a segment row, and its key in the rows on it."""
    patch_max: int = 640
    """A row's program or patch never exceeds this."""
    whole_row: int = 160
    """The first checkpoint rows of a thread hold all their maps when those are at most so long."""
    whole_life: int = 4
    """A whole block is replaced when what changes have grown by has cost so many times its length."""
    entries: int = 96
    """A program may have so many entries, and one more for every ``entry_bytes`` of the value."""
    entry_bytes: int = 4096
    window: int = 16
    """Too many entries are rewritten so many neighbours at a time, those with the fewest bytes first."""
    dead_part: float = 1.5
    """The segments behind one version together hold at most this times its length, and ``dead_slack``
    more.
    """
    dead_slack: int = 32768
    min_copy: int = 24
    """A shorter match is written as new bytes."""
    places: int = 64
    """The diff gives up after so many changed places; what is behind the last one counts as new."""


DEFAULT: Final = Policy()
