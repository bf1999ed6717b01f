"""Lists of instances travel as one extension, and come back like any list."""

from __future__ import annotations

from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.unit.checkpoint.serde import models as m
from tests.unit.checkpoint.serde.equality import same
from tests.unit.checkpoint.serde.samples import ALLOWED
from threadmark.checkpoint.serde.batches import BATCH
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.view import Opaque, ViewSerializer

SERDE = JsonPlusSerializer(allow=ALLOWED)
HERE = m.__name__

LISTS: dict[str, list[Any]] = {
    "dataclasses": [m.Basket([at], at) for at in range(9)],
    "models": [m.Message(role="r", content=at) for at in range(9)],
    "models with some fields set": [m.Message.model_construct(_fields_set={"role"}, role="r") for _ in range(5)],
    "open models": [m.Loose(a=at, more=[(at,)]) for at in range(5)],
    "chat messages": [(HumanMessage, AIMessage)[at % 2](f"m{at}", id=str(at)) for at in range(6)],
    "many classes": [m.Basket([1]), m.Message(role="r", content=()), m.Point(1, 2), m.Slotted(1, [2]), m.Packed(1),
                     m.Colour.RED, m.Colour.PAIR, m.Frozen(1, {2}), m.Old(a=1), m.Scores([1])],
    "odd parts": [m.Frozen(1, bytearray(b"x")), m.Frozen("\ud800", 2**70), m.Frozen({(1,): 2}, memoryview(b"abc")),
                  m.Frozen(b"\xc4" * 300, [m.Frozen(1, 2)] * 5)],
    "enum members": [m.Level.LOW] * 4,
    "models in models": [m.Message(role="r", content=m.Message(role="inner", content=at)) for at in range(6)],
    "models in some models": [m.Message(role="r", content=None if at in (1, 4) else m.Loose(a=at)) for at in range(6)],
    "models in later models": [m.Message(role="r", content=at if at < 2 else m.Loose(a=at)) for at in range(6)],
    "models and their kin in models": [
        m.Message(role="r", content=content)
        for content in (m.Loose(a=1, more=m.Frozen(1)), m.Box[int](item=1), m.Loose(a=2), m.Colour.PAIR, m.Old(a=1),
                        ValueError(1), m.Point(1, 2), {"a": m.Loose()}, m.Scores([1]), m.Tagged({"a": 1}), 7, "text")
    ],
    "instances in several fields": [m.Frozen(m.Point(at, 2), m.Colour.RED) for at in range(5)],
    "instances three deep": [m.Frozen(1, m.Frozen(2, m.Frozen(at, m.Frozen(at)))) for at in range(5)],
    "instances that hold their like": [m.Tree(name="a", children=[m.Tree(name="b")] * 5),
                                       *[m.Frozen(1, m.Tree(name="c"))] * 4],
    "models with models in models with some fields set": [
        m.Message.model_construct(_fields_set={"role"}, role="r", content=m.Message.model_construct(role="s"))
        for _ in range(5)
    ],
    "instances in dicts of their own kind": [m.Tagged({1: m.Point(1, 2), "a": m.Point(3, 4)}) for _ in range(4)],
    "instances beside an odd one": [m.Unset(1), m.Unset(2), m.Unset(3), m.Unset(4)],
}  # fmt: skip


def codes(body: bytes) -> list[int]:
    """Codes of the outermost extensions."""
    found: list[int] = []
    ormsgpack.unpackb(body, ext_hook=lambda code, data: found.append(code), option=ormsgpack.OPT_NON_STR_KEYS)
    return found


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_instances_come_back(name: str) -> None:
    value = LISTS[name]
    for whole in (value, {"a": 1, "messages": value, "z": [value[0]]}, [value], (value,)):
        assert same(whole, SERDE.loads_typed(SERDE.dumps_typed(whole)))
    assert codes(SERDE.pack(value)) == [BATCH]
    assert codes(SERDE.pack({"a": value, "b": value})) == [BATCH, BATCH]


@pytest.mark.parametrize("name", LISTS)
def test_fields_come_back_in_their_order_and_nothing_is_changed_by_writing(name: str) -> None:
    value = LISTS[name]
    before = repr(value), [list(getattr(item, "__dict__", ())) for item in value]
    loaded = SERDE.loads_typed(SERDE.dumps_typed(value))
    assert [list(getattr(item, "__dict__", ())) for item in loaded] == before[1]
    assert (repr(value), [list(getattr(item, "__dict__", ())) for item in value]) == before


def test_instances_in_fields_are_columns() -> None:
    body = SERDE.pack(LISTS["models in some models"])
    (classes, rows, columns) = ormsgpack.unpackb(ormsgpack.unpackb(body, ext_hook=lambda code, data: bytes(data)))
    assert classes == [[0x54, f"{HERE}:Message"], [0x54, f"{HERE}:Loose"]]
    assert rows == [0, [{"role": "r", "content": None, "tags": []}] * 6, ["content", "role"]]
    ((number, name, column),) = columns
    assert (number, name) == (0, "content")
    assert [row and row[0] for row in column] == [1, None, 1, 1, None, 1]


@pytest.mark.parametrize(
    ("chosen", "stored_as"),
    [
        ([{"role", "content", "tags"}] * 4, []),
        ([{"role"}] * 4, [["role"]]),
        ([set()] * 4, [[]]),
        ([{"role"}, set(), {"role", "tags"}, {"role"}], [[["role"], [], ["role", "tags"], ["role"]]]),
        ([set(), {"role"}, set(), set()], [[[], ["role"], [], []]]),
    ],
)
def test_which_fields_were_set_is_stored_once_if_it_is_the_same_for_all(chosen: Any, stored_as: Any) -> None:
    value = [m.Message.model_construct(_fields_set=names, role="r", content=1) for names in chosen]
    body = SERDE.pack(value)
    (_, (number, fields, *more)) = ormsgpack.unpackb(ormsgpack.unpackb(body, ext_hook=lambda code, data: bytes(data)))
    assert (number, len(fields), more) == (0, 4, stored_as)
    loaded = SERDE.unpack(body)
    assert same(value, loaded)
    assert [item.model_fields_set for item in loaded] == chosen
    loaded[0].model_fields_set.add("tags")
    assert loaded[1].model_fields_set == chosen[1]


def test_a_class_in_a_field_needs_permission() -> None:
    value = LISTS["models in models"]
    with pytest.raises(SerializationError, match=r"\[0\]\.b: .*Message is not allowed"):
        JsonPlusSerializer(allow=[m.Frozen]).dumps_typed([m.Frozen(1, item.content) for item in value])
    with pytest.raises(DeserializationError, match="not allowed") as caught:
        JsonPlusSerializer(allow=[m.Message]).loads_typed(SERDE.dumps_typed(LISTS["models in some models"]))
    assert caught.value.class_name == f"{HERE}:Loose"


def test_a_few_instances_and_lists_with_other_things_are_written_one_by_one() -> None:
    baskets = LISTS["dataclasses"]
    for value in (baskets[:3], [*baskets, "text"], ["text", *baskets], [*baskets, ValueError(1)]):
        assert BATCH not in codes(SERDE.pack(value))
        assert same(value, SERDE.loads_typed(SERDE.dumps_typed(value)))


def test_a_name_is_stored_once() -> None:
    body = SERDE.pack(LISTS["dataclasses"])
    assert body.count(b":Basket") == 1


def test_what_cannot_be_written_is_named_by_its_place() -> None:
    strict = JsonPlusSerializer(allow=[m.Basket])
    with pytest.raises(SerializationError, match=r"rows\[8\]: .*Message is not allowed"):
        strict.dumps_typed({"rows": [*LISTS["dataclasses"][:8], m.Message(role="r", content=1)]})
    with pytest.raises(SerializationError, match=r"\[4\]\.items\[0\]: builtin_function"):
        SERDE.dumps_typed([*LISTS["dataclasses"][:4], m.Basket([print])])
    circle = m.Basket([])
    circle.items.append(circle)
    with pytest.raises(SerializationError):
        SERDE.dumps_typed([circle] * 4)


def test_the_class_that_cannot_be_made_again_is_named() -> None:
    tag, body = SERDE.dumps_typed(LISTS["many classes"])
    with pytest.raises(DeserializationError, match="not allowed") as caught:
        JsonPlusSerializer(allow=[m.Basket]).loads_typed((tag, body))
    assert caught.value.class_name == f"{HERE}:Message"
    rows = [[0, {"items": [], "total": 0}], [0, {"items": [], "gone": 0}]]
    with pytest.raises(DeserializationError, match="no longer has the stored field 'gone'") as caught:
        SERDE.loads_typed(("msgpack", stored([[0x52, f"{HERE}:Basket"]], rows)))
    assert caught.value.class_name == f"{HERE}:Basket"


def stored(*payload: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(BATCH, ormsgpack.packb(list(payload))))


@pytest.mark.parametrize(
    "body",
    [
        stored(),
        stored([], [[0, {}]]),
        stored([[0x52, f"{HERE}:Basket"]], [[1, {}]]),
        stored([[0x52, f"{HERE}:Basket"]], [[0]]),
        stored([[0x52, f"{HERE}:Basket"]], [{}]),
        stored([[0x52, f"{HERE}:Basket"]], [["0", {}]]),
        stored([[0x52, f"{HERE}:Basket"]], 7),
        stored([[0x52, 7]], []),
        stored([[0x54, f"{HERE}:Basket"]], []),
        stored([[0x59, f"{HERE}:Basket"]], []),
        stored([[0x60, "x:y"]], []),
        stored([["x", "os:system"]], []),
        stored([[0x52, "os:system"]], [[0, {}]]),
        stored([[0x5F, "os:system"]], [[0, {}]]),
        stored([[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], 7),
        stored([[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], [[0, "items"]]),
        stored([[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], [[0, "items", []]]),
        stored([[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], [[0, "items", [[1, {}]]]]),
        stored(
            [[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], [[0, "new", [[0, {"items": [], "total": 0}]]]]
        ),
        stored([[0x52, f"{HERE}:Basket"]], [[0, 7]], [[0, "items", [[0, {"items": [], "total": 0}]]]]),
        stored([[0x52, f"{HERE}:Basket"]], [[0, {"items": [], "total": 0}]], [], []),
        stored([[0x52, f"{HERE}:Basket"]], [0]),
        stored([[0x52, f"{HERE}:Basket"]], [1, [{"items": [], "total": 0}]]),
        stored([[0x52, f"{HERE}:Basket"]], [0, 7]),
        stored([[0x52, f"{HERE}:Basket"]], [0, [7]]),
        stored([[0x52, f"{HERE}:Basket"]], [0, [["items", "total"]]]),
        stored([[0x52, f"{HERE}:Basket"]], [0, [{"items": [], "gone": 0}]]),
        stored([[0x52, f"{HERE}:Basket"]], [0, [{"items": [], "total": 0}]], [[0, "items", []]]),
        stored([[0x54, f"{HERE}:Message"]], [0, [{"role": "", "content": 0, "tags": []}] * 2, [["role"]]]),
        stored([[0x54, f"{HERE}:Message"]], [0, [{"role": "", "content": 0, "tags": []}] * 2, [["role"]] * 3]),
        stored([[0x54, f"{HERE}:Message"]], [0, [{"role": "", "content": 0, "tags": []}] * 2, 7]),
        stored([[0x54, f"{HERE}:Message"]], [0, [["role", "content", "tags"]] * 2]),
        stored([[0x54, f"{HERE}:Loose"]], [0, [{"a": 1}] * 2, [["a"]]]),
    ],
)
def test_damaged_batches_are_refused(body: bytes) -> None:
    with pytest.raises(DeserializationError):
        SERDE.loads_typed(("msgpack", body))


def test_batches_can_be_looked_at() -> None:
    shown = ViewSerializer().loads_typed(SERDE.dumps_typed(LISTS["many classes"]))
    assert shown[0] == Opaque(f"{HERE}:Basket", {"items": [1], "total": 0})
    nested = ViewSerializer().loads_typed(SERDE.dumps_typed(LISTS["instances in several fields"]))
    assert nested[0].fields["a"] == Opaque(f"{HERE}:Point", {"x": 0, "y": 2})
    assert shown[5:7] == [Opaque(f"{HERE}:Colour", "red"), Opaque(f"{HERE}:Colour", "PAIR")]
    with pytest.raises(DeserializationError):
        ViewSerializer().loads_typed(("msgpack", stored([], [[0, {}]])))


def test_a_long_batch_is_read_where_it_lies() -> None:
    serde = JsonPlusSerializer(allow=ALLOWED)
    chat = [kind(f"word {at} " * 40, id=str(at)) for at in range(150) for kind in (HumanMessage, AIMessage)]
    data = serde.pack(chat)
    assert len(data) > 1 << 16
    assert (data[0], data[5]) == (0xC9, BATCH)
    for body in (data, memoryview(b"?" + data)[1:]):
        assert same(serde.unpack(body), chat)
    for damaged in (data[:-1], data[:1] + b"\xff" + data[2:], data[:6] + b"\xc0" + data[7:]):
        with pytest.raises(DeserializationError):
            serde.unpack(damaged)
