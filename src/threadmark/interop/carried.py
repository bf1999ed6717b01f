"""Values that are taken along as bytes because this process cannot, or must not, make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.tables import Decoders, Encoders
from threadmark.checkpoint.serde.view import Opaque
from threadmark.checkpoint.serde.wire import Decode, Makers, Unpack

__all__ = ["Carried", "CarryingSerializer", "Later", "carrying", "is_carrying"]

Typed = tuple[str, bytes]
_LENIENT: Final = "list it with --allow {}"
_missing: ContextVar[list[str] | None] = ContextVar("threadmark_missing_classes", default=None)


@dataclass(frozen=True, slots=True)
class Carried:
    """A stored value as it stands. ``shown`` is what can be told of it without its classes, ``why`` what is missing."""

    typed: Typed
    shown: Any
    why: str
    classes: tuple[str, ...] = ()
    """Names of the classes that were missing, ``"module:qualname"``."""


@dataclass(frozen=True, slots=True)
class Later:
    """A value that is most likely not asked for: a checkpoint has it from the one before."""

    load: Callable[[], Any]


class CarryingSerializer:
    """Reads what ``inner`` can make exactly, and carries everything else; writes either. No pickle is ever loaded."""

    def __init__(self, inner: JsonPlusSerializer) -> None:
        self.inner = inner
        self._lenient = inner._with_tables(Encoders, _Lenient, (), _LENIENT)

    def dumps_typed(self, obj: Any) -> Typed:
        """The bytes that are carried, or those that ``inner`` makes."""
        if type(obj) is Later:
            obj = obj.load()
        return obj.typed if type(obj) is Carried else self.inner.dumps_typed(obj)

    def loads_typed(self, data: Typed) -> Any:
        """The value, or what carries it."""
        try:
            return self.inner.loads_typed(data)
        except DeserializationError as error:
            return self._carried(data, error)

    def _carried(self, data: Typed, error: DeserializationError) -> Carried:
        with _gathered() as classes:
            try:
                shown = self._lenient.loads_typed(data)
            except DeserializationError:
                shown = Opaque(data[0], f"{len(data[1])} bytes")
        return Carried(data, shown, str(error), tuple(sorted(set(classes))))


def carrying(serde: Any) -> Any:
    """The same serializer with one that carries inside its encryption; one of other people is used as it is."""
    if isinstance(serde, EncryptedSerializer):
        return type(serde)(serde.cipher, carrying(serde.serde))
    return CarryingSerializer(serde) if isinstance(serde, JsonPlusSerializer) else serde


def is_carrying(serde: Any) -> bool:
    """Whether it is one of those."""
    return isinstance(serde.serde if isinstance(serde, EncryptedSerializer) else serde, CarryingSerializer)


@contextmanager
def _gathered() -> Iterator[list[str]]:
    classes: list[str] = []
    token = _missing.set(classes)
    try:
        yield classes
    finally:
        _missing.reset(token)


class _Lenient(Decoders):
    """Shows what no class is there for, where the strict tables raise."""

    def _fill(self) -> None:
        super()._fill()
        for code, decode in list(self.items()):
            if isinstance(decode, Makers):
                self[code] = _shown(decode)

    def _fill_peers(self) -> None:
        super()._fill_peers()
        self.update({code: _or_shown(self[code]) for code in range(8)})  # type: ignore[arg-type]


def _note(name: str) -> str:
    classes = _missing.get()
    if classes is not None:
        classes.append(name)
    return name


def _or_shown(decode: Decode) -> Decode:
    def lenient(data: bytes, unpack: Unpack) -> Any:
        try:
            return decode(data, unpack)
        except DeserializationError as error:
            if error.class_name is None:
                raise
            _, _, fields, *_ = unpack(data)
            return Opaque(_note(error.class_name), fields)

    return lenient


def _shown(strict: Makers) -> Decode:
    def lenient(data: bytes, unpack: Unpack) -> Any:
        name, *parts = unpack(data)
        try:
            return strict[name](*parts)
        except DeserializationError:
            return Opaque(_note(name), parts[0] if parts else {})

    return lenient
