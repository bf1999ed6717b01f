"""Encryption: what comes back, and that nothing else does."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest

from tests.unit.checkpoint.serde import models as m
from threadmark.checkpoint.serde.eax import open_eax, open_gcm, seal_eax
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import (
    DamagedValue,
    EncryptionError,
    MovedValue,
    PlaintextValue,
    SerializationError,
    UnknownKey,
    WrongKey,
)
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.sealing import place_bytes

KEY = b"0123456789abcdef"
PLACE = ("value", "ns", 7)


class Reversed:
    """A cipher of a few lines, without associated data."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1] + bytes([sum(plaintext) % 256])

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        plain = ciphertext[-2::-1] if len(ciphertext) > 1 else b""
        if ciphername != "reversed" or ciphertext[-1:] != bytes([sum(plain) % 256]):
            raise ValueError("checksum")
        return plain


def ours(key: bytes = KEY, **options: Any) -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=key, **options)


@pytest.fixture(params=["ours", "cipher"])
def serde(request: pytest.FixtureRequest) -> EncryptedSerializer:
    return ours() if request.param == "ours" else EncryptedSerializer(Reversed())


# -- by itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, b"x", bytearray(b"y"), {"a": (1, {2})}, "text"])
def test_values_come_back(serde: EncryptedSerializer, value: Any) -> None:
    tag, body = serde.dumps_typed(value)
    assert "+" in tag
    assert serde.loads_typed((tag, body)) == value


def test_the_plaintext_does_not_show() -> None:
    tag, body = ours().dumps_typed({"password": "hunter2"})
    assert b"hunter2" not in body
    assert ours().dumps_typed({"password": "hunter2"})[1] != body
    assert tag == "msgpack+aes256gcm"


def test_plaintext_is_refused(serde: EncryptedSerializer) -> None:
    for forged in (JsonPlusSerializer().dumps_typed({"approved": True}), ("null", b""), ("json", b"{}")):
        with pytest.raises(PlaintextValue, match="never encrypted"):
            serde.loads_typed(forged)


def test_the_tag_is_authenticated() -> None:
    _, body = ours().dumps_typed(b"bytes")
    with pytest.raises(EncryptionError):
        ours().loads_typed(("msgpack+aes256gcm", body))


def test_every_flipped_bit_and_every_cut_is_found(serde: EncryptedSerializer) -> None:
    tag, body = ours().dumps_typed({"a": 1})
    for at in range(len(body)):
        with pytest.raises(EncryptionError):
            ours().loads_typed((tag, body[:at]))
        changed = bytearray(body)
        changed[at] ^= 0x10
        with pytest.raises(EncryptionError):
            ours().loads_typed((tag, bytes(changed)))


def test_a_wrong_key_is_named_as_such() -> None:
    stored = ours().dumps_typed(1)
    with pytest.raises(WrongKey, match="another key"):
        ours(b"f" * 16).loads_typed(stored)
    named = EncryptedSerializer.from_keys({"k1": KEY})
    with pytest.raises(WrongKey, match="under the name 'k1'"):
        EncryptedSerializer.from_keys({"k1": b"f" * 16}).loads_typed(named.dumps_typed(1))


def test_keys_rotate_and_each_value_says_which_one_it_needs() -> None:
    old = EncryptedSerializer.from_keys({"k1": KEY})
    both = EncryptedSerializer.from_keys({"k1": KEY, "k2": b"n" * 32}, active="k2")
    new = EncryptedSerializer.from_keys({"k2": b"n" * 32})
    stored, fresh = old.dumps_typed("x"), both.dumps_typed("y")
    assert both.loads_typed(stored) == "x"
    assert new.loads_typed(fresh) == "y"
    with pytest.raises(UnknownKey, match=r"'k1'.*'k2' were given"):
        new.loads_typed(stored)
    with pytest.raises(ValueError, match="active"):
        EncryptedSerializer.from_keys({"k1": KEY}, active="k9")


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_three_sizes_from_argument_and_environment(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = ours(b"k" * size).dumps_typed(1)
    for name in ("LANGGRAPH_AES_KEY", "THREADMARK_AES_KEY"):
        monkeypatch.setenv(name, "k" * size)
        assert EncryptedSerializer.from_pycryptodome_aes().loads_typed(stored) == 1
        monkeypatch.delenv(name)


def test_a_missing_or_wrong_key_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"LANGGRAPH_AES_KEY.*openssl"):
        EncryptedSerializer.from_pycryptodome_aes()
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "short")
    with pytest.raises(ValueError, match="LANGGRAPH_AES_KEY has 5 bytes"):
        EncryptedSerializer.from_pycryptodome_aes()
    for key in (b"", b"x" * 17, "a" * 16):
        with pytest.raises(ValueError, match="16, 24 or 32"):
            ours(key)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode"):
        ours(mode=1)


def test_the_allow_list_reaches_the_inner_serializer(serde: EncryptedSerializer) -> None:
    with pytest.raises(SerializationError):
        serde.dumps_typed(m.Basket([]))
    wider = serde.with_allowlist({m.Basket})
    assert wider.loads_typed(wider.dumps_typed(m.Basket([]))) == m.Basket([])
    assert serde.explain({"b": m.Basket([])})[0][0] == "b"
    assert ours(serde=JsonPlusSerializer(allow=[m.Basket])).dumps_typed(m.Basket([]))


# -- in a saver's rows ---------------------------------------------------------------------------------------


def test_a_sealed_row_opens_at_its_place_only(serde: EncryptedSerializer) -> None:
    sealer = serde.bind("thread")
    sealed = sealer.seal(PLACE, b"data")
    assert sealer.open(PLACE, sealed) == b"data"
    others = [("value", "ns", 8), ("value", "ns", "7"), ("value", "ns7"), ("valuens", 7), ("value", "ns", 7, None), ()]
    for place in others:
        with pytest.raises(MovedValue, match="another place"):
            sealer.open(place, sealed)
    with pytest.raises(MovedValue, match="another place"):
        serde.bind("thread2").open(PLACE, sealed)


def test_rows_tell_plain_damaged_foreign_and_unbound_apart(serde: EncryptedSerializer) -> None:
    sealer = serde.bind("t")
    sealed = sealer.seal(PLACE, b"data " * 50)
    for plain in (b"", b"\x81\xa1a\x01", b"\x01", JsonPlusSerializer().dumps_typed({"a": 1})[1]):
        with pytest.raises(PlaintextValue, match="never encrypted"):
            sealer.open(PLACE, plain)
    for cut in (4, 12, 60, len(sealed) - 1):
        with pytest.raises(DamagedValue, match="damaged"):
            sealer.open(PLACE, sealed[:cut])
    changed = bytearray(sealed)
    changed[100] ^= 1
    with pytest.raises(DamagedValue, match="damaged"):
        sealer.open(PLACE, bytes(changed))
    with pytest.raises((MovedValue, PlaintextValue)):
        sealer.open(PLACE, serde.dumps_typed(b"data")[1])
    with pytest.raises(EncryptionError):
        serde.loads_typed(("bytes+aes256gcm", sealed))


def test_a_row_of_another_key_is_named_as_such() -> None:
    sealed = ours().bind("t").seal(PLACE, b"x")
    with pytest.raises(WrongKey):
        ours(b"f" * 32).bind("t").open(PLACE, sealed)
    with pytest.raises(UnknownKey):
        EncryptedSerializer.from_keys({"k": KEY}).bind("t").open(PLACE, sealed)
    with pytest.raises(WrongKey, match="another cipher"):
        EncryptedSerializer(Reversed()).bind("t").open(PLACE, sealed)
    with pytest.raises(WrongKey, match="another cipher"):
        ours().bind("t").open(PLACE, EncryptedSerializer(Reversed()).bind("t").seal(PLACE, b"x"))


def test_the_segment_key_is_a_secret_of_thread_and_key() -> None:
    one = ours().bind("a").segment_key
    assert one == ours().bind("a").segment_key
    assert one is not None
    assert len(one) == 32
    assert len({one, ours().bind("b").segment_key, ours(b"f" * 16).bind("a").segment_key}) == 3
    assert EncryptedSerializer(Reversed()).bind("a").segment_key is None


def test_no_two_places_look_alike() -> None:
    places = [
        (), ("",), (b"",), (None,), (0,), (False,), ("0",), ("a", "b"), ("ab",), ("a", "", "b"), (("a",), "b"),
        (("a", "b"),),
        ("\ud800",), (1.0,), (1,), ({"a": 1},), ({"a": "1"},), (["a", ["b"]],), ("n",),
    ]  # fmt: skip
    encoded = [place_bytes(place) for place in places]
    assert len(set(encoded)) == len(places)
    for one, other in itertools.permutations(encoded, 2):
        assert one != other
    with pytest.raises(TypeError, match="place"):
        place_bytes([object()])


# -- LangGraph's form ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 24, 32])
def test_eax_is_what_pycryptodome_makes(size: int) -> None:
    from Crypto.Cipher import AES

    for length in (0, 1, 15, 16, 17, 1000):
        key, nonce, plain = os.urandom(size), os.urandom(16), os.urandom(length)
        cipher = AES.new(key, AES.MODE_EAX, nonce=nonce)
        sealed, tag = cipher.encrypt_and_digest(plain)
        blob = nonce + tag + sealed
        assert seal_eax(key, nonce, plain) == blob
        assert open_eax(key, blob) == plain
        for at in range(0, len(blob), 7):
            changed = bytearray(blob)
            changed[at] ^= 1
            assert open_eax(key, bytes(changed)) is None


def test_values_that_langgraph_encrypted_load_by_themselves_and_in_no_row() -> None:
    from Crypto.Cipher import AES

    tag, plain = JsonPlusSerializer().dumps_typed({"a": [1]})
    blob = seal_eax(KEY, os.urandom(16), plain)
    assert ours().loads_typed((f"{tag}+aes", blob)) == {"a": [1]}
    with pytest.raises(DamagedValue, match="LangGraph"):
        ours(b"f" * 16).loads_typed((f"{tag}+aes", blob))
    with pytest.raises(EncryptionError):
        ours().bind("t").open(PLACE, blob)
    with pytest.raises(EncryptionError, match="'des'"):
        ours().loads_typed((f"{tag}+des", blob))
    cipher = AES.new(KEY, AES.MODE_GCM, nonce=b"n" * 16)
    sealed, mac = cipher.encrypt_and_digest(plain)
    gcm = b"n" * 16 + mac + sealed
    assert open_gcm(KEY, gcm) == plain
    assert open_gcm(KEY, gcm[:-1]) is None
    assert ours(mode=AES.MODE_GCM).loads_typed((f"{tag}+aes", gcm)) == {"a": [1]}
