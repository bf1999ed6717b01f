"""What a serializer and a cipher have to offer (spec 12.1, 12.5)."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = [
    "CipherProtocol",
    "SerializerCompat",
    "SerializerProtocol",
    "UntypedSerializerProtocol",
    "maybe_add_typed_methods",
]


@runtime_checkable
class SerializerProtocol(Protocol):
    """Turns values into a tag and bytes, and back. A class with these two methods is a serializer.

    The tag is a short text that says how to read the bytes; it is stored beside them.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


@runtime_checkable
class UntypedSerializerProtocol(Protocol):
    """The older shape: bytes without a tag."""

    def dumps(self, obj: Any) -> bytes: ...

    def loads(self, data: bytes) -> Any: ...


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts bytes. ``encrypt`` returns the cipher's name, which ``decrypt`` is given again.

    A cipher should be authenticated: ``decrypt`` raises when the bytes are not what ``encrypt`` made.
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]: ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes: ...


class SerializerCompat:
    """Lends the typed methods to an object that has only ``dumps`` and ``loads``; its tag is the value's type name."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self.serde.loads(data[1])


def maybe_add_typed_methods(serde: SerializerProtocol | UntypedSerializerProtocol) -> SerializerProtocol:
    """The serializer itself, or the older shape wrapped into the typed one; TypeError for anything else."""
    if isinstance(serde, SerializerProtocol):
        return serde
    if isinstance(serde, UntypedSerializerProtocol):
        return SerializerCompat(serde)
    raise TypeError(f"a serializer has dumps_typed and loads_typed; {type(serde).__name__} has not")
