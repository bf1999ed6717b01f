"""How a checkpoint's maps become the body of its row: packed for a disk, or kept as they are in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Final, Protocol

from threadmark.checkpoint.layout import (
    EncodedRow,
    KnownRow,
    Policy,
    RowFields,
    decode_row,
    encode_row,
    frames_wanted,
)


class MapForm(Protocol):
    """Turns the maps of a checkpoint into a body and back."""

    def encode(self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy) -> EncodedRow: ...

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow: ...

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        """Keys of the segments to fetch before these bodies can be decoded."""
        ...


class _Packed:
    def encode(self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy) -> EncodedRow:
        return encode_row(fields, base, salt=salt, policy=policy)

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
        return decode_row(body, frames)

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        return frames_wanted(bodies)


class KeptBody(bytes):
    """Stands for maps that are in memory; its bytes are a number that no other body has."""

    fields: RowFields


class _Kept:
    """Saves what packing costs, over half of storing a small step. The maps hold no objects of the user's."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def encode(self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy) -> EncodedRow:
        body = KeptBody(next(self._numbers).to_bytes(8, "big"))
        body.fields = fields
        return EncodedRow(body, (), KnownRow(fields, body))

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
        assert isinstance(body, KeptBody)
        return KnownRow(body.fields, body)

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        return ()


PACKED: Final[MapForm] = _Packed()
KEPT: Final[MapForm] = _Kept()
