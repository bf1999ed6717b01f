"""``InMemorySaver`` keeps the contract: both colours, opaque bytes, a cipher of the user's, no memories."""

from __future__ import annotations

from tests.contract.ours import OurPromises
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer


class ScramblingCipher:
    """A cipher of the user's, as the protocol wants it."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "scramble", bytes(byte ^ 0x5A for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "scramble"
        return bytes(byte ^ 0x5A for byte in ciphertext)


class TestInMemorySaver(OurPromises):
    def open_saver(self) -> InMemorySaver:
        return InMemorySaver()


class TestForgetful(OurPromises):
    payloads = ("own",)

    def open_saver(self) -> InMemorySaver:
        saver = InMemorySaver()
        saver._caches = Caches(scale=0)
        return saver


class TestForeignCipher(OurPromises):
    payloads = ("own",)

    def open_saver(self) -> InMemorySaver:
        return InMemorySaver(serde=EncryptedSerializer(ScramblingCipher()))
