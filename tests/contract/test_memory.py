"""``InMemorySaver`` keeps the contract, with and without its memories."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.suite import SaverContract
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer


class HexSerializer:
    """A serializer of the user's: a class of a few lines, whose bytes say nothing to us."""

    def __init__(self) -> None:
        self._inner = JsonPlusSerializer()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        tag, data = self._inner.dumps_typed(obj)
        return f"hex of {tag}", data.hex().encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self._inner.loads_typed((data[0].removeprefix("hex of "), bytes.fromhex(data[1].decode())))


class ScramblingCipher:
    """A cipher of the user's, as the protocol wants it."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "scramble", bytes(byte ^ 0x5A for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "scramble"
        return bytes(byte ^ 0x5A for byte in ciphertext)


class TestOpaqueSerializer(SaverContract):
    @pytest.fixture
    def saver(self) -> InMemorySaver:
        return InMemorySaver(serde=HexSerializer())


class TestForeignCipher(SaverContract):
    @pytest.fixture
    def saver(self) -> InMemorySaver:
        return InMemorySaver(serde=EncryptedSerializer(ScramblingCipher()))


class TestInMemorySaver(SaverContract):
    @pytest.fixture(params=["remembering", "forgetful"])
    def saver(self, request: pytest.FixtureRequest) -> InMemorySaver:
        saver = InMemorySaver()
        if request.param == "forgetful":
            saver._caches = Caches(scale=0)
        return saver
