"""Values that ormsgpack cannot write as they are: keys that are not text, text that is not UTF-8, buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ormsgpack import Ext, packb

from threadmark.checkpoint.serde.buffers import holds_buffer
from threadmark.checkpoint.serde.wire import ANY_KEY, PLAIN, NotSerializable, Pack

__all__ = ["has_plain_keys", "packed", "rewritten"]

TEXT, BYTEARRAY, MEMORYVIEW, MAP = 0x11, 0x12, 0x13, 0x14
_DEEPEST = 250

# ormsgpack writes keys of these very types as they are, and their subclasses as if they were the types.
_KEY_TYPES = frozenset({str, int, bool, type(None), float, bytes})


def packed(
    value: Any, problem: TypeError | None, pack: Pack, default: Callable[[Any], Any], failed: Callable[[], bool]
) -> bytes:
    """The msgpack of a value that could not be packed at once: because of ``problem``, or for a buffer in it.

    TypeError when it cannot be packed at all; nothing is tried again once ``failed`` says that an object in it could
    not be written.
    """
    if problem is not None and has_plain_keys(value):
        try:
            out = packb(value, default, PLAIN | ANY_KEY)
            if not holds_buffer(value, out, True):
                return out
        except TypeError:
            if failed():
                raise
    return packb(rewritten(value, pack), default, PLAIN | ANY_KEY)


def has_plain_keys(value: Any) -> bool:
    """Whether every key of the dicts in lists and dicts can stand in msgpack without losing its type."""
    todo, seen = [value], {id(value)}
    while todo:
        item = todo.pop()
        parts = item
        if type(item) is dict:
            if not _KEY_TYPES.issuperset(map(type, item)):
                return False
            parts = item.values()
        elif type(item) is not list:
            return False
        if not {dict, list}.isdisjoint(map(type, parts)):
            inner = [part for part in parts if (type(part) is dict or type(part) is list) and id(part) not in seen]
            seen.update(map(id, inner))
            todo += inner
    return True


def rewritten(value: Any, pack: Pack) -> Any:
    """A copy of the lists and dicts of ``value`` in which everything odd is an extension. Raises NotSerializable."""
    inside: set[int] = set()

    def walk(value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return value if _is_utf8(value) else Ext(TEXT, value.encode("utf-8", "surrogatepass"))
        if kind is bytearray:
            return Ext(BYTEARRAY, bytes(value))
        if kind is memoryview:
            return Ext(MEMORYVIEW, pack([value.format, list(value.shape), value.readonly, value.tobytes()]))
        if kind is not list and kind is not dict:
            return value
        if id(value) in inside:
            raise NotSerializable(f"this {kind.__name__} contains itself")
        if len(inside) > _DEEPEST:
            raise NotSerializable(f"lists and dicts are nested deeper than {_DEEPEST} levels")
        inside.add(id(value))
        made: Any
        if kind is list:
            made = [walk(item) for item in value]
        elif all(map(_is_plain_key, value)):
            made = {key: walk(item) for key, item in value.items()}
        else:
            made = Ext(MAP, pack([part for pair in value.items() for part in pair]))
        inside.discard(id(value))
        return made

    return walk(value)


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain_key(key: Any) -> bool:
    kind = type(key)
    if kind is str:
        return _is_utf8(key)
    return kind in _KEY_TYPES and (kind is not int or -(2**63) <= key < 2**64)
