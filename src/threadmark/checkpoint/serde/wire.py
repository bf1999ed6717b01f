"""msgpack with our extension kinds: one call of ormsgpack for plain values, a callback for everything else.

Extension payloads are msgpack again ("packed") or bytes of their own ("raw"). The state of one dump or load lives in
closures, which cost less to reach than attributes: these are the innermost loops of the serializer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeAlias

import ormsgpack
from ormsgpack import Ext, packb, unpackb

from threadmark.checkpoint.serde.batches import BATCH, gathered
from threadmark.checkpoint.serde.buffers import holds_buffer
from threadmark.checkpoint.serde.errors import DeserializationError, not_made

__all__ = [
    "MAX_EXTENSIONS",
    "MAX_NESTING",
    "Decode",
    "Encode",
    "Makers",
    "NotSerializable",
    "Pack",
    "Unpack",
    "dump",
    "dump_extended",
    "dump_plain",
    "load",
    "load_noting",
    "load_plain",
    "pack_plain",
]

Pack: TypeAlias = Callable[[Any], bytes]
Unpack: TypeAlias = Callable[[bytes], Any]
Encode: TypeAlias = tuple[int, Callable[[Any], Any]]
"""How objects of a type become an extension: its code, and what gives its payload. With a positive code the payload
is yet to be packed, with a negative one it is raw bytes; with 0 what it gives stands in place of the object."""
Decode: TypeAlias = Callable[[bytes, Unpack], Any]

PLAIN = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
ANY_KEY = ormsgpack.OPT_NON_STR_KEYS

MAX_EXTENSIONS = 100
"""How deep extensions (tuples, sets, objects ...) may nest in each other."""
MAX_NESTING = 1000
"""How deep containers may nest from the second extension down; ormsgpack limits what is above."""
LONG = 1 << 16
_SHORT = 1 << 12
_LONG_EXTENSION = 0xC9
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))
"""Heads of extensions."""
CHECKED_LEVEL = 2
"""ormsgpack decodes 1,024 levels a call at some 0.7 KB of C stack each: nested calls have to share one allowance."""


class Makers(dict[str, Callable[..., Any]]):
    """Class name -> what makes an instance of it out of the parts that stand behind the name.

    ``find`` is asked for names that have no entry; it may add one.
    """

    def __init__(self, find: Callable[[Makers, str], Callable[..., Any]]) -> None:
        super().__init__()
        self.find = find

    def __missing__(self, key: str) -> Callable[..., Any]:
        return self.find(self, key)


class NotSerializable(Exception):
    """Why one object cannot be written; the serializer adds where it is."""


class _Extended(Exception):
    """Something that is no plain value."""


def _no_plain_value(value: Any) -> NoReturn:
    raise _Extended


def dump(value: Any, encoders: Mapping[type, Encode]) -> bytes:
    """The msgpack bytes of ``value``. Raises NotSerializable, or what an object raised when it was read."""
    out = dump_plain(value)
    return dump_extended(value, encoders) if out is None else out


def dump_extended(value: Any, encoders: Mapping[type, Encode]) -> bytes:
    """``dump`` of a value of which ``dump_plain`` made nothing."""
    return _dump(gathered(value, encoders), encoders)


def dump_plain(value: Any) -> bytes | None:
    """The msgpack bytes of a value that needs no extension; None for any other."""
    # Most values of most states are plain, and for them the closures below cost more than the packing.
    try:
        out = packb(value, _no_plain_value, PLAIN)
    except TypeError:
        return None
    if (0xC4 in out or (len(out) > 256 and (0xC5 in out or (len(out) > 0xFFFF and 0xC6 in out)))) and holds_buffer(
        value, out, False
    ):
        return None
    return out


def pack_plain(value: Any) -> bytes | None:
    """``dump_plain`` for whoever makes sure that no bytearray stands in the value: see ``buffers.proof``."""
    try:
        return packb(value, _no_plain_value, PLAIN)
    except TypeError:
        return None


def _dump(value: Any, encoders: Mapping[type, Encode]) -> bytes:
    depth = 0
    extended = False
    failure: BaseException | None = None

    def pack(value: Any) -> bytes:
        nonlocal extended
        extended = False
        try:
            out = packb(value, default, PLAIN)
        except TypeError as error:
            return pack_odd(value, error)
        # Only bin tokens can hide a bytearray or memoryview, which ormsgpack writes as if they were bytes. Those of
        # 256 bytes and more, and of 64 KB and more, have other heads.
        suspicious = 0xC4 in out or (len(out) > 256 and (0xC5 in out or (len(out) > 0xFFFF and 0xC6 in out)))
        if suspicious and holds_buffer(value, out, extended):
            return pack_odd(value, None)
        return out

    def default(value: Any) -> Any:
        nonlocal depth, extended, failure
        depth += 1
        if depth > MAX_EXTENSIONS:
            failure = NotSerializable(f"nested deeper than {MAX_EXTENSIONS} objects, or it contains itself")
            raise failure
        try:
            code, down = encoders[type(value)]
            wire = down(value)
            if code > 0:
                # The lines of pack() once more: a call would cost a tenth of writing a small object.
                extended = False
                try:
                    out = packb(wire, default, PLAIN)
                except TypeError as error:
                    out = pack_odd(wire, error)
                else:
                    suspicious = 0xC4 in out or (
                        len(out) > 256 and (0xC5 in out or (len(out) > 0xFFFF and 0xC6 in out))
                    )
                    if suspicious and holds_buffer(wire, out, extended):
                        out = pack_odd(wire, None)
                if depth == CHECKED_LEVEL and len(out) > MAX_NESTING:
                    _refuse_deep(out, NotSerializable)
                wire = Ext(code, out)
            elif code < 0:
                wire = Ext(-code, wire)
        except BaseException as error:
            # ormsgpack replaces the error by one of its own, and that one comes by here for every level above.
            failure = failure or error
            raise
        depth -= 1
        extended = True
        return wire

    def pack_odd(value: Any, problem: TypeError | None) -> bytes:
        if failure is not None:
            raise failure
        from threadmark.checkpoint.serde import odd

        try:
            return odd.packed(value, problem, pack, default, lambda: failure is not None)
        except TypeError as error:
            found: BaseException | None = failure
            raise (found or NotSerializable(str(error))) from None

    try:
        return pack(value)
    finally:
        # They name each other: without this each call leaves a cycle behind.
        pack = default = pack_odd = None  # type: ignore[assignment]


def _fills(data: bytes | memoryview) -> bool:
    """Whether a long extension's payload reaches to the end."""
    return int.from_bytes(data[1:5], "big") == len(data) - 6


def load(data: bytes | memoryview, decoders: Mapping[int, Decode | Makers]) -> Any:
    """What the bytes stand for. Raises DeserializationError, whatever is wrong with them."""
    size = len(data)
    if 0 < size <= _SHORT and data[0] not in _EXTENSIONS:
        try:
            return unpackb(data)  # most are plain, and what is below would cost a short one 0.3 us, as much again
        except ValueError:
            pass
    depth = 0
    failure: BaseException | None = None
    unpack: Unpack | None = None

    def hook(code: int, data: bytes) -> Any:
        nonlocal depth, failure, unpack
        key = None
        depth += 1
        try:
            if depth == CHECKED_LEVEL and len(data) > MAX_NESTING:
                _refuse_deep(data, DeserializationError, code)
            elif depth > MAX_EXTENSIONS:
                raise DeserializationError(f"nested deeper than {MAX_EXTENSIONS} objects")
            decode = decoders[code]
            if type(decode) is Makers:
                # Not through unpack(): a partial costs a tenth of reading a small object.
                parts = unpackb(data, ext_hook=hook, option=ANY_KEY)
                key = parts[0]
                value = decode[key](parts[1]) if len(parts) == 2 else decode[key](*parts[1:])
            else:
                if unpack is None:  # not before: it would cost as much as the hook
                    unpack = partial(unpackb, ext_hook=hook, option=ANY_KEY)
                value = decode(data, unpack)  # type: ignore[operator]
        except BaseException as error:
            # ormsgpack replaces the error by one of its own, and that one comes by here for every level above.
            failure = failure or (not_made(key, error) if key is not None else error)
            raise
        depth -= 1
        return value

    try:
        if size > LONG and data[0] == _LONG_EXTENSION and data[5] == BATCH and _fills(data):
            payload: Any = memoryview(data)[6:]  # which ormsgpack would copy
            return hook(BATCH, payload)
        if size > _SHORT:
            # Where every key is text, ormsgpack keeps keys for the next dict: a tenth of reading a long list of dicts.
            try:
                return unpackb(data, ext_hook=hook)
            except ValueError:
                if failure is not None:
                    raise
        return unpackb(data, ext_hook=hook, option=ANY_KEY)
    except Exception as error:
        _raise_load_error(failure or error)
    finally:
        unpack = hook = None  # type: ignore[assignment]  # the same here


def load_plain(data: bytes | memoryview) -> Any:
    """``load`` of bytes that this process has made of a plain value."""
    try:
        return unpackb(data)
    except ValueError:  # a key that is no text
        return unpackb(data, option=ANY_KEY)


class _Asked(dict[int, Decode | Makers]):
    """Decoders that remember whether one was asked for."""

    def __init__(self, decoders: Mapping[int, Decode | Makers]) -> None:
        self.decoders, self.any = decoders, False

    def __missing__(self, code: int) -> Decode | Makers:
        self.any = True
        return self.decoders[code]


def load_noting(data: bytes | memoryview, decoders: Mapping[int, Decode | Makers]) -> tuple[Any, bool]:
    """``load``, and whether there was nothing but msgpack's own types in the bytes."""
    asked = _Asked(decoders)
    return load(data, asked), not asked.any


def _raise_load_error(error: BaseException) -> NoReturn:
    if isinstance(error, DeserializationError) or not isinstance(error, Exception):
        raise error from error.__cause__
    raise DeserializationError(
        f"the stored bytes cannot be read ({type(error).__name__}: {error}); they are damaged, or a newer release "
        f"wrote them"
    ) from error


_CONTAINER_HEADS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])


def _refuse_deep(data: bytes, error: type[Exception], code: int | None = None) -> None:
    # Each level of nesting has a head byte of its own, so that few of these mean little nesting.
    if len(data) - len(data.translate(None, _CONTAINER_HEADS)) <= MAX_NESTING:
        return
    from threadmark.checkpoint.serde.kinds import raw_codes
    from threadmark.checkpoint.serde.nesting import deepest

    if code not in raw_codes() and deepest(data) > MAX_NESTING:
        raise error(f"containers are nested deeper than {MAX_NESTING} levels")
