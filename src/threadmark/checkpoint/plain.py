"""One run of bytes for a value: what a serializer made, its tag in front. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeAlias

from threadmark.errors import DamagedRow

Typed: TypeAlias = tuple[str, bytes]
"""A serializer's tag and bytes."""

_TAGS: Final = ("null", "bytes", "bytearray", "msgpack", "json", "pickle")
_CODES: Final = {tag: bytes([code]) for code, tag in enumerate(_TAGS)}
_SPELLED: Final = 255
MSGPACK: Final = _CODES["msgpack"][0]


def join(typed: Typed) -> bytes:
    """The value as the layout stores it: a code for a common tag, or the tag spelled out, then the bytes."""
    tag, data = typed
    code = _CODES.get(tag)
    if code is not None:
        return code + data
    name = tag.encode()
    if len(name) > 255:
        raise ValueError(f"a serializer's tag has at most 255 bytes, not {len(name)}: {tag[:40]!r}...")
    return bytes((_SPELLED, len(name))) + name + data


def split(plain: bytes) -> Typed:
    """The inverse of ``join``."""
    code = plain[0] if plain else -1
    if 0 <= code < len(_TAGS):
        return _TAGS[code], plain[1:]
    if code == _SPELLED and len(plain) >= 2 and len(plain) >= (end := 2 + plain[1]):
        with suppress(UnicodeDecodeError):
            return plain[2:end].decode(), plain[end:]
    raise DamagedRow(f"a stored value starts with {plain[:2]!r}, which says nothing; restore it from a backup")
