"""Stored values as JSON, as lines, and as one line."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from threadmark.checkpoint.serde.view import Opaque
from threadmark.cli.values import LONG, MANY, as_json, brief, pretty
from threadmark.types import Interrupt, Send

POINT = Opaque("shop.models:Point", {"x": 1, "y": [2]})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, 2.5, None, True, "x"]}, {"a": [1, 2.5, None, True, "x"]}),
        ((1, (2,)), [1, [2]]),
        ({1: "a"}, {"$type": "dict", "items": [[1, "a"]]}),
        ({3, 1}, {"$type": "set", "items": [1, 3]}),
        (b"\x00\xff", {"$type": "bytes", "base64": "AP8="}),
        (float("nan"), {"$type": "float", "value": "nan"}),
        (date(2026, 1, 2), {"$type": "datetime.date", "value": "2026-01-02"}),
        (POINT, {"$type": "shop.models.Point", "fields": {"x": 1, "y": [2]}}),
        (Opaque("shop.models:Mood", "HAPPY"), {"$type": "shop.models.Mood", "fields": "HAPPY"}),
        ({POINT: 1}, {"$type": "dict", "items": [[{"$type": "shop.models.Point", "fields": {"x": 1, "y": [2]}}, 1]]}),
        (Send("work", 7), {"$type": "threadmark.types.Send", "fields": {"node": "work", "arg": 7}}),
        (Interrupt("sure?", "i1"), {"$type": "threadmark.types.Interrupt", "fields": {"value": "sure?", "id": "i1"}}),
    ],
)
def test_json_says_what_json_cannot_hold(value: Any, expected: Any) -> None:
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == expected


def test_an_instance_is_shown_by_name_and_fields_at_any_depth() -> None:
    assert brief({"at": (POINT,)}) == "{'at': (Point(x=1, y=[2]),)}"
    assert pretty([POINT], 80, full=False) == ["[Point(x=1, y=[2])]"]


def test_an_instance_without_named_fields_is_shown_too() -> None:
    assert brief(Opaque("shop.models:Mood", "HAPPY")) == "Mood('HAPPY')"
    assert pretty(Opaque("shop.models:Mood", "HAPPY"), 80, full=True) == ["Mood('HAPPY')"]


def test_a_class_may_have_any_name() -> None:
    assert brief(Opaque("a:f.<locals>.C", {"class": 1})) == "C(class=1)"
    assert brief(Opaque("odd", None)) == "odd(None)"


def test_long_values_are_cut_unless_all_is_asked_for() -> None:
    many, long = list(range(MANY + 3)), "x" * (LONG + 10)
    assert "... +3" in "".join(pretty(many, 200, full=False))
    assert "+10" in "".join(pretty(long, 2000, full=False))
    assert pretty(many, 200, full=True) == [repr(many)]
    assert pretty(long, 2000, full=True) == [repr(long)]


def test_lines_keep_to_the_width() -> None:
    lines = pretty({"first": "a" * 30, "second": ["b" * 30, "c" * 30]}, 60, full=True)
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
