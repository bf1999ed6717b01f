"""Lists of names and numbers as bytes that C reads in one call: a checkpoint row is read more often than it
is made.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Final

from threadmark.checkpoint.layout.program import take_varint, varint

__all__ = ["numbers_packed", "places_packed", "take_numbers", "take_texts", "texts_packed"]

_CODES: Final = "BHIQ"
_SIZES: Final = (1, 2, 4, 8)
_LIMITS: Final = (1 << 8, 1 << 16, 1 << 32, 1 << 64)
_SEPARATORS: Final = ("\x00", "\n", *(chr(number) for number in range(1, 10)), "\ue000")


def numbers_packed(numbers: Collection[int]) -> bytes:
    """Non-negative integers below 2**64: count and width, then all of them at the width of the greatest."""
    try:
        return varint(len(numbers) << 2) + bytes(numbers)
    except ValueError:
        width = _width(max(numbers))
        return varint(len(numbers) << 2 | width) + struct.pack(f"<{len(numbers)}{_CODES[width]}", *numbers)


def places_packed(places: str) -> bytes:
    """The same of numbers that are characters."""
    try:
        return varint(len(places) << 2) + places.encode("latin-1")
    except UnicodeEncodeError:
        width = _width(ord(max(places)))
        data = places.encode("utf-16-le" if width == 1 else "utf-32-le", "surrogatepass")
        return varint(len(places) << 2 | width) + data


def _width(greatest: int) -> int:
    for width, limit in enumerate(_LIMITS):
        if greatest < limit:
            return width
    raise ValueError(f"{greatest} is too great a number for a checkpoint row; value ids end at 2**63-1")


def take_numbers(data: bytes, at: int) -> tuple[Sequence[int], int]:
    """The numbers at ``at`` and the position behind them; IndexError when the data ends before."""
    head, at = take_varint(data, at)
    count, width = head >> 2, head & 3
    end = at + count * _SIZES[width]
    if end > len(data):
        raise IndexError
    if width == 0:
        return data[at:end], end
    return struct.unpack_from(f"<{count}{_CODES[width]}", data, at), end


def texts_packed(texts: Collection[str]) -> bytes:
    """Strings, joined by a character that none of them holds."""
    count, separator, sizes = len(texts), _SEPARATORS[0], b""
    if not count:
        return b"\0"
    joined = separator.join(texts)
    if joined.count(separator) >= count:
        plain = "".join(texts)
        separator = next((mark for mark in _SEPARATORS if mark not in plain), "")
        joined = separator.join(texts)
        if not separator:
            sizes = numbers_packed([len(text) for text in texts])
    blob = joined.encode("utf-8", "surrogatepass")
    mark = varint(ord(separator) + 1 if separator else 0)
    return b"".join((varint(count), mark, sizes, varint(len(blob)), blob))


def take_texts(data: bytes, at: int) -> tuple[list[str], int]:
    """The strings at ``at`` and the position behind them; ValueError when they are not as many as it
    says.
    """
    count, at = take_varint(data, at)
    if not count:
        return [], at
    mark, at = take_varint(data, at)
    if mark > 0x110000:
        raise ValueError("no character has such a number")
    sizes: Sequence[int] = ()
    if not mark:
        sizes, at = take_numbers(data, at)
    size, at = take_varint(data, at)
    if at + size > len(data):
        raise IndexError
    text, end = data[at : at + size].decode("utf-8", "surrogatepass"), at + size
    texts = text.split(chr(mark - 1)) if mark else _sliced(text, sizes)
    if len(texts) != count:
        raise ValueError("not as many strings as it says")
    return texts, end


def _sliced(text: str, sizes: Sequence[int]) -> list[str]:
    texts, at = list[str](), 0
    for size in sizes:
        texts.append(text[at : at + size])
        at += size
    if at != len(text):
        raise ValueError("the strings' lengths do not add up")
    return texts
