"""A serializer that encrypts what another one writes (spec 12.5).

Savers take it apart: they encode with ``serde``, and seal each row with ``bind(thread_id)``, which binds it to its
place. Used by itself, ``dumps_typed`` gives values that are marked as bound to nothing; savers refuse those.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from threadmark.checkpoint.serde.allow import Allow
from threadmark.checkpoint.serde.base import CipherProtocol, SerializerProtocol, maybe_add_typed_methods
from threadmark.checkpoint.serde.errors import DamagedValue, EncryptionError, PlaintextValue
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.sealing import UNBOUND, CipherSealer, Keys, KeySealer, Sealer

__all__ = [
    "KEY_VARIABLES",
    "OLD_KEYS_VARIABLE",
    "EncryptedSerializer",
    "checked_key",
    "key_in",
    "old_keys_in_environment",
]

Self = TypeVar("Self", bound="EncryptedSerializer")

KEY_VARIABLES = ("THREADMARK_AES_KEY", "LANGGRAPH_AES_KEY")
"""Environment variables that may hold the key, the first one that is set counts."""
OLD_KEYS_VARIABLE = "THREADMARK_AES_OLD_KEYS"
"""Environment variable with keys that only read, separated by white space."""
_NAME = "aes256gcm"
_MODES = {9: "eax", 11: "gcm"}


class EncryptedSerializer:
    """Encrypts what ``serde`` writes, with a cipher of yours or with our own keys (``from_keys``).

    ``serde`` defaults to a JsonPlusSerializer. Plaintext is refused on loading.
    """

    def __init__(self, cipher: CipherProtocol, serde: SerializerProtocol | None = None) -> None:
        self.cipher = cipher
        self.serde: SerializerProtocol = JsonPlusSerializer() if serde is None else maybe_add_typed_methods(serde)

    @classmethod
    def from_keys(
        cls: type[Self],
        keys: Mapping[str, bytes],
        *,
        active: str | None = None,
        retired: Sequence[bytes] = (),
        serde: SerializerProtocol | None = None,
    ) -> Self:
        """Our own encryption: AES-256-GCM under keys derived per thread from the given ones of 16, 24 or 32 bytes.

        ``keys`` are named; values say which one they need, so old keys stay readable while ``active`` (the last one
        by default) writes. ``retired`` are further keys that only read, whatever they were called.
        """
        return cls(KeyCipher(Keys(keys, list(keys)[-1] if active is None else active, retired)), serde)

    @classmethod
    def from_pycryptodome_aes(
        cls: type[Self], serde: SerializerProtocol | None = None, *, key: bytes | None = None, **kwargs: Any
    ) -> Self:
        """Our own encryption with one key: ``key``, or the environment's ``THREADMARK_AES_KEY``/``LANGGRAPH_AES_KEY``.

        Without ``key`` the keys in ``THREADMARK_AES_OLD_KEYS``, separated by white space, are read with as well. It
        also reads what LangGraph encrypted with that key. pycryptodome is not needed; of its options ``mode`` is
        taken, EAX (the default) or GCM, and says how those values were made. Raises ValueError for a missing key or
        one that is not 16, 24 or 32 bytes.
        """
        mode = kwargs.pop("mode", 9)
        if kwargs or mode not in _MODES:
            raise ValueError(f"only mode=AES.MODE_EAX or AES.MODE_GCM are taken, not {kwargs or mode!r}")
        retired = old_keys_in_environment() if key is None else ()
        return cls(KeyCipher(Keys({"": _key_or_environment(key)}, "", retired), peer_mode=_MODES[mode]), serde)

    def with_allowlist(self: Self, extra: Allow) -> Self:
        """The same encryption around a serializer that also takes the classes of ``extra``."""
        extend: Any = getattr(self.serde, "with_allowlist", None)
        return self if extend is None else type(self)(self.cipher, extend(extra))

    def bind(self, thread_id: str) -> Sealer:
        """What seals and opens the rows of one thread."""
        if isinstance(self.cipher, KeyCipher):
            return KeySealer(self.cipher.keys, thread_id)
        return CipherSealer(self.cipher, thread_id)

    def explain(self, obj: Any) -> list[tuple[str, str]]:
        """Which parts of ``obj`` the inner serializer cannot write; empty when it does not say."""
        explain: Any = getattr(self.serde, "explain", None)
        return list(explain(obj)) if explain is not None else []

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """``"<tag>+<cipher>"`` and ciphertext that is bound to its tag and to no place."""
        tag, plain = self.serde.dumps_typed(obj)
        if isinstance(self.cipher, KeyCipher):
            return f"{tag}+{_NAME}", self.cipher.seal(tag, plain)
        name, sealed = self.cipher.encrypt(plain)
        return f"{tag}+{name}", sealed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What ``dumps_typed`` was given. Raises an EncryptionError for plain or damaged data, or another key."""
        full_tag, sealed = data
        tag, plus, name = full_tag.rpartition("+")
        if not plus:
            raise PlaintextValue(
                f"a value with the tag {full_tag!r} was never encrypted; this serializer reads encrypted values only"
            )
        if isinstance(self.cipher, KeyCipher):
            return self.serde.loads_typed((tag, self.cipher.open(tag, name, sealed)))
        try:
            plain = self.cipher.decrypt(name, sealed)
        except Exception as error:
            raise DamagedValue(
                f"this encrypted value cannot be opened; it is damaged or another key wrote it "
                f"({type(error).__name__}: {error})"
            ) from error
        return self.serde.loads_typed((tag, plain))


class KeyCipher:
    """Our own keys in the place of a cipher. ``peer_mode`` says how LangGraph used them, if it did."""

    def __init__(self, keys: Keys, *, peer_mode: str | None = None) -> None:
        self.keys = keys
        self.peer_mode = peer_mode

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """As the protocol wants it, bound to no tag."""
        return _NAME, self.seal("", plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return self.open("", ciphername, ciphertext)

    def seal(self, tag: str, plain: bytes) -> bytes:
        return self.keys.seal(UNBOUND, b"threadmark unbound", tag.encode(), plain)

    def open(self, tag: str, name: str, sealed: bytes) -> bytes:
        if name == _NAME:
            return self.keys.open(UNBOUND, b"threadmark unbound", tag.encode(), sealed)
        if name == "aes":
            return self._open_peers(sealed)
        raise EncryptionError(
            f"this value was encrypted with {name!r}; make the serializer with the cipher of that name"
        )

    def _open_peers(self, sealed: bytes) -> bytes:
        from threadmark.checkpoint.serde.eax import open_eax, open_gcm

        opener = open_gcm if self.peer_mode == "gcm" else open_eax
        for key in self.keys.every():
            plain = opener(key, sealed)
            if plain is not None:
                return plain
        raise DamagedValue("this value that LangGraph encrypted is damaged, or was encrypted with another key")


def _key_or_environment(key: bytes | None) -> bytes:
    if key is not None:
        return key
    for variable in KEY_VARIABLES:
        if variable in os.environ:
            return key_in(variable)
    raise ValueError(
        f"no key: set {' or '.join(reversed(KEY_VARIABLES))} to 16, 24 or 32 characters "
        f"(`openssl rand -hex 16` makes them), or pass key="
    )


def key_in(variable: str) -> bytes:
    """The key in an environment variable. ValueError when it is not there, or has another length than a key."""
    text = os.environ.get(variable)
    if text is None:
        raise ValueError(f"{variable} is not set; put a key of 16, 24 or 32 bytes into it")
    return checked_key(text.encode("utf-8", "surrogateescape"), f"{variable} has")


def old_keys_in_environment() -> tuple[bytes, ...]:
    """The keys in ``THREADMARK_AES_OLD_KEYS``."""
    texts = os.environ.get(OLD_KEYS_VARIABLE, "").split()
    return tuple(
        checked_key(text.encode("utf-8", "surrogateescape"), f"a key in {OLD_KEYS_VARIABLE} has") for text in texts
    )


def checked_key(key: bytes, what: str) -> bytes:
    """The key itself; ValueError, which begins with ``what``, unless it has the length of a key."""
    if len(key) in (16, 24, 32):
        return key
    raise ValueError(f"{what} {len(key)} bytes as UTF-8 and must have 16, 24 or 32; `openssl rand -hex 16` makes one")
