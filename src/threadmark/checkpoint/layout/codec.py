"""One flag byte in front of stored bytes says how they are packed; segment keys are keyed hashes of the
plaintext.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import Final

import zstandard

from threadmark.checkpoint.layout.policy import Policy
from threadmark.errors import DamagedRow

__all__ = ["KEY_SIZE", "MAX_PLAIN", "Packer", "patch", "segment_key", "unpack", "unpack_all", "unpatch"]

KEY_SIZE: Final = 16
MAX_PLAIN: Final = 1 << 24
"""No segment or frame is longer (16 MiB): a stored row cannot ask a reader for more memory than that."""

RAW: Final = 0
ZSTD: Final = 1
_FLAG_RAW: Final = bytes([RAW])
_FLAG_ZSTD: Final = bytes([ZSTD])
_PROBE: Final = 4096
_PERSON: Final = b"tm.segment"
_FRAMES_KEPT: Final = 2
_PATCHING_KEPT: Final = 8


def segment_key(plain: bytes, salt: bytes) -> bytes:
    """BLAKE2b of the plaintext, 16 bytes, keyed by the thread's ``salt`` (1 to 64 bytes)."""
    return hashlib.blake2b(plain, digest_size=KEY_SIZE, key=salt, person=_PERSON).digest()


class _Engines(threading.local):
    """Compressors and decompressors of one thread: no two threads may use one at once.

    To make a compressor costs twice as much as compressing two kilobytes, a decompressor 8 us: four times as much as
    reading a row that is a patch. Each decompressor keeps 96 KB of memory.
    """

    def __init__(self) -> None:
        self._made: dict[int, zstandard.ZstdCompressor] = {}
        self.plain = zstandard.ZstdDecompressor()
        self._patched: dict[bytes, zstandard.ZstdDecompressor] = {}
        self._patching: dict[tuple[bytes, int], zstandard.ZstdCompressor] = {}

    def of(self, level: int) -> zstandard.ZstdCompressor:
        engine = self._made.get(level)
        if engine is None:
            engine = self._made[level] = zstandard.ZstdCompressor(level=level, write_checksum=True)
        return engine

    def behind(self, frame: bytes) -> zstandard.ZstdDecompressor:
        """One for patches of this frame; rows that are read together, or one after the other, share a frame or two."""
        engine = self._patched.get(frame)
        if engine is None:
            if len(self._patched) >= _FRAMES_KEPT:
                self._patched.clear()
            engine = self._patched[frame] = zstandard.ZstdDecompressor(dict_data=_dictionary(frame))
        return engine

    def ahead(self, frame: bytes, level: int) -> zstandard.ZstdCompressor:
        """One for patches of this frame: with a new one each a patch takes four times as long. It keeps 200 KB."""
        engine = self._patching.get((frame, level))
        if engine is None:
            if len(self._patching) >= _PATCHING_KEPT:
                del self._patching[next(iter(self._patching))]
            engine = self._patching[frame, level] = zstandard.ZstdCompressor(
                level=level, dict_data=_dictionary(frame), write_checksum=True, write_dict_id=False
            )
        return engine


_engines: Final = _Engines()


class Packer:
    """Flag byte and data: compressed where that pays, else raw."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def pack(self, plain: bytes, level: int | None = None) -> bytes:
        """The packed form of ``plain``; ``level`` is another zstd level than the policy's."""
        if self._policy.compress and len(plain) > 32:
            engine = _engines.of(self._policy.level if level is None else level)
            if _shrinks(plain, engine):
                packed = engine.compress(plain)
                if len(packed) < len(plain):
                    return _FLAG_ZSTD + packed
        return _FLAG_RAW + plain


def unpack(data: bytes) -> bytes:
    """The plaintext of ``Packer.pack``.

    Raises DamagedRow on anything else; never allocates more than MAX_PLAIN.
    """
    flag = data[0] if data else -1
    if flag == ZSTD:
        return _decompress(_engines.plain, memoryview(data)[1:])
    if flag == RAW:
        return data[1:]
    raise DamagedRow(_what(f"its packing byte is {flag}" if data else "it is empty"))


def unpack_all(rows: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """``unpack`` for many rows."""
    return {key: unpack(data) for key, data in rows.items()}


def patch(plain: bytes, frame: bytes, level: int) -> bytes:
    """``plain`` compressed with ``frame`` as dictionary; a few dozen bytes when they differ little."""
    return _engines.ahead(frame, level).compress(plain)


def unpatch(data: bytes, frame: bytes) -> bytes:
    """The plaintext of ``patch``, given the same frame."""
    return _decompress(_engines.behind(frame), data)


def _dictionary(frame: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(frame, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _shrinks(plain: bytes, engine: zstandard.ZstdCompressor) -> bool:
    # A probe of the middle tells images and random numbers from text for a tenth of the price.
    if len(plain) <= 2 * _PROBE:
        return True
    middle = len(plain) // 2
    probe = plain[middle : middle + _PROBE]
    return len(engine.compress(probe)) < _PROBE * 0.97


def _decompress(engine: zstandard.ZstdDecompressor, data: bytes | memoryview) -> bytes:
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= MAX_PLAIN:
            raise DamagedRow(_what(f"it declares {size} bytes, the limit is {MAX_PLAIN}"))
        return engine.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedRow(_what(str(error))) from error


def _what(why: str) -> str:
    return (
        f"a stored row cannot be unpacked: {why}; it was damaged or written by something else, "
        "restore it from a backup or go on from an earlier checkpoint"
    )
