"""What goes wrong between a value and its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from threadmark.errors import ThreadmarkError

__all__ = [
    "DamagedValue",
    "DeserializationError",
    "EncryptionError",
    "MovedValue",
    "PlaintextValue",
    "SerdeError",
    "SerializationError",
    "UnknownKey",
    "WrongKey",
    "not_made",
]


class SerdeError(ThreadmarkError):
    """Base of what serializers and their encryption raise."""


class SerializationError(SerdeError, TypeError):
    """A value that could not be read back exactly; nothing of it was stored.

    ``problems`` are pairs of the path inside the value and the reason, at most a few.
    """

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; and ".join(f"{path or 'the value itself'}: {reason}" for path, reason in problems))
        self.problems = tuple(problems)
        self.nodes: tuple[str, ...] = ()
        """The nodes that wrote it, where a run knows them."""

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said} (written by node {', '.join(map(repr, self.nodes))})" if self.nodes else said


class DeserializationError(SerdeError, ValueError):
    """Stored bytes that cannot be turned into what was written.

    ``class_name`` is ``"module:qualname"`` when a class is the reason, else None.
    """

    def __init__(self, message: str, *, class_name: str | None = None) -> None:
        super().__init__(message)
        self.class_name = class_name


def not_made(name: object, error: BaseException) -> BaseException:
    """The error of making an instance again, with the name of its class (``"module:qualname"``)."""
    if isinstance(error, DeserializationError) or not isinstance(error, Exception):
        return error
    named = DeserializationError(
        f"an instance of class {str(name).replace(':', '.')} cannot be made again: {type(error).__name__}: {error}",
        class_name=str(name),
    )
    named.__cause__ = error
    return named


class EncryptionError(DeserializationError):
    """A stored value that the encrypting serializer refuses; subclasses say why."""


class PlaintextValue(EncryptionError):
    """The value was never encrypted."""


class MovedValue(EncryptionError):
    """The value is genuine, but it was not written at the place where it was found."""


class DamagedValue(EncryptionError):
    """The bytes were truncated or changed after they were written."""


class UnknownKey(EncryptionError):
    """The value names a key that this serializer was not given."""


class WrongKey(EncryptionError):
    """The serializer holds another key under the name that the value gives."""
