"""Bytes that only look like the head of a buffer cost little; a buffer among many of them is found."""

from __future__ import annotations

import struct
from typing import Any

import ormsgpack
import pytest

from threadmark.checkpoint.serde import buffers
from threadmark.checkpoint.serde.buffers import holds_buffer, proof
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.wire import PLAIN


def rows(count: int) -> list[dict[str, Any]]:
    """Records whose numbers and lengths hold the heads 0xC4 and 0xC5 now and then."""
    return [{"n": number, "text": "x" * (number % 300), "role": "user"} for number in range(count)]


def test_a_long_list_is_not_walked_for_a_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    value = rows(20_000)
    packed = ormsgpack.packb(value, option=PLAIN)
    assert packed.count(b"\xc4") + packed.count(b"\xc5") > 100

    def walked(value: Any) -> bool:
        raise AssertionError("every object was asked")

    monkeypatch.setattr(buffers, "_has_buffer", walked)
    assert not holds_buffer(value, packed, False)


@pytest.mark.parametrize("size", [0, 1, 200, 300, 70_000])
@pytest.mark.parametrize("at", [0, 4_999, 9_999])
@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytes(data))])
def test_a_buffer_is_found_wherever_it_is(size: int, at: int, kind: Any) -> None:
    value = rows(10_000)
    value[at]["extra"] = kind(b"\x00" * size)
    assert holds_buffer(value, ormsgpack.packb(value, option=PLAIN), False)


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytes(data))])
@pytest.mark.parametrize("size", [0, 1, 65, 300])
def test_a_buffer_is_found_behind_what_looks_like_the_length_of_a_text(size: int, kind: Any) -> None:
    texts = ["x" * length for length in (0xD9, 0xDA, 0xD900, 0xDA07)]
    numbers = [
        int.from_bytes(tail, "big")
        for tail in (
            *(b"\xd9", b"\x00\xd9", b"\xda\x07", b"\x01\xda\x07", b"\x00" * 5 + b"\xd9"),
            *(bytes((head,)) for head in range(0xCA, 0xE0)),
            *(b"\x01%c\x07" % head for head in range(0xCA, 0xE0)),
        )
    ]
    floats = [struct.unpack(">d", b"@\x01" + b"\x05" * (6 - len(tail)) + tail)[0] for tail in (b"\xd9", b"\xda\x07")]
    filling = ["some words of text"] * 200
    for before in [*texts, *numbers, *floats, *(-number for number in numbers), "\u0659", "\u0687"]:
        for apart in ("", "a", "words that are long enough"):
            value = [*filling, apart, before, kind(b"\x00" * size), *filling]
            assert holds_buffer(value, ormsgpack.packb(value, option=PLAIN), False), (apart, before)


def test_lengths_of_texts_are_no_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    value = [
        {"role": "user", "text": "x" * size} for size in (0xC4, 0xC5, 0xC6, 0x1C4, 0x2C5, 0x7DC4, 0x8FC4, 0xC411)
    ] * 2
    packed = ormsgpack.packb(value, option=PLAIN)
    monkeypatch.setattr(buffers, "_has_buffer", lambda value: pytest.fail("every object was asked"))
    assert not holds_buffer(value, packed, False)
    assert proof(value, packed) is True


NUMBERS = (0xC4, 0x1C4, 0x7DC5, 0xC4C4, 0x1_00C4, 0xC4 << 24, 0xC5 << 56, -60, -0x3B00)


@pytest.mark.parametrize("number", [*NUMBERS, struct.unpack(">d", b"\x40\xc4" + b"\0" * 6)[0]])
@pytest.mark.parametrize("count", [0xC4, 0xC5, 0xC6, 0xC400, 0x1C4, 0xC4C5])
def test_numbers_and_the_head_of_a_list_are_no_buffers(
    count: int, number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = [{"role": "user", "text": "some words", "n": 0}] * count
    value[170] = {"role": "user", "text": "some words", "n": number}
    packed = ormsgpack.packb(value, option=PLAIN)
    monkeypatch.setattr(buffers, "_has_buffer", lambda value: pytest.fail("every object was asked"))
    assert proof(value, packed) is True


def test_what_bytes_cannot_show_is_asked_of_the_objects() -> None:
    filling: list[Any] = ["some words of text"] * 200
    for data, found in ((b"abc", False), (bytearray(b"abc"), None), (memoryview(b"abc"), None)):
        for value in ([*filling, data], [data, *filling], [data]):
            assert proof(value, ormsgpack.packb(value, option=PLAIN)) is found
    assert proof(filling, ormsgpack.packb(filling, option=PLAIN)) is True


def test_a_buffer_in_a_long_list_comes_back_as_one() -> None:
    serde = JsonPlusSerializer()
    value = rows(3_000)
    value[1_500]["extra"] = bytearray(b"abc")
    back = serde.loads_typed(serde.dumps_typed(value))
    assert back == value
    assert type(back[1_500]["extra"]) is bytearray
