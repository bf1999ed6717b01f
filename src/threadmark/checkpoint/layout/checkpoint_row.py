"""A checkpoint's own row: its maps as changes against one whole row
(docs/explanation/storage-layout.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from threadmark.checkpoint.layout.policy import Policy
from threadmark.checkpoint.layout.rows import Segment

__all__ = ["EncodedRow", "KnownRow", "RowFields", "ValueRef", "Version", "decode_row", "encode_row"]

Version: TypeAlias = "str | int | float | bool | bytes | tuple[Version, ...] | None"
"""A channel's version. Comes back with the same type and the same value, whatever it is of these."""

ValueRef: TypeAlias = "int | bytes"
"""Where a channel's value is: the id of its value row (0 to 2**63-1), or a tiny value itself, kept in the
row.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFields:
    """The maps of one checkpoint. Not to be changed once handed over; maps come back equal, their order may
    differ.

    ``values`` names the value of every channel that has one. An int is the id of a value row; ids are the
    saver's own, never reused in the thread. Bytes are kept in the row as they are: for values of some 16
    bytes or less, for which a row of their own would cost more. ``updated`` is None, or the names, in
    order. ``extra`` is the saver's own bytes (metadata, time), stored as they are.
    """

    versions: Mapping[str, Version] = field(default_factory=dict)
    seen: Mapping[str, Mapping[str, Version]] = field(default_factory=dict)
    values: Mapping[str, ValueRef] = field(default_factory=dict)
    updated: Sequence[str] | None = None
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class KnownRow:
    """A checkpoint row in memory: what it says, and the base for the next one of its thread and namespace.

    Rule as for ``Known``: inside the writing transaction its stored row must still be the one this was read
    from.
    """

    fields: RowFields
    body: bytes
    frame_key: bytes | None = None
    """Key of the segment with the whole row, None when the row is whole itself."""
    whole: bytes | None = field(repr=False, default=None)
    """That segment's plaintext."""
    spent: int = 0
    """Bytes of all changes since the whole row was made."""


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """One checkpoint row ready to store: ``segments`` (none, or the one with a new whole row) go in with
    it.
    """

    body: bytes
    segments: tuple[Segment, ...]
    known: KnownRow


def encode_row(fields: RowFields, base: KnownRow | None, *, salt: bytes, policy: Policy | None = None) -> EncodedRow:
    """The row as changes against the whole row that ``base`` is based on; a new whole row when that is
    cheaper.

    Never a chain: a row depends on one segment at most, whatever became of the base's own row. ``base`` is
    the parent as a rule. TypeError when a version is none of the types of ``Version``.
    """
    raise NotImplementedError


def decode_row(body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
    """The row, given the plaintext of the segment that ``frames_wanted((body,))`` names (if any)."""
    raise NotImplementedError
