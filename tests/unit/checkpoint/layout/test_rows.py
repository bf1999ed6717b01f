"""Checkpoint rows: size, sharing, and typed errors for damaged ones."""

from __future__ import annotations

import random

import pytest

from tests.unit.checkpoint.layout.damage import damaged
from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import KnownRow, Policy, RowFields
from threadmark.checkpoint.layout.columns import numbers_packed, take_numbers, take_texts, texts_packed
from threadmark.checkpoint.layout.versions import pack_version, unpack_versions
from threadmark.errors import DamagedRow

SALT = b"fedcba9876543210"


def version(rng: random.Random, count: int) -> str:
    return f"{count:032}.{rng.random():016}"


def chain(nodes: int = 50, turns: int = 2) -> list[RowFields]:
    """The checkpoints of a line of nodes, each waking the next."""
    rng, rows, count = random.Random(1), list[RowFields](), 0
    versions: dict[str, str] = {}
    seen: dict[str, dict[str, str]] = {}
    for _ in range(turns):
        for node in range(nodes):
            count += 1
            now = version(rng, count)
            own, following = f"branch:to:node{node}", f"branch:to:node{node + 1}"
            if own in versions:
                seen = {**seen, f"node{node}": {own: versions[own]}}
            versions = {**versions, "state": now, own: now, following: now}
            values = {"state": count, following: b"\0\xc0"}
            rows.append(RowFields(versions=versions, seen=seen, values=values, updated=["state", own, following]))
    return rows


def test_a_row_of_a_chain_of_fifty_nodes_costs_about_three_hundred_bytes() -> None:
    base: KnownRow | None = None
    total = longest = 0
    rows = chain()
    for fields in rows:
        encoded = layout.encode_row(fields, base, salt=SALT)
        base = encoded.known
        longest = max(longest, len(encoded.body))
        total += len(encoded.body) + sum(len(segment.data) + 16 for segment in encoded.segments)
    assert total / len(rows) < 320
    assert longest < 600


def test_a_small_row_needs_no_segment() -> None:
    encoded = layout.encode_row(RowFields(versions={"a": 1}, values={"a": 5}, extra=b"meta"), None, salt=SALT)
    assert encoded.segments == ()
    assert len(encoded.body) <= 32
    assert layout.decode_row(encoded.body, {}).fields.extra == b"meta"


def test_metadata_that_every_row_repeats_is_stored_once() -> None:
    base: KnownRow | None = None
    sizes, segments = list[int](), dict[bytes, bytes]()
    for step, fields in enumerate(chain(4, 10)):
        extra = b"step %d" % step + b", user and other settings of the run" * 20
        given = RowFields(versions=fields.versions, seen=fields.seen, values=fields.values, extra=extra)
        encoded = layout.encode_row(given, base, salt=SALT)
        segments |= {segment.key: segment.data for segment in encoded.segments}
        frames = layout.open_segments({key: segments[key] for key in encoded.known.refs})
        base = layout.decode_row(encoded.body, frames)
        assert base.fields.extra == extra
        sizes.append(len(encoded.body))
    assert max(sizes[5:]) < 200


def test_a_row_depends_on_one_segment_at_most_and_never_on_its_base() -> None:
    base, segments = None, dict[bytes, bytes]()
    for fields in chain():
        encoded = layout.encode_row(fields, base, salt=SALT)
        segments |= {segment.key: segment.data for segment in encoded.segments}
        assert len(encoded.known.refs) <= 1
        frames = layout.open_segments({key: segments[key] for key in encoded.known.refs})
        base = layout.decode_row(encoded.body, frames)
        assert base._replace(whole=None) == encoded.known._replace(whole=None, changes=None)
        assert base.fields == fields


def test_versions_of_one_step_are_stored_once() -> None:
    now = version(random.Random(3), 12)
    one = layout.encode_row(RowFields(versions={"a": now}), None, salt=SALT)
    many = layout.encode_row(RowFields(versions=dict.fromkeys("abcdefgh", now)), None, salt=SALT)
    assert len(many.body) - len(one.body) < 40


@pytest.mark.parametrize(
    ("one", "size"),
    [
        ("00000000000000000000000000000002.0.9109557612171695", 10),
        ("00000000000000000000000000000002.00000000000000.5", 51),
        ("00000000000000000000000000000002.000000000001e-05", 10),
        ("00000000000000000000000000000002.-00000000000000.0", None),
        ("0000000000000000000000000000_002.0.9109557612171695", None),
        ("00000000000000000000000000000002.0.91095576121716950", None),
        ("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz.0.9109557612171695", None),
        ("2", 3), (2, 2), (-1, 2), (10**40, None), (-(10**40), None), (1.5, 9), (True, 1), (None, 1),
        ("\ud800\0", None), (b"\0", 3), ((1, ("a", [2.0])), None), ("", 2),
    ],
)  # fmt: skip
def test_a_version_comes_back_as_itself(one: object, size: int | None) -> None:
    packed = pack_version(one)  # type: ignore[arg-type]
    found, end = unpack_versions(packed, 0, 1)
    assert repr(found) == repr([one])
    assert end == len(packed)
    if size is not None:
        assert len(packed) <= size


@pytest.mark.parametrize("one", [{1}, {"a": 1}, object(), 1j])
def test_a_version_of_another_kind_is_refused(one: object) -> None:
    with pytest.raises(TypeError, match="get_next_version"):
        layout.encode_row(RowFields(versions={"a": one}), None, salt=SALT)  # type: ignore[dict-item]


@pytest.mark.parametrize("numbers", [[], [0], [255, 0], [256], [65_536, 1], [1 << 40], [2**63 - 1] * 70])
def test_numbers_come_back(numbers: list[int]) -> None:
    out = b"x" + numbers_packed(numbers)
    found, end = take_numbers(out, 1)
    assert list(found) == numbers
    assert end == len(out)


def test_a_number_too_great_is_refused() -> None:
    with pytest.raises(ValueError, match="too great"):
        numbers_packed([1 << 64])


EVERY_SEPARATOR = "".join(map(chr, range(32))) + "\ue000"


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["a", "b\0c"], [EVERY_SEPARATOR, "\ud800", "x\n"]])
def test_texts_come_back(texts: list[str]) -> None:
    out = b"x" + texts_packed(texts)
    assert take_texts(out, 1) == (texts, len(out))


@pytest.mark.parametrize("data", ["0141ffffff7f0161", "0200020101026162", "0200040103"])
def test_texts_that_do_not_add_up_are_refused(data: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        take_texts(bytes.fromhex(data), 0)


def test_damaged_rows_raise_one_error_or_read_as_something() -> None:
    rng, base = random.Random(4), None
    bodies, segments = list[bytes](), dict[bytes, bytes]()
    for fields in chain(20, 1):
        encoded = layout.encode_row(fields, base, salt=SALT, policy=Policy(whole_life=9))
        base = encoded.known
        bodies.append(encoded.body)
        segments |= {segment.key: segment.data for segment in encoded.segments}
    frames = layout.open_segments(segments)
    for _ in range(3000):
        body = damaged(rng.choice(bodies), rng)
        try:
            layout.decode_row(body, frames)
        except DamagedRow:
            continue


@pytest.mark.parametrize("body", [b"", b"\0", b"\x10", b"\x11", b"\x11" + bytes(30), b"\x03" + bytes(30)])
def test_what_is_no_checkpoint_row_is_refused(body: bytes) -> None:
    with pytest.raises(DamagedRow):
        layout.decode_row(body, {})
