"""Format version 1: these bytes were written once and load for ever (docs/explanation/storage-layout.md)."""

from __future__ import annotations

import pytest

from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import RowFields

SALT = b"golden salt 1234"
TEXT = b"".join(b"The quick brown fox jumps over the lazy dog. %d " % number for number in range(40))

VALUES = [
    b"tiny",
    TEXT[:60],
    TEXT[:300],
    TEXT[:400] + b"!",
    TEXT[:400] + b"?? and more",
    TEXT[:400] + b"?? and more, and more still" + TEXT[100:200],
    TEXT[50:900] + b" the end",
    TEXT[50:900] + b" the end of the end",
    TEXT[50:900] + b" the very end of the end",
    TEXT[50:900] + b" the very end of the very end",
    TEXT[50:900] + b" the very end of the very end indeed",
]


def version(count: int, fraction: float) -> str:
    return f"{count:032}.{fraction:016}"


ROWS = [
    RowFields(versions={"a": 1}, values={"a": 3}, updated=["a"], extra=b"x"),
    RowFields(
        versions={f"channel{i}": version(i, i / 7) for i in range(12)},
        seen={"n": {"channel1": version(1, 1 / 7)}},
        values={"channel1": 300, "channel2": b"\0\xc0"},
        extra=b"meta",
    ),
    RowFields(
        versions={f"channel{i}": version(i, i / 7) for i in range(11)} | {"new": version(99, 0.25)},
        seen={"n": {"channel1": version(99, 0.25)}, "m": {}},
        values={"channel1": 70000},
        updated=["new"],
    ),
]

BODIES = [
    "0074696e79",
    (
        "02000001f00154686520717569636b2062726f776e20666f78206a756d7073206f76657220746865206c617a7920646f"
        "672e20302054686520717569636b2062726f"
    ),
    "03ada7adce11d2af7bd86cda4ff6eb4381",
    (
        "03ada7adce11d2af7bd86cda4ff6eb43812928b52ffd2426e50000b00248377a35de4f7bd7236fc1227e028a7902b309"
        "97030100874c210b1471ce"
    ),
    "03550d5b2ee92de5b84761105c3002fbca",
    (
        "03550d5b2ee92de5b84761105c3002fbca2b28b52ffd2438f50000c003e819e7cd7f2b2dcb83d6580d788e7dfd03b309"
        "9303ff0301001557421ec436be"
    ),
    "03ddbc680feeecef010b08f9efac7ad181",
    ("03ddbc680feeecef010b08f9efac7ad1812528b52ffd246fc5000068062c206f662074686520656e640300675002c6d994421051523ca3"),
    (
        "03ddbc680feeecef010b08f9efac7ad1815428b52ffd2477150100b806d70d4c7665727920656e64206f662074686520"
        "656e640300675003c5d99442104bb5be01"
    ),
    "04ddbc680feeecef010b08f9efac7ad18147377419b699b31306a06a0abd9d28730000",
    (
        "04ddbc680feeecef010b08f9efac7ad18147377419b699b31306a06a0abd9d28731e0028b52ffd24838d0000407c2069"
        "6e6465656402008329faa30108bf32c786"
    ),
]

ROW_BODIES = [
    "101901010161000102022001010000000000020c0000000400040378",
    "11c9ee8d6197b359ac249a3d536721f37b94020000002000000000000000000000000400",
    (
        "11c9ee8d6197b359ac249a3d536721f37b94020201056e6577006d00010063000000000000d03f280101000201010002"
        "0100200d010c0e0b020d01080c0c06701101000000"
    ),
]

SEGMENTS = {
    "ddc0ef00ee5a724ecb673ead437beb5d": (
        "0128b52ffd642c003d0200440354686520717569636b2062726f776e20666f78206a756d7073206f7665722074686520"
        "6c617a7920646f672e203020313233343506002091817903930d4c1998f74a539501b0736322"
    ),
    "ada7adce11d2af7bd86cda4ff6eb4381": "0001ddc0ef00ee5a724ecb673ead437beb5d01b309",
    "48377a35de4f7bd7236fc1227e028a79": (
        "0128b52ffd2465dd0100140378206a756d7073206f76657220746865206c617a7920646f672e20362054686520717569"
        "636b2062726f776e20666f37210200601197a12a03a39f3357"
    ),
    "550d5b2ee92de5b84761105c3002fbca": (
        "0002ddc0ef00ee5a724ecb673ead437beb5d48377a35de4f7bd7236fc1227e028a7903b30993032c3f3f20616e64206d6f7265"
    ),
    "e819e7cd7f2b2dcb83d6580d788e7dfd": (
        "0128b52ffd247f75020024043f3f20616e64206d6f72652c207374696c6c69636b2062726f776e20666f78206a756d70"
        "73206f76657220746865206c617a7920646f672e203220546865207175330300e01045aa02ab9524b5ff2e00"
    ),
    "a46833b4c2b8b0d54d1d379fc4db2a89": (
        "0128b52ffd64b8009502000404392054686520717569636b2062726f776e20666f78206a756d7073206f766572207468"
        "65206c617a7920646f672e203130313233343536372074686520656e6408042500011c80010470000610c154506c39f6"
        "27"
    ),
    "ddbc680feeecef010b08f9efac7ad181": (
        "0004ddc0ef00ee5a724ecb673ead437beb5d48377a35de4f7bd7236fc1227e028a79e819e7cd7f2b2dcb83d6580d788e"
        "7dfda46833b4c2b8b0d54d1d379fc4db2a8905e90732930358b90143e30d73206f76657220746865206c617a7920646f"
        "672e2038"
    ),
    "47377419b699b31306a06a0abd9d2873": (
        "0028b52ffd247c2d0100b806d70d607665727920656e64206f667665727920656e6404000213fc19d4407136a5100438368136"
    ),
    "c9ee8d6197b359ac249a3d536721f37b": (
        "0128b52ffd6417022d060032c81b23a035e9ff3f58555575e3689a18b5facb9011b2f7de7b2799fd87e86d6b6b9648db"
        "52064dc47900602a149609e5c150200c044a1240898b448888999912efef5eff65dee5afae33aebacd46f6baacd55d75"
        "d56b8b62af7ba3eb3a09c8940ffeccf25c634b1ded709ea76930208908272000031939ea911fae2d33addf5cb7080907"
        "6e910907e689736f92f90eb69c17305e9d88edaecc3dd432890f2b0e651b5d61e03800ab111e0c324644620e4cb6f3ee"
        "435822c9252c91e41296c893cbec240102c0762f"
    ),
}

STORED = {bytes.fromhex(key): bytes.fromhex(data) for key, data in SEGMENTS.items()}


@pytest.mark.parametrize("at", range(len(VALUES)))
def test_a_value_of_version_1_loads(at: int) -> None:
    body = bytes.fromhex(BODIES[at])
    assert layout.decode(body, lambda keys: {key: STORED[key] for key in keys}).plain == VALUES[at]


@pytest.mark.parametrize("at", range(len(ROWS)))
def test_a_checkpoint_row_of_version_1_loads(at: int) -> None:
    assert layout.decode_row(bytes.fromhex(ROW_BODIES[at]), layout.open_segments(STORED)).fields == ROWS[at]


def test_segment_keys_of_version_1_are_what_they_were() -> None:
    for key, data in STORED.items():
        layout.check_segment(key, layout.open_segment(data), SALT)


def test_every_kind_of_row_is_among_them() -> None:
    assert {bytes.fromhex(body)[0] for body in (*BODIES, *ROW_BODIES)} == {0, 2, 3, 4, 16, 17}
    assert {data[0] for data in STORED.values()} == {0, 1}
