"""Whether a value that ormsgpack has packed holds a bytearray or memoryview.

ormsgpack writes both as if they were ``bytes`` and offers no switch. Asking every object its type costs more than
packing does, so three cheaper questions come first: is there any byte that could head a bin token (the caller asks
that one), can each such byte be shown to belong to another token, and only then what types there are.
"""

from __future__ import annotations

import gc
import re
from typing import Any

__all__ = ["holds_buffer", "proof"]

_BUFFERS = frozenset({bytearray, memoryview})
_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_PLAIN = _LEAVES | {list, dict}
_HEADS = (0xC4, 0xC5, 0xC6)
_SHORT_HEADS = _HEADS[:2]
# A sure start of a token: this byte cannot go on a UTF-8 sequence after ASCII, so it is in no text, and among the
# eight bytes before it there is no head of a number or length that it could belong to.
_TOKEN_START = re.compile(rb"[\x00-\xc3\xe0-\xff]{7}[\x00-\x7f][\x80-\xbf]")
# The head of a number or length, at most one of its bytes, and then the byte in question: it belongs to them. That head
# can be part of no other number or length, as there is no head among the eight bytes before it, and of no text, where
# another byte would have to follow.
_ends_in_number = re.compile(
    rb"[\x00-\xff][\x00-\xc3\xe0-\xff]{8}[\xca-\xd3\xd9-\xdf]"
    rb"|[\x00-\xc3\xe0-\xff]{8}[\xca\xcb\xcd-\xcf\xd1-\xd3\xda-\xdf][\x00-\x7f]"
).fullmatch
_LONG_HEADS = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
"""Of a long list or dict, with its length."""
_FEW = 8
_BYTES_EACH = 4096
"""Explaining a byte takes some microseconds, asking all objects some nanoseconds a byte: one in so many is few."""
_WINDOWS = (24, 120, 400)


def holds_buffer(value: Any, packed: bytes, extended: bool) -> bool:
    """Whether ``value`` holds a bytearray or memoryview outside of extension payloads.

    ``packed`` is its msgpack; ``extended`` says that there may be extensions in it, whose bytes can be anything.
    """
    if not extended and len(packed) > 2048 and _all_explained(packed):
        return False
    return _has_buffer(value)


def proof(value: Any, packed: bytes) -> bool | None:
    """Whether the msgpack of a value without extensions shows by itself that no buffer is in any value that has it.

    False: the objects had to be asked. None: there is a buffer.
    """
    if _all_explained(packed):
        return True
    return None if _has_buffer(value) else False


def _all_explained(packed: bytes) -> bool:
    """Whether each byte that could head a bin token is shown to be part of another token, and there are few."""
    # Of a state of 30 KB with one such byte this takes 1.7 us, and 1.4 of them are the searches and the match.
    find, size = packed.find, len(packed)
    start = _LONG_HEADS.get(packed[0], 0)
    left = _FEW if size < _FEW * _BYTES_EACH else size // _BYTES_EACH
    # A head with four bytes of length is written for 64 KB and more.
    for head in _HEADS if size > 0xFFFF else _SHORT_HEADS:
        at = find(head, start)
        while at >= 0:
            # Numbers, and lengths of texts, are most of them: this takes a quarter of the time.
            explained = at > 9 and _ends_in_number(packed, at - 10, at)
            if not left or not (explained or _inside_token(packed, at)):
                return False
            left -= 1
            at = find(head, at + 1)
    return True


def _inside_token(packed: bytes, at: int) -> bool:
    """Walk the tokens from a sure start to ``at``. That is sound as long as no bin token comes before ``at``, and the
    first real one would be found out by this very walk."""
    for window in _WINDOWS:
        start = _TOKEN_START.search(packed, max(0, at - window), at)
        if start is not None:
            position = start.end() - 1
            while position < at:
                head = packed[position]
                if 0xA0 <= head < 0xC0:
                    position += head - 0x9F
                elif length := _token_length(packed, position):
                    position += length
                else:
                    return False
            return position > at
    return False


def _token_length(packed: bytes, at: int) -> int:
    """Bytes of the token at ``at`` without what a container contains; 0 for bin, extension and unused heads."""
    head = packed[at]
    if head < 0xA0 or head >= 0xE0:
        return 1
    if head < 0xC0:
        return head - 0x9F
    if 0xD9 <= head <= 0xDB:
        size = 1 << (head - 0xD9)
        return 1 + size + int.from_bytes(packed[at + 1 : at + 1 + size], "big")
    return _FIXED.get(head, 0)


_FIXED = {
    0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5,
    0xD3: 9, 0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5,
}  # fmt: skip


def _has_buffer(value: Any) -> bool:
    level = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds.isdisjoint(_BUFFERS):
            return True
        if not kinds <= _PLAIN:
            # Whatever else there is was packed on its own and has been looked at there.
            level = [item for item in level if type(item) is list or type(item) is dict]
        level = gc.get_referents(*level)
    return False
