"""Long lists in pieces: joined they are what the serializer makes of the whole; equal pieces are one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadmark.checkpoint import long_lists
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.layout import Pieces, Policy, diff, joined
from threadmark.checkpoint.layout.pieces import cut, equal
from threadmark.checkpoint.long_lists import LONG, LongList, items_of, lengthened, repacked, unpacked
from threadmark.checkpoint.plain import join
from threadmark.checkpoint.serde.buffers import proof
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.wire import pack_plain

SERDE = JsonPlusSerializer()
CODEC = Codec(SERDE, ())


def whole(items: Any) -> bytes:
    return join(SERDE.dumps_typed(items))


def check(made: LongList | None, items: list[Any]) -> LongList:
    assert made is not None
    assert joined(made) == whole(items)
    assert len(made) == len(whole(items))
    assert made.count == len(items)
    assert repr(unpacked(made, SERDE.unpack)) == repr(items)
    assert repr(CODEC.load(made)) == repr(items)
    return made


@pytest.fixture
def short() -> Iterator[None]:
    """Pieces of a few dozen bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists, "LONG", 64)
        patch.setattr(long_lists, "_SMALL", 32)
        yield


ITEMS = st.lists(
    st.one_of(st.integers(-(2**40), 2**40), st.text(max_size=40), st.binary(max_size=9), st.none(), st.booleans(),
              st.floats(allow_nan=False), st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=3)),
    max_size=60,
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.sampled_from(("add", "edit", "insert", "delete", "trim", "same")), st.integers(0, 80), ITEMS),
    max_size=8,
)


def edited(items: list[Any], kind: str, at: int, more: list[Any]) -> list[Any]:
    match kind:
        case "add":
            return items + more
        case "edit":
            return [*items[:at], *more[:1], *items[at + 1 :]]
        case "insert":
            return [*items[:at], *more, *items[at:]]
        case "delete":
            return [*items[:at], *items[at + len(more) :]]
        case "trim":
            return items[at:]
    return list(items)


@pytest.mark.usefixtures("short")
@given(ITEMS.filter(bool), EDITS, st.booleans())
@settings(max_examples=100)
def test_every_version_is_what_the_serializer_makes_of_it(items: list[Any], edits: list[Any], flat: bool) -> None:
    old = check(repacked(LongList(()), items, pack_plain, proof), items)
    for kind, at, more in edits:
        new = edited(items, kind, at, more)
        if flat and len(old) >= 64:
            old = items_of(joined(old)) or old
        if kind == "add":
            check(lengthened(old, new, pack_plain, proof), new)
        if not new:
            assert repacked(old, new, pack_plain, proof) is None
            break
        made = check(repacked(old, new, pack_plain, proof), new)
        assert equal(made, old) == (whole(new) == whole(items)) == equal(joined(made), old) == equal(old, joined(made))
        items, old = new, made


@pytest.mark.parametrize("count", [15, 16, 17, 300, 65_535, 65_536, 70_000])
def test_heads_of_every_length(count: int) -> None:
    items = [{"a": number % 7, "b": "text " * (1 + 70_000 // count)} for number in range(count)]
    found = items_of(whole(items))
    check(found, items)
    assert found is not None
    longer = check(lengthened(found, [*items, 1], pack_plain, proof), [*items, 1])
    again = check(repacked(longer, [*items, 2], pack_plain, proof), [*items, 2])
    check(repacked(again, items[:-1], pack_plain, proof), items[:-1])


def test_what_did_not_change_is_the_same_object() -> None:
    items: list[Any] = [{"n": number, "text": "words " * 50} for number in range(2000)]
    flat = items_of(whole(items))
    assert flat is not None
    first = check(repacked(flat, items, pack_plain, proof), items)
    assert len(first.runs) > 8
    assert all(part.obj is flat.parts[1].obj for part in first.parts[1:-1])  # type: ignore[union-attr]
    items.append("more")
    second = check(repacked(first, items, pack_plain, proof), items)
    kept = len(first.parts) - 2
    assert all(ours is theirs for ours, theirs in zip(second.parts[1 : 1 + kept], first.parts[1:-1], strict=True))
    items[900]["text"] = "edited in place"
    third = check(repacked(second, items, pack_plain, proof), items)
    changed = [at for at in range(kept) if third.parts[1 + at] is not second.parts[1 + at]]
    assert len(changed) == 1


def test_only_long_lists_of_plain_values_are_taken_so() -> None:
    items = [{"n": number, "text": "words " * 50} for number in range(300)]
    assert items_of(whole(items[:100])) is None
    assert items_of(whole({"a": items})) is None
    assert items_of(join(("json", b"x" * LONG))) is None
    value, known = CODEC.load_list(whole(items))
    assert value == items
    assert known is not None
    value, known = CODEC.load_list(whole([*items, (1, 2)]))
    assert value == [*items, (1, 2)]
    assert known is None
    old = items_of(whole(items))
    assert old is not None
    for other in ([*items, (1, 2)], [*items, bytearray(b"a")], tuple(items), None, items[:5]):
        assert lengthened(old, other, pack_plain, proof) is None
    for other in ([*items, (1, 2)], [bytearray(b"a"), *items], tuple(items), None, []):
        assert repacked(old, other, pack_plain, proof) is None
    assert lengthened(old, items, pack_plain, proof) is old


@pytest.mark.parametrize("filling", ["words " * 50, "x" * 0xC4, b"bytes " * 60])
def test_a_bytearray_in_the_place_of_equal_bytes_is_found(filling: Any) -> None:
    items: list[Any] = [{"n": number, "data": filling} for number in range(2000)]
    items[700]["data"] = items[1999]["data"] = b"abc" * 9
    old = repacked(LongList(()), items, pack_plain, proof)
    assert old is not None
    for _ in range(2):
        old = check(repacked(old, items, pack_plain, proof), items)
    for at in (700, 1999):
        for other in (bytearray, memoryview):
            changed = [*items]
            changed[at] = {**items[at], "data": other(b"abc" * 9)}
            assert pack_plain(changed) == pack_plain(items)
            assert repacked(old, changed, pack_plain, proof) is None
    assert lengthened(old, [*items, bytearray(b"a")], pack_plain, proof) is None


def test_runs_that_show_that_they_hold_no_buffer_are_not_looked_into_again() -> None:
    items: list[Any] = [{"n": number, "text": "words " * 50} for number in range(2000)]
    asked: list[int] = []

    def proving(value: list[Any], packed: bytes) -> bool | None:
        asked.append(len(value))
        return proof(value, packed)

    flat = items_of(whole(items))
    assert flat is not None
    old = repacked(flat, items, pack_plain, proving)
    assert old is not None
    assert sum(asked) == 2000  # nobody knows what bytes that were read stood for
    asked.clear()
    items[1000]["text"] = "other"
    items.append("more")
    new = check(repacked(old, items, pack_plain, proving), items)
    assert all(run.proven for run in new.runs)
    assert 0 < sum(asked) < 600


def test_a_list_that_has_become_short_is_in_one_place_again() -> None:
    items = [{"n": number, "text": "words " * 50} for number in range(300)]
    assert type(CODEC.dump_list(items[:3], whole(items), None)) is bytes
    assert type(CODEC.dump_list(items, whole(items), None)) is LongList
    assert CODEC.dump_list(items, None, None) is CODEC.dump_list(items, whole({"a": items}), None) is None
    assert CODEC.dump_list(items, whole([(1, 2), *items]), None) is not None

    class Other(JsonPlusSerializer):
        """Its bytes may mean anything."""

    assert Codec(Other(), ()).dump_list(items, whole(items), None) is None
    assert Codec(Other(), ()).load_list(whole(items)) == (items, None)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=9), st.integers(0, 90), st.integers(0, 90))
def test_a_cut_through_pieces_is_a_cut_through_their_bytes(parts: list[bytes], start: int, end: int) -> None:
    pieces, every = Pieces(parts), b"".join(parts)
    assert (joined(pieces), len(pieces)) == (every, len(every))
    assert cut(pieces, start, end) == every[start:end] == cut(every, start, end)
    assert equal(pieces, every)
    assert equal(pieces, Pieces([every]))
    assert not equal(pieces, Pieces([*parts, b"a"]))
    assert not equal(Pieces([*parts, b"a"]), Pieces([*parts, b"b"]))


def test_what_a_list_that_was_read_shares_with_the_next_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Any] = [{"n": number, "text": "words " * 50} for number in range(2000)]
    flat = items_of(whole(items))
    assert flat is not None
    longer = check(lengthened(flat, [*items, 1], pack_plain, proof), [*items, 1])
    again = check(repacked(longer, [*items, 1, 2], pack_plain, proof), [*items, 1, 2])
    compared: list[int] = []
    run = diff.Search.run
    monkeypatch.setattr(diff.Search, "run", lambda self, places: compared.append(len(self._new)) or run(self, places))
    for old in (flat, longer, whole(items), again):
        found = diff.matches(old, again, Policy())
        assert max(match[2] for match in found) > len(flat) - 2 * LONG
        for at, old_at, length in found:
            assert joined(again)[at : at + length] == joined(old)[old_at : old_at + length]
    assert max(compared) < 2 * LONG
