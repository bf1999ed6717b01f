"""The default serializer: msgpack with our kinds, strict on both sides (spec 12; house rule 7)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

from threadmark.checkpoint.serde.allow import Allow, Allowed
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.tables import _TRUST, Decoders, Encoders
from threadmark.checkpoint.serde.wire import NotSerializable, dump, dump_extended, dump_plain, load, load_noting

__all__ = ["JsonPlusSerializer"]

Self = TypeVar("Self", bound="JsonPlusSerializer")
_UNSET: Any = object()


class JsonPlusSerializer:
    """Writes values so that they come back equal and of the same type, and refuses the others while writing.

    ``allow`` lists the classes of yours that may travel: classes, ``"pkg.mod"`` for all of a module,
    ``("pkg.mod", "Name")`` or ``"pkg.mod:Name"`` for one. A compiled graph adds the classes that its schemas name.
    Loading imports a module only when an entry gives it by name, and makes instances without running code of the
    class. ``allowed_msgpack_modules`` is the same list under another name (True allows every class), and
    ``allowed_json_modules`` adds classes for values that LangGraph stored as JSON.

    With ``pickle_fallback=True`` what nothing else can carry is pickled, and pickles are loaded. A pickle can run any
    code: do it only where nobody else can write to the storage.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allow: Allow = (),
        allowed_json_modules: Allow = None,
        allowed_msgpack_modules: Allow = None,
    ) -> None:
        self.pickle_fallback = pickle_fallback
        self._use(Allowed(allow, allowed_msgpack_modules), Allowed(allowed_json_modules))

    def _use(self, allowed: Allowed, json_allowed: Allowed) -> None:
        self._allowed = allowed
        self._json_allowed = json_allowed
        self._encoders = self._encoding(allowed, pickle=self.pickle_fallback)
        self._decoders = self._decoding(allowed, pickle=self.pickle_fallback)

    _encoding, _decoding = Encoders, Decoders

    def _with_tables(self: Self, encoding: type[Encoders], decoding: type[Decoders], extra: Allow, advice: str) -> Self:
        """A serializer with other tables, for values of another package; it keeps them when it is extended."""
        clone = copy.copy(self)
        clone._encoding, clone._decoding = encoding, decoding
        allowed = self._allowed.extended(extra)
        allowed.advice = advice
        clone._use(allowed, self._json_allowed)
        return clone

    def with_allowlist(self: Self, extra: Allow) -> Self:
        """A serializer that also takes the classes of ``extra``; this one stays as it is."""
        clone = copy.copy(self)
        clone._use(self._allowed.extended(extra), self._json_allowed)
        return clone

    with_msgpack_allowlist = with_allowlist

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Tag and bytes. Raises SerializationError, which names the place inside ``obj`` and what to do."""
        if obj is None:
            return "null", b""
        kind = type(obj)
        if kind is dict or kind is list:
            out = dump_plain(obj)  # the lines of pack(): what most states are
            return "msgpack", self._pack_extended(obj) if out is None else out
        if kind is bytes:
            return "bytes", obj
        if kind is bytearray:
            return "bytearray", bytes(obj)
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            return "msgpack", self._pack_array(obj)
        return "msgpack", self.pack(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What was written. Raises DeserializationError when it cannot be made again exactly."""
        tag, body = data
        if tag == "msgpack":
            return self.unpack(body)
        load = _TAGS.get(tag)
        if load is None:
            raise DeserializationError(
                f"no serializer here wrote the tag {tag!r}"
                + ("; it is encrypted, use EncryptedSerializer" if "+" in str(tag) else "")
            )
        return load(self, body)

    def pack(self, obj: Any) -> bytes:
        """The msgpack bytes of any value, without a tag."""
        out = dump_plain(obj)
        return self._pack_extended(obj) if out is None else out

    def _pack_extended(self, obj: Any) -> bytes:
        try:
            return dump_extended(obj, self._encoders)
        except Exception as error:
            problems = self.explain(obj) or [("", _reason(error))]
            raise SerializationError(problems) from (None if isinstance(error, NotSerializable) else error)

    def _pack_array(self, array: Any) -> bytes:
        from threadmark.checkpoint.serde.arrays import dump_whole

        try:
            return dump_whole(array) or self.pack(array)
        except Exception:
            return self.pack(array)  # which says what is wrong

    def unpack(self, data: bytes | memoryview) -> Any:
        """The value of bytes that ``pack`` made."""
        if len(data) > 65536 and data[0] == 0xC9:
            array = _whole_array(data)
            if array is not None:
                return array
        return load(data, self._decoders)

    def unpack_noting(self, data: bytes | memoryview) -> tuple[Any, bool]:
        """The value of bytes that ``pack`` made, and whether it is made of msgpack's own types alone."""
        return load_noting(data, self._decoders)

    def explain(self, obj: Any) -> list[tuple[str, str]]:
        """Which parts of ``obj`` cannot be written: pairs of path and reason; empty when all can."""
        from threadmark.checkpoint.serde.explain import problems

        return problems(obj, lambda part: _failure(self._encoders, part))


def _whole_array(data: bytes | memoryview) -> Any:
    from threadmark.checkpoint.serde.arrays import load_whole

    try:
        return load_whole(data)
    except Exception:
        return None  # the usual way says what is wrong


def _failure(encoders: Encoders, part: Any) -> str | None:
    try:
        dump(part, encoders)
    except Exception as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, NotSerializable) else f"{type(error).__name__}: {error}"


def _load_json(serde: JsonPlusSerializer, body: bytes) -> Any:
    from threadmark.checkpoint.serde.legacy import load_json

    return load_json(body, serde._json_allowed, serde._allowed)


def _load_pickle(serde: JsonPlusSerializer, body: bytes) -> Any:
    if not serde.pickle_fallback:
        raise DeserializationError(f"this value {_TRUST}")
    import pickle

    return pickle.loads(body)


_TAGS: dict[str, Callable[[JsonPlusSerializer, bytes], Any]] = {
    "null": lambda _, body: None,
    "bytes": lambda _, body: bytes(body),
    "bytearray": lambda _, body: bytearray(body),
    "json": _load_json,
    "pickle": _load_pickle,
}
