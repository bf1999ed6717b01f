"""The byte diff: what it finds, and that its work is bounded whatever the bytes are."""

from __future__ import annotations

import random

import pytest

from threadmark.checkpoint.layout.diff import SCAN, Search
from threadmark.checkpoint.layout.policy import Policy

RNG = random.Random(5)
SIZE = 200_000
NOISE = RNG.randbytes(SIZE)
ZEROS = bytes(SIZE)
PERIOD = (b"abcabd" * SIZE)[:SIZE]
ROWS = b"".join(b'{"role":"user","n":%d},' % RNG.randrange(10**6) for _ in range(SIZE // 26))


def found(old: bytes, new: bytes) -> tuple[Search, list[tuple[int, int, int]]]:
    search = Search(old, new)
    result = search.run(Policy().places)
    at = back = 0
    for new_at, old_at, length in result:
        assert new_at >= at
        assert old_at >= back
        assert length > 0
        assert new[new_at : new_at + length] == old[old_at : old_at + length]
        at, back = new_at + length, old_at + length
    return search, result


def shared(old: bytes, new: bytes) -> int:
    return sum(match[2] for match in found(old, new)[1])


@pytest.mark.parametrize("old", [NOISE, ROWS])
def test_one_edit_anywhere_leaves_all_else_shared(old: bytes) -> None:
    half = len(old) // 2
    assert shared(old, old + b"more") == len(old)
    assert shared(old, b"more" + old) == len(old)
    assert shared(old, old[:half] + b"more" + old[half:]) == len(old)
    assert shared(old, old[:half] + old[half + 700 :]) == len(old) - 700
    assert shared(old, old[:half] + bytes(500) + old[half + 900 :]) == len(old) - 900
    assert shared(old, old[5000:]) == len(old) - 5000


def test_a_changed_header_does_not_hide_an_append_or_a_trim() -> None:
    old, new = b"\xdc\x01\x00" + ROWS, b"\xdc\x01\x01" + ROWS[5200:] + b"a new record of some length"
    assert shared(old, new) >= len(ROWS) - 5200 - 30


def test_an_appended_record_that_ends_like_the_last_leaves_the_old_value_in_one_piece() -> None:
    end = b"; and every record ends in these words"
    old, new = b"\x01" + NOISE + end, b"\x02" + NOISE + end + b"the new record" + end
    _, result = found(old, new)
    assert (1, 1, len(NOISE) + len(end)) in result


def test_several_edits_are_found_each() -> None:
    value = bytearray(NOISE)
    for at in range(10_000, SIZE, 20_000):
        value[at : at + 10] = b"x" * RNG.randrange(30)
    assert shared(NOISE, bytes(value)) > SIZE - 1000


def shuffled(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    random.Random(2).shuffle(parts)
    return b"".join(parts)


HOSTILE = {
    "zeros": (ZEROS, ZEROS + b"\1" + ZEROS),
    "zeros against ones": (ZEROS, b"\1" * SIZE),
    "period, shifted": (PERIOD, PERIOD[3:] + b"q" + PERIOD),
    "nearly a period": (b"a" * SIZE, (b"a" * 23 + b"b") * (SIZE // 24)),
    "nearly a period, back": ((b"a" * 23 + b"b") * (SIZE // 24), b"a" * SIZE),
    "random": (NOISE, random.Random(9).randbytes(SIZE)),
    "every thousandth byte": (NOISE, bytes(b ^ (i % 1000 == 0) for i, b in enumerate(NOISE))),
    "shuffled blocks": (NOISE, shuffled(NOISE, 512)),
    "shuffled records": (ROWS, shuffled(ROWS, 26)),
    "backwards": (ROWS, ROWS[::-1]),
    "empty": (b"", ROWS),
    "emptied": (ROWS, b""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded(name: str) -> None:
    old, new = HOSTILE[name]
    search, result = found(old, new)
    places = Policy().places
    assert len(result) <= places + 2
    assert search.probes <= places * 40
    # The last search may overrun by the value's length, once.
    assert search.scanned <= (SCAN + 2) * (len(old) + len(new)) + (1 << 17)
