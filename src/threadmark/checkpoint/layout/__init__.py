"""What every backend stores: rows, programs and segments. Pure: bytes in, rows out; no I/O, no clock.

A value's encoded bytes become a small *body* (one row of its own) and *segments* (immutable rows, shared by
the versions of one thread). Bytes that an earlier value of the thread holds already are not stored again.

Writing, in one transaction::

    encoded = encode(plain, base, salt=salt)        # base: a Known of this thread, or None
    # base's stored row differs from what was read, or is gone: encode(plain, None, salt=salt)
    # insert-or-ignore every one of encoded.segments; insert encoded.body; remember encoded.known

Reading, in at most three queries however many rows::

    bodies = ...                                                    # query 1
    frames = open_segments(fetch(frames_wanted(bodies)))            # query 2, if any: {key: row data}
    programs = read_programs(bodies, frames)
    segments = open_segments(fetch(segments_wanted(programs)))      # query 3, if any
    values = [assemble(b, p, segments) for b, p in zip(bodies, programs)]           # .plain, and a base

``Assembly`` takes the third query's rows some at a time, for values that are read once.

Collecting: in one transaction delete rows, then all segments that are not in ``reachable(bodies, frames)`` of
the rows that are left. A task write is encoded and read in the same way, with the channel's value as base; so
is any other bytes of the thread. Checkpoint rows go through ``encode_row`` and ``decode_row``, and their
frames through the same two functions as those of values.
"""

from __future__ import annotations

from threadmark.checkpoint.layout.checkpoint_row import (
    EncodedRow,
    KnownRow,
    Moved,
    RowFields,
    decode_row,
    encode_row,
)
from threadmark.checkpoint.layout.codec import segment_key
from threadmark.checkpoint.layout.encode import encode
from threadmark.checkpoint.layout.kinds import frame_keys
from threadmark.checkpoint.layout.pieces import Pieces, Plain, equal, joined
from threadmark.checkpoint.layout.plans import (
    CheckpointKey,
    History,
    Node,
    Plan,
    hidden_fields,
    plan_delete_runs,
    plan_history,
    plan_prune,
    value_ids,
)
from threadmark.checkpoint.layout.policy import DEFAULT, Policy
from threadmark.checkpoint.layout.program import Program
from threadmark.checkpoint.layout.read import (
    Assembly,
    assemble,
    check_segment,
    decode,
    decode_many,
    frames_wanted,
    inline_body,
    inline_value,
    open_segment,
    open_segments,
    parted_values,
    reachable,
    read_programs,
    segments_wanted,
)
from threadmark.checkpoint.layout.row_maps import ValueRef
from threadmark.checkpoint.layout.rows import Encoded, Known, Segment
from threadmark.checkpoint.layout.versions import Version

__all__ = [
    "DEFAULT",
    "Assembly",
    "CheckpointKey",
    "Encoded",
    "EncodedRow",
    "History",
    "Known",
    "KnownRow",
    "Moved",
    "Node",
    "Pieces",
    "Plain",
    "Plan",
    "Policy",
    "Program",
    "RowFields",
    "Segment",
    "ValueRef",
    "Version",
    "assemble",
    "check_segment",
    "decode",
    "decode_many",
    "decode_row",
    "encode",
    "encode_row",
    "equal",
    "frame_keys",
    "frames_wanted",
    "hidden_fields",
    "inline_body",
    "inline_value",
    "joined",
    "open_segment",
    "open_segments",
    "parted_values",
    "plan_delete_runs",
    "plan_history",
    "plan_prune",
    "reachable",
    "read_programs",
    "segment_key",
    "segments_wanted",
    "value_ids",
]
