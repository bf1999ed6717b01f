"""msgpack with our extension kinds: one call of ormsgpack for plain values, a callback for everything else.

Writer and Reader live for one call. Extension payloads are msgpack again ("packed") or bytes of their own ("raw").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import ormsgpack
from ormsgpack import Ext, packb, unpackb

from threadmark.checkpoint.serde.buffers import holds_buffer
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.allow import Allowed

__all__ = ["MAX_EXTENSIONS", "MAX_NESTING", "Decode", "Encode", "NotSerializable", "Reader", "Writer"]

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
CHECKED_LEVEL = 2
"""ormsgpack decodes 1,024 levels a call at some 0.7 KB of C stack each: nested calls have to share one allowance."""

TEXT, BYTEARRAY, MEMORYVIEW, MAP, TUPLE = 0x11, 0x12, 0x13, 0x14, 0x10

Encode: TypeAlias = "Callable[[Any, Writer], Any]"
"""Turns an object into an ``Ext``, or into something that ormsgpack can go on with."""
Decode: TypeAlias = "Callable[[bytes, Reader], Any]"


class NotSerializable(Exception):
    """Why one object cannot be written; the serializer adds where it is."""


class Writer:
    """One dump: packs values, sends what msgpack does not know to the encoder of its type."""

    __slots__ = ("depth", "encoders", "extended", "failure")

    def __init__(self, encoders: Mapping[type, Encode]) -> None:
        self.encoders = encoders
        self.depth = 0
        self.extended = False
        self.failure: BaseException | None = None

    def pack(self, value: Any) -> bytes:
        """The msgpack bytes of ``value``. Raises NotSerializable."""
        try:
            out = packb(value, self.default, PLAIN)
        except TypeError:
            out = self._pack_odd(value)
        else:
            # Only bin tokens can hide a bytearray or memoryview, which ormsgpack writes as if they were bytes.
            if (0xC4 in out or 0xC5 in out or 0xC6 in out) and holds_buffer(value, out, self.extended):
                out = self._pack_odd(value)
        if self.depth == CHECKED_LEVEL and len(out) > MAX_NESTING:
            _refuse_deep(out, NotSerializable)
        return out

    def default(self, value: Any) -> Any:
        depth = self.depth + 1
        if depth > MAX_EXTENSIONS:
            self.failure = NotSerializable(f"nested deeper than {MAX_EXTENSIONS} objects, or it contains itself")
            raise self.failure
        self.depth = depth
        self.extended = True
        try:
            wire = self.encoders[type(value)](value, self)
        except BaseException as error:
            # ormsgpack replaces the error by one of its own.
            self.failure = error
            raise
        self.depth = depth - 1
        return wire

    def _pack_odd(self, value: Any) -> bytes:
        """For text that is not UTF-8, keys that are not text, and buffers: a walk in Python makes them extensions."""
        if self.failure is not None:
            raise self.failure
        depth = self.depth
        plain = self._rewritten(value, 0)
        self.depth = depth
        try:
            return packb(plain, self.default, PLAIN | ANY_KEY)
        except TypeError as error:
            failure: BaseException | None = self.failure
            raise failure or NotSerializable(f"{error}") from None

    def _rewritten(self, value: Any, level: int) -> Any:
        kind = type(value)
        if kind is str:
            return value if _is_utf8(value) else Ext(TEXT, value.encode("utf-8", "surrogatepass"))
        if level > 250 and (kind is list or kind is dict):
            raise NotSerializable("lists and dicts are nested deeper than 250 levels, or one contains itself")
        if kind is list:
            return [self._rewritten(item, level + 1) for item in value]
        if kind is dict:
            if all(map(_is_plain_key, value)):
                return {key: self._rewritten(item, level + 1) for key, item in value.items()}
            return Ext(MAP, self.pack([part for pair in value.items() for part in pair]))
        if kind is bytearray:
            return Ext(BYTEARRAY, bytes(value))
        if kind is memoryview:
            return Ext(MEMORYVIEW, self.pack([value.format, list(value.shape), value.readonly, value.tobytes()]))
        return value


class Reader:
    """One load: unpacks values, sends extensions to the decoder of their code."""

    __slots__ = ("allowed", "classes", "decoders", "depth", "failure", "pickle")

    def __init__(
        self,
        decoders: Mapping[int, Decode],
        classes: Mapping[tuple[int, str], Callable[..., Any]],
        allowed: Allowed,
        *,
        pickle: bool = False,
    ) -> None:
        self.decoders = decoders
        self.classes = classes
        self.allowed = allowed
        self.pickle = pickle
        self.depth = 0
        self.failure: BaseException | None = None

    def unpack(self, data: bytes) -> Any:
        if self.depth == CHECKED_LEVEL and len(data) > MAX_NESTING:
            _refuse_deep(data, DeserializationError)
        return unpackb(data, ext_hook=self.hook, option=ANY_KEY)

    def hook(self, code: int, data: bytes) -> Any:
        depth = self.depth + 1
        if depth > MAX_EXTENSIONS:
            self.failure = DeserializationError(f"nested deeper than {MAX_EXTENSIONS} objects")
            raise self.failure
        self.depth = depth
        try:
            value = self.decoders[code](data, self)
        except BaseException as error:
            # ormsgpack replaces the error by one of its own.
            self.failure = error
            raise
        self.depth = depth - 1
        return value

    def load(self, data: bytes) -> Any:
        """What the bytes stand for. Raises DeserializationError, whatever is wrong with them."""
        try:
            return self.unpack(data)
        except Exception as error:
            cause = self.failure or error
            if isinstance(cause, DeserializationError) or not isinstance(cause, Exception):
                raise cause from cause.__cause__
            raise DeserializationError(
                f"the stored bytes cannot be read ({type(cause).__name__}: {cause}); they are damaged, or a newer "
                f"release wrote them"
            ) from cause


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_KEY_TYPES = frozenset({int, bool, type(None), float, bytes})


def _is_plain_key(key: Any) -> bool:
    kind = type(key)
    if kind is str:
        return _is_utf8(key)
    return kind in _KEY_TYPES and (kind is not int or -(2**63) <= key < 2**64)


_CONTAINER_HEADS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])


def _refuse_deep(data: bytes, error: type[Exception]) -> None:
    # Each level of nesting has a head byte of its own, so that few of these mean little nesting.
    if len(data) - len(data.translate(None, _CONTAINER_HEADS)) <= MAX_NESTING:
        return
    from threadmark.checkpoint.serde.nesting import deepest

    if deepest(data) > MAX_NESTING:
        raise error(f"containers are nested deeper than {MAX_NESTING} levels")


def dump_error(problem: BaseException) -> SerializationError:
    """The public form of a problem whose place nobody has looked for."""
    return SerializationError([("", str(problem))])
