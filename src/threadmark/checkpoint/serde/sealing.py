"""Bytes that are bound to their place: what savers do with each row of an encrypted thread (house section 7).

Two envelopes. With our own keys: AES-256-GCM with a key per thread, the place as associated data. With a cipher of the
user's, which knows no associated data: a digest of the place inside the plaintext, compared after decryption.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from xxhash import xxh3_64_digest

from threadmark.checkpoint.serde.errors import DamagedValue, MovedValue, PlaintextValue, UnknownKey, WrongKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from threadmark.checkpoint.serde.base import CipherProtocol

__all__ = ["CipherSealer", "KeySealer", "Keys", "Sealer", "is_sealed", "place_bytes"]

# 0xC1 starts no msgpack value, so a plaintext row is told from a sealed one by its first byte.
_MARK = b"\xc1"
BOUND, UNBOUND, FOREIGN = b"\x01", b"\x02", b"\x03"
_NONCE, _TAG, _SUM, _PRINT = 12, 16, 4, 4


class Sealer(Protocol):
    """Encrypts the rows of one thread. ``place`` is what tells a row from all others: texts, bytes, numbers, None."""

    @property
    def segment_key(self) -> bytes | None:
        """A secret of the thread for keyed hashes, 32 bytes; None when the cipher shares none."""

    def seal(self, place: Sequence[Any], data: bytes) -> bytes: ...

    def open(self, place: Sequence[Any], data: bytes) -> bytes: ...

    def is_current(self, data: bytes) -> bool:
        """Whether a sealed row is under what ``seal`` uses now; not whether it opens."""


def is_sealed(data: bytes) -> bool:
    """Whether a row claims to be sealed. No plaintext row of ours starts as a sealed one does."""
    return data[:1] == _MARK


class Keys:
    """Master keys by id, one of them active. New values take the active one; all can be read.

    ``retired`` are keys that only read, whatever the id that they once had. Raises ValueError for keys that are not
    16, 24 or 32 bytes, and ImportError without the ``encryption`` extra.
    """

    __slots__ = ("_head", "_retired", "active", "keys", "prints")

    def __init__(self, keys: Mapping[str, bytes], active: str, retired: Sequence[bytes] = ()) -> None:
        if active not in keys:
            raise ValueError(f"the active key {active!r} is not among the keys {sorted(keys)}")
        for id, key in (*keys.items(), *(("", key) for key in retired)):
            if type(key) is not bytes or len(key) not in (16, 24, 32):
                name = f"key {id!r}" if id else "the key"
                raise ValueError(f"{name} must be 16, 24 or 32 bytes long, not {len(key)} ({type(key).__name__})")
            if len(id.encode()) > 255:
                raise ValueError(f"key id {id[:20]!r}... is longer than 255 bytes")
        _aes_gcm()
        self.keys = dict(keys)
        self.active = active
        self.prints = {id: _print(key) for id, key in keys.items()}
        self._retired = {_print(key): key for key in retired}
        self._head = active.encode(), self.prints[active]

    def every(self) -> list[bytes]:
        """All keys."""
        return [*self.keys.values(), *self._retired.values()]

    def is_current(self, kind: bytes, sealed: bytes) -> bool:
        """Whether the active key sealed this, as its head says."""
        id, mark = self._head
        return sealed.startswith(b"".join((_MARK, kind, len(id).to_bytes(1, "big"), id, mark)))

    def seal(self, kind: bytes, info: bytes, place: bytes, data: bytes) -> bytes:
        """``data`` under the active key's descendant for ``info``; ``place`` is bound to it."""
        id, mark = self._head
        head = b"".join((_MARK, kind, len(id).to_bytes(1, "big"), id, mark))
        nonce = os.urandom(_NONCE)
        sealed = head + nonce + _cipher(self.keys[self.active], info).encrypt(nonce, data, head + place)
        return sealed + _checksum(sealed)

    def open(self, kind: bytes, info: bytes, place: bytes, sealed: bytes) -> bytes:
        """What ``seal`` was given. Raises an EncryptionError that says why not."""
        key, end = self._key_of(kind, sealed)
        from cryptography.exceptions import InvalidTag

        nonce, body = sealed[end : end + _NONCE], sealed[end + _NONCE : -_SUM]
        try:
            return _cipher(key, info).decrypt(nonce, body, sealed[:end] + place)
        except InvalidTag:
            raise MovedValue(
                "this encrypted value was written at another place (another thread, checkpoint, value or channel) and "
                "has been moved here; the storage was tampered with, or rows were copied without copy_thread"
            ) from None

    def _key_of(self, kind: bytes, sealed: bytes) -> tuple[bytes, int]:
        """The key, and where the nonce starts."""
        if sealed[:1] != _MARK or len(sealed) < 3:
            raise PlaintextValue(_PLAIN)
        if sealed[1:2] != kind:
            raise _other_kind(sealed[1:2], kind)
        end = 3 + sealed[2]
        if len(sealed) < end + _PRINT + _NONCE + _TAG + _SUM or _checksum(sealed[:-_SUM]) != sealed[-_SUM:]:
            raise DamagedValue(_DAMAGED)
        id, mark = sealed[3:end].decode("utf-8", "replace"), sealed[end : end + _PRINT]
        if self.prints.get(id) == mark:
            return self.keys[id], end + _PRINT
        if mark in self._retired:
            return self._retired[mark], end + _PRINT
        if id not in self.keys:
            raise UnknownKey(
                f"this value was encrypted with key {id!r}, and only {', '.join(map(repr, sorted(self.keys)))} were "
                f"given; pass the old key too: EncryptedSerializer.from_keys({{...}}, active=...)"
            )
        raise WrongKey(
            f"this value was encrypted with another key than the one given"
            f"{f' under the name {id!r}' if id else ''}; pass the key that wrote it"
        )


def _print(key: bytes) -> bytes:
    """Tells keys apart without saying anything about them."""
    return _derived(key, b"threadmark key print", b"")[:_PRINT]


def _checksum(data: bytes) -> bytes:
    """Tells accident from intent, so that errors can: anybody could make it right, and then the cipher objects."""
    return xxh3_64_digest(data)[:_SUM]


_PLAIN = (
    "this value was never encrypted by this serializer: it is plaintext, or comes from elsewhere. Rows of an "
    "encrypting saver must be encrypted; if the thread was made before encryption was turned on, run "
    "`threadmark rekey --from-plain`"
)
_DAMAGED = (
    "this encrypted value is damaged: bytes were cut off or changed after it was written; restore it from a backup"
)


def _other_kind(found: bytes, wanted: bytes) -> Exception:
    if found == UNBOUND and wanted != UNBOUND:
        return MovedValue(
            "this encrypted value is bound to no place: it was made by dumps_typed outside of a saver, and may not "
            "stand in a saver's row"
        )
    if wanted == UNBOUND and found in (BOUND, FOREIGN):
        return MovedValue("this encrypted value belongs into a saver's row; only the saver can open it")
    if found in (BOUND, UNBOUND, FOREIGN):
        return WrongKey("this value was encrypted with another cipher than the one given")
    return PlaintextValue(_PLAIN)


class KeySealer:
    """Seals rows of one thread under our own keys."""

    __slots__ = ("_info", "_keys")

    def __init__(self, keys: Keys, thread_id: str) -> None:
        self._keys = keys
        self._info = b"threadmark thread\0" + thread_id.encode("utf-8", "surrogatepass")

    @property
    def segment_key(self) -> bytes:
        """A secret of the thread for keyed hashes, 32 bytes; another one when another key becomes active."""
        return _derived(self._keys.keys[self._keys.active], b"threadmark segment", self._info)

    def seal(self, place: Sequence[Any], data: bytes) -> bytes:
        """Ciphertext that opens at this place only."""
        return self._keys.seal(BOUND, self._info, place_bytes(place), data)

    def open(self, place: Sequence[Any], data: bytes) -> bytes:
        """The plaintext. Raises an EncryptionError that says if it is plain, moved, damaged or under another key."""
        return self._keys.open(BOUND, self._info, place_bytes(place), data)

    def is_current(self, data: bytes) -> bool:
        """Whether the active key sealed this row."""
        return self._keys.is_current(BOUND, data)


class CipherSealer:
    """Seals rows of one thread with a cipher of the user's."""

    __slots__ = ("_cipher", "_thread")
    segment_key: bytes | None = None

    def __init__(self, cipher: CipherProtocol, thread_id: str) -> None:
        self._cipher = cipher
        self._thread = thread_id

    def seal(self, place: Sequence[Any], data: bytes) -> bytes:
        """Ciphertext whose plaintext says where it belongs."""
        name, sealed = self._cipher.encrypt(FOREIGN + self._digest(place) + data)
        label = name.encode()
        return b"".join((_MARK, FOREIGN, len(label).to_bytes(1, "big"), label, sealed))

    def open(self, place: Sequence[Any], data: bytes) -> bytes:
        """The plaintext. What the cipher raises counts as damage."""
        if data[:1] != _MARK or len(data) < 3:
            raise PlaintextValue(_PLAIN)
        if data[1:2] != FOREIGN:
            raise _other_kind(data[1:2], FOREIGN)
        end = 3 + data[2]
        try:
            plain = self._cipher.decrypt(data[3:end].decode(), data[end:])
        except Exception as error:
            raise DamagedValue(f"{_DAMAGED}; or another key wrote it ({type(error).__name__}: {error})") from error
        if plain[:1] != FOREIGN:
            raise MovedValue("this encrypted value is bound to no place, and may not stand in a saver's row")
        if not hmac.compare_digest(plain[1:17], self._digest(place)):
            raise MovedValue("this encrypted value was written at another place and has been moved here")
        return plain[17:]

    def is_current(self, data: bytes) -> bool:
        """Whether the row names the cipher that new rows are encrypted with."""
        label = self._cipher.encrypt(b"")[0].encode()
        return data.startswith(b"".join((_MARK, FOREIGN, len(label).to_bytes(1, "big"), label)))

    def _digest(self, place: Sequence[Any]) -> bytes:
        return hashlib.sha256(place_bytes((self._thread, *place))).digest()[:16]


def place_bytes(place: Sequence[Any]) -> bytes:
    """One byte string per place: each part with its type and length, so that no two places look alike."""
    out = []
    for part in place:
        if part is None:
            tag, body = b"n", b""
        elif isinstance(part, bool):
            tag, body = b"t", b"%d" % part
        elif isinstance(part, str):
            tag, body = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, bytes):
            tag, body = b"b", part
        elif isinstance(part, int | float):
            tag, body = b"d", repr(part).encode()
        elif isinstance(part, Mapping):
            tag, body = b"m", place_bytes([each for key in sorted(part) for each in (key, part[key])])
        elif isinstance(part, Sequence):
            tag, body = b"l", place_bytes(part)
        else:
            raise TypeError(f"a place is made of texts, bytes, numbers and None, not {type(part).__name__}")
        out.append(tag + len(body).to_bytes(4, "big") + body)
    return b"".join(out)


def _aes_gcm() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ImportError("encryption needs the cryptography package: pip install 'threadmark[encryption]'") from error
    return AESGCM


def _derived(key: bytes, purpose: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 of a master key, 32 bytes."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose + b"\0" + info).derive(key)


@lru_cache(maxsize=256)
def _cipher(key: bytes, info: bytes) -> AESGCM:
    return _aes_gcm()(_derived(key, b"threadmark encrypt", info))
