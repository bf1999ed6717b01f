"""A checkpoint's own row: its maps as changes against one whole block
(docs/explanation/storage-layout.md).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from threadmark.checkpoint.layout.codec import KEY_SIZE, Packer, segment_key
from threadmark.checkpoint.layout.diff import common_ends
from threadmark.checkpoint.layout.kinds import BARE, WHOLE
from threadmark.checkpoint.layout.policy import DEFAULT, Policy
from threadmark.checkpoint.layout.program import take_varint, varint
from threadmark.checkpoint.layout.row_changes import Changes, Moved, compared
from threadmark.checkpoint.layout.row_maps import Maps, ValueRef, Whole, index_maps, pack_whole, parse_maps
from threadmark.checkpoint.layout.rows import Segment
from threadmark.checkpoint.layout.versions import Version
from threadmark.errors import DamagedRow
from threadmark.tuples import tuple_of

__all__ = ["EncodedRow", "KnownRow", "Moved", "RowFields", "decode_row", "encode_row"]

_WHOLE: Final = bytes((WHOLE,))
_BARE: Final = bytes((BARE,))
_SEGMENT_PRICE: Final = 64
"""What a database asks for one more row, about."""
_NOTHING: Final[Mapping[str, Any]] = {}
_STEP: Final = 64
"""What the changes of one step take in any case, about: a new whole block would not spare that."""


class RowFields(NamedTuple):
    """The maps of one checkpoint. Not to be changed once handed over; maps come back equal, in any order.

    ``values`` names the value of every channel that has one. An int (0 to 2**63-1) is the id of a value row;
    ids are the saver's own, never reused in the thread. Bytes are kept in the row as they are: for values of
    some 16 bytes or less, for which a row of their own would cost more. ``updated`` is None, or the names, in
    order. ``extra`` is the saver's own bytes (metadata, time); what they have in common with those of the whole
    block's row, at either end, is not stored again.
    """

    versions: Mapping[str, Version] = _NOTHING
    seen: Mapping[str, Mapping[str, Version]] = _NOTHING
    values: Mapping[str, ValueRef] = _NOTHING
    updated: Sequence[str] | None = None
    extra: bytes = b""


class KnownRow(NamedTuple):
    """A checkpoint row in memory: what it says, and the base for the next one of its thread.

    Its maps may be shared with other rows in memory: copy them before handing them out. Rule as for
    ``Known``: inside the writing transaction its stored row must still be the one this was read from or
    written as, else encode with ``base=None``.
    """

    fields: RowFields
    body: bytes
    frame_key: bytes | None = None
    """Key of the segment with the whole block, None when the row is whole itself."""
    whole: Whole | None = None
    credit: int = 0
    """Bytes that rows may still cost before a new whole block is cheaper; of a whole row, what they have cost."""
    changes: list[Changes] | None = None
    """What it says otherwise than ``whole``, if it was made in this process; the first row behind it takes that out."""

    @property
    def refs(self) -> frozenset[bytes]:
        """Keys of the segments that ``body`` depends on: none or one."""
        return frozenset() if self.frame_key is None else frozenset((self.frame_key,))


class EncodedRow(NamedTuple):
    """One checkpoint row ready to store; ``segments`` (none, or one with a new whole block) go in with
    it.
    """

    body: bytes
    segments: tuple[Segment, ...]
    known: KnownRow


def encode_row(
    fields: RowFields,
    base: KnownRow | None,
    *,
    salt: bytes,
    policy: Policy = DEFAULT,
    moved: Moved | None = None,
) -> EncodedRow:
    """The row as changes against the whole block of ``base``; a new whole block when that is cheaper by
    now.

    Never a chain: a row depends on one segment at most, whatever becomes of the base's own row. ``base`` is
    the parent as a rule. TypeError when a version is none of the types of ``Version``. ``moved``, if it is
    known, is all that differs from the base: then the rest is not looked at.
    """
    if base is not None and base.frame_key is not None and base.whole is not None:
        changes = _changes(fields, base, base.whole, moved)
        block = changes.packed()
        credit = base.credit - max(0, len(block) - _STEP)
        if credit >= 0:
            return _bare(fields, base.frame_key, base.whole, credit, changes, block)
    block, make_whole = pack_whole(_maps(fields), fields.extra)
    if len(block) <= policy.whole_row and (base is None or base.frame_key is None):
        # The first few rows do not pay for a segment; a thread may have no more than these.
        spent = len(block) + (0 if base is None else base.credit)
        if base is None or spent <= policy.whole_row + _SEGMENT_PRICE:
            return _inline(fields, spent, block)
    frame = block + fields.extra
    key, data = segment_key(frame, salt), Packer(policy).pack(frame, policy.map_level)
    credit = policy.whole_life * (len(data) + _SEGMENT_PRICE)
    whole = make_whole()
    changes = Changes(whole)
    row = _bare(fields, key, whole, credit, changes, changes.packed())
    return EncodedRow(row.body, (Segment(key, data),), row.known)


def _maps(fields: RowFields) -> Maps:
    return tuple_of(Maps, (fields.versions, fields.seen, fields.values, fields.updated))


def _changes(fields: RowFields, base: KnownRow, whole: Whole, moved: Moved | None) -> Changes:
    maps = _maps(fields)
    if moved is not None and base.changes and (moved.surely or _follows(fields, base.fields, moved)):
        try:
            changes = base.changes.pop()
        except IndexError:  # another thread goes on from the same row, and was quicker
            return compared(maps, whole)
        if changes.advance(maps, moved):
            return changes
    return compared(maps, whole)


def _follows(fields: RowFields, before: RowFields, moved: Moved) -> bool:
    """Whether no channel and no node is gone: there are as many as there were, and the new ones."""
    old, nodes = before.versions, before.seen
    channels, looked = {*moved.channels}.difference(old), {*moved.nodes}.difference(nodes)
    return len(fields.versions) == len(old) + len(channels) and len(fields.seen) == len(nodes) + len(looked)


def _inline(fields: RowFields, spent: int, block: bytes) -> EncodedRow:
    body = b"".join((_WHOLE, varint(spent), block, fields.extra))
    return EncodedRow(body, (), KnownRow(fields, body, credit=spent))


def _bare(fields: RowFields, key: bytes, whole: Whole, credit: int, changes: Changes, block: bytes) -> EncodedRow:
    extra = fields.extra
    front, back = (len(extra), 0) if extra == whole.extra else common_ends(whole.extra, extra)
    own = extra[front : len(extra) - back]
    body = b"".join((_BARE, key, varint(credit), block, varint(front), varint(back), own))
    return tuple_of(EncodedRow, (body, (), tuple_of(KnownRow, (fields, body, key, whole, credit, [changes]))))


def decode_row(body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
    """The row, given the plaintext of the segment that ``frames_wanted((body,))`` names, if any.

    DamagedRow when the bytes are no checkpoint row or the segment is missing.
    """
    try:
        if body[0] == WHOLE:
            spent, at = take_varint(body, 1)
            maps, at = parse_maps(body, at)
            return KnownRow(_fields(maps, body[at:]), body, credit=spent)
        if body[0] == BARE:
            key = body[1 : 1 + KEY_SIZE]
            credit, at = take_varint(body, 1 + KEY_SIZE)
            whole = _whole(frames[key])
            maps, at = parse_maps(body, at, whole)
            return KnownRow(_fields(maps, _extra(body, at, whole.extra)), body, key, whole, credit)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise DamagedRow(
            f"a checkpoint row cannot be read ({error!r}): it or its segment is damaged or missing; "
            "restore it from a backup or go on from another checkpoint"
        ) from error
    raise DamagedRow(f"a row that starts with {body[:1]!r} stands where a checkpoint row should")


def _extra(body: bytes, at: int, whole: bytes) -> bytes:
    front, at = take_varint(body, at)
    back, at = take_varint(body, at)
    if front + back > len(whole):
        raise ValueError("it shares more bytes with its whole block than that has")
    return whole[:front] + body[at:] + whole[len(whole) - back :]


def _fields(maps: Maps, extra: bytes) -> RowFields:
    return RowFields(versions=maps.versions, seen=maps.seen, values=maps.values, updated=maps.updated, extra=extra)


# Neighbours in a history share their whole block; what a block says never changes.
@lru_cache(maxsize=64)
def _whole(block: bytes) -> Whole:
    return index_maps(block)
