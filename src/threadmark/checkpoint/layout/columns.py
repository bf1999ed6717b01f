"""Lists of names and numbers as bytes that C reads in one call: a checkpoint row is read more often than it
is made.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Final

from threadmark.checkpoint.layout.program import take_varint, varint

__all__ = ["put_numbers", "put_places", "put_texts", "take_numbers", "take_texts"]

_CODES: Final = "BHIQ"
_SIZES: Final = (1, 2, 4, 8)
_LIMITS: Final = (1 << 8, 1 << 16, 1 << 32, 1 << 64)
_SEPARATORS: Final = ("\x00", "\n", *(chr(number) for number in range(1, 10)), "\ue000")


def put_numbers(out: bytearray, numbers: Collection[int]) -> None:
    """Append non-negative integers below 2**64: count and width, then all of them at the width of the
    greatest.
    """
    if not numbers:
        out.append(0)
        return
    try:
        data, width = bytes(numbers), 0
    except ValueError:
        width = _width(max(numbers))
        data = struct.pack(f"<{len(numbers)}{_CODES[width]}", *numbers)
    out += varint(len(numbers) << 2 | width)
    out += data


def put_places(out: bytearray, places: str) -> None:
    """The same of numbers that are characters."""
    if not places:
        out.append(0)
        return
    try:
        data, width = places.encode("latin-1"), 0
    except UnicodeEncodeError:
        width = _width(ord(max(places)))
        data = places.encode("utf-16-le" if width == 1 else "utf-32-le", "surrogatepass")
    out += varint(len(places) << 2 | width)
    out += data


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


def put_texts(out: bytearray, texts: Collection[str]) -> None:
    """Append strings, joined by a character that none of them holds."""
    count, separator = len(texts), _SEPARATORS[0]
    out += varint(count)
    if not count:
        return
    joined = separator.join(texts)
    if joined.count(separator) >= count:
        plain = "".join(texts)
        separator = next((mark for mark in _SEPARATORS if mark not in plain), "")
        joined = separator.join(texts)
    out += varint(ord(separator) + 1 if separator else 0)
    if not separator:
        put_numbers(out, [len(text) for text in texts])
    blob = joined.encode("utf-8", "surrogatepass")
    out += varint(len(blob))
    out += blob


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
