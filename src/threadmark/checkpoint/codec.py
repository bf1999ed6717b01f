"""How one saver turns values and maps into stored bytes: its serializer, its form of maps, its seal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, Protocol

from threadmark.checkpoint.facts import Dumps
from threadmark.checkpoint.layout import (
    DEFAULT,
    EncodedRow,
    KnownRow,
    Moved,
    Plain,
    Policy,
    RowFields,
    decode_row,
    encode_row,
    frames_wanted,
    joined,
)
from threadmark.checkpoint.long_lists import LONG, LongList, is_long, items_of, lengthened, repacked, unpacked
from threadmark.checkpoint.plain import MSGPACK, join, split
from threadmark.checkpoint.records import CheckpointRow, TaskRow
from threadmark.checkpoint.serde.base import maybe_add_typed_methods
from threadmark.checkpoint.serde.buffers import proof
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.wire import load_plain, pack_plain
from threadmark.tuples import tuple_of

_NULL: Final = join(("null", b""))
_MSGPACK: Final = bytes((MSGPACK,))
_MSGPACK_TYPES: Final = frozenset((bool, dict, float, int, list, str))


class Seal(Protocol):
    """Encrypts the rows of one thread, each bound to its place."""

    def seal(self, place: Sequence[Any], data: bytes) -> bytes: ...

    def open(self, place: Sequence[Any], data: bytes) -> bytes: ...

    def is_current(self, data: bytes) -> bool: ...


class MapForm(Protocol):
    """Turns the maps of a checkpoint into a body and back."""

    compares: bool
    """Whether it looks for what has moved since the base."""
    kept: bool
    """Whether maps are in memory as they are, so that nothing is won by remembering them."""

    def encode(
        self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy, moved: Moved | None
    ) -> EncodedRow:
        """``moved``: as ``encode_row`` takes it."""
        ...

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow: ...

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        """Keys of the segments to fetch before these bodies can be decoded."""
        ...


class _Packed:
    compares, kept = True, False

    def encode(
        self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy, moved: Moved | None
    ) -> EncodedRow:
        return encode_row(fields, base, salt=salt, policy=policy, moved=moved)

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
        return decode_row(body, frames)

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        return frames_wanted(bodies)


class KeptBody(bytes):
    """Stands for maps that are in memory; its bytes are a number that no other body has."""

    fields: RowFields


class _Kept:
    """Saves what packing costs, over half of storing a small step. The maps hold no objects of the user's."""

    compares, kept = False, True

    def __init__(self) -> None:
        self._numbers = count(1)

    def encode(
        self, fields: RowFields, base: KnownRow | None, salt: bytes, policy: Policy, moved: Moved | None
    ) -> EncodedRow:
        body = KeptBody(next(self._numbers).to_bytes(8, "big"))
        body.fields = fields
        return tuple_of(EncodedRow, (body, (), KnownRow(fields, body)))

    def decode(self, body: bytes, frames: Mapping[bytes, bytes]) -> KnownRow:
        assert isinstance(body, KeptBody)
        return KnownRow(body.fields, body)

    def frames(self, bodies: Sequence[bytes]) -> Collection[bytes]:
        return ()


PACKED: Final[MapForm] = _Packed()
KEPT: Final[MapForm] = _Kept()


class Codec:
    """One serializer, taken apart if it encrypts and can be: its inner serializer, and a seal for each thread."""

    __slots__ = ("_ours", "atoms", "config_keys", "dumps", "hash_key", "loads", "maps", "policy", "seal", "serde")

    def __init__(
        self, serde: Any, config_keys: Sequence[str], *, in_memory: bool = False, policy: Policy = DEFAULT
    ) -> None:
        self.serde = serde
        self.config_keys = config_keys
        bind = getattr(serde, "bind", None)
        inner = serde.serde if bind is not None else serde
        if type(inner) is not JsonPlusSerializer:
            inner = maybe_add_typed_methods(inner)
        self.dumps = _joined(inner)
        self.loads = inner.loads_typed
        self._ours: JsonPlusSerializer | None = inner if type(inner) is JsonPlusSerializer else None
        self.atoms: Mapping[Any, Any] = {_NULL: None} if self._ours is not None else {}
        """Values whose bytes say all: None, which starts most nodes."""
        self.policy = policy
        self.maps = KEPT if in_memory and bind is None else PACKED
        self.seal: Callable[[str], Seal | None] = _no_seal if bind is None else lru_cache(maxsize=1024)(bind)
        """The seal of a thread; None when nothing is encrypted, or each value by itself."""
        self.hash_key = _salt_alone if bind is None else lru_cache(maxsize=1024)(self._hash_key)
        """What keys the hashes of a thread's segments, given its id and salt."""

    @property
    def is_ours(self) -> bool:
        """Whether the serializer is ours, which writes equal short values alike whenever it is asked."""
        return self._ours is not None

    def load(self, plain: Plain) -> Any:
        """A value from its bytes as ``join`` made them."""
        ours = self._ours
        if ours is not None:
            if plain == _NULL:
                return None
            if isinstance(plain, LongList):
                return unpacked(plain, load_plain)
            if type(plain) is bytes and plain[:1] == _MSGPACK:
                # A copy of it would cost a fifth of reading a value of half a megabyte.
                return ours.unpack(memoryview(plain)[1:] if len(plain) > LONG else plain[1:])
        return self.loads(split(joined(plain)))

    def load_list(self, plain: Plain) -> tuple[Any, Plain | None]:
        """A value, and its bytes if it is a long list of plain values."""
        if isinstance(plain, LongList):
            return self.load(plain), plain
        if self._ours is None or type(plain) is not bytes or not is_long(plain):
            return self.load(plain), None
        value, is_plain = self._ours.unpack_noting(memoryview(plain)[1:])
        return value, plain if is_plain else None

    def dump_list(self, items: Any, earlier: Plain | None, begins_with: Plain | None) -> Plain | None:
        """A list that is like an earlier value of its channel, or begins with one; None: it has to be written whole."""
        if self._ours is None:
            return None
        if begins_with is not None and (known := items_of(begins_with)) is not None:
            return lengthened(known, items, pack_plain, proof)
        old = items_of(earlier) if earlier is not None else None
        made = repacked(old, items, pack_plain, proof) if old is not None else None
        return joined(made) if made is not None and len(made) < LONG else made

    def _hash_key(self, thread_id: str, salt: bytes) -> bytes:
        # Whoever reads the file must not be able to tell by the hash that a segment holds a text they guessed.
        seal = self.seal(thread_id)
        secret = getattr(seal, "segment_key", None) if seal is not None else None
        return salt if secret is None else hashlib.blake2b(salt, key=secret, digest_size=32).digest()


def _joined(serde: Any) -> Dumps:
    """What a serializer makes, as one run of bytes."""
    dumps_typed = serde.dumps_typed
    if type(serde) is not JsonPlusSerializer:
        return lambda value: join(dumps_typed(value))
    pack = serde.pack

    def dumps(value: Any) -> bytes:
        if value is None:  # half of what small steps write: what starts the next node
            return _NULL
        if type(value) in _MSGPACK_TYPES:  # without dumps_typed() and join(): a third of what a small value takes
            return _MSGPACK + pack(value)
        return join(dumps_typed(value))

    return dumps


def _no_seal(thread_id: str) -> None:
    return None


def _salt_alone(thread_id: str, salt: bytes) -> bytes:
    return salt


def checkpoint_place(row: CheckpointRow) -> tuple[Any, ...]:
    """What a checkpoint row's ciphertext is bound to: its name and all that is readable beside it."""
    return ("checkpoint", row.ns, row.id, *row.columns)


def task_place(row: TaskRow) -> tuple[Any, ...]:
    """What a task row's ciphertext is bound to."""
    return ("task", row.ns, row.id, row.task_id, row.path)


def value_place(id: int) -> tuple[Any, ...]:
    """What a value row's ciphertext is bound to. Which channel it belongs to stands in sealed checkpoint rows."""
    return ("value", id)


def segment_place(key: bytes) -> tuple[Any, ...]:
    """What a segment's ciphertext is bound to."""
    return ("segment", key)
