"""Values of every size and kind come back exactly, whatever edits they go through."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from threadmark.checkpoint.conformance.kit import Grown, cases, config

CORPUS: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -(2**63),
    "big number": 2**200,
    "float": 0.1,
    "infinity": float("inf"),
    "empty text": "",
    "text": "naïve 🧵 " * 3,
    "NUL": "a\0b",
    "bytes": b"\x00\x01\xff",
    "empty bytes": b"",
    "many bytes": bytes(range(256)) * 40,
    "bytearray": bytearray(b"\x00\xff"),
    "empty list": [],
    "empty dict": {},
    "nested": {"a": [{"b": [[], {}, None, [1, [2, [3]]]]}]},
    "keys": {"": 1, " ": 2, "ключ": 3},
    "numbers as keys": {1: "a", 2: "b"},
    "tuple": (1, (2, "x")),
    "set": {1, 2},
    "frozen set of tuples": frozenset({(1, 2), (3, 4)}),
    "deque": deque([1, 2], maxlen=3),
    "ordered dict": OrderedDict(b=1, a=2),
    "time": datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC),
    "date": date(2024, 2, 29),
    "span": timedelta(days=-1, microseconds=3),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=5),
    "path": PurePosixPath("a/b"),
    "long list": list(range(3000)),
    "zeros": [0] * 5000,
}


class ValueChecks:
    """What every saver does with values: nothing."""

    capability = "put"

    @cases("value", CORPUS)
    def test_corpus(self, saver: Any, call: Any, value: Any) -> None:
        grown = Grown(saver, call)
        at = grown.put({"v": value}, note=None)
        call(saver, "put_writes", at, [("v", value)], "task", "~p")
        grown.put({"v": [value, value]})
        found = call(saver, "get_tuple", at)
        assert found.checkpoint["channel_values"] == {"v": value}
        assert type(found.checkpoint["channel_values"]["v"]) is type(value)
        assert found.pending_writes == [("task", "v", value)]
        assert type(found.pending_writes[0][2]) is type(value)
        assert grown.values() == {"v": [value, value]}

    def test_a_list_that_is_edited_in_every_way(self, saver: Any, call: Any) -> None:
        chance = random.Random(7)
        grown, rows, seen = Grown(saver, call), list[Any](), list[Any]()
        for number in range(60):
            rows = edited(rows, chance, number)
            grown.put({"rows": rows, "deep": {"log": {"lines": rows[-5:]}}})
            seen.append((grown.config, rows))
        for at, wanted in seen:
            values = grown.values(at)
            assert values["rows"] == wanted
            assert values["deep"] == {"log": {"lines": wanted[-5:]}}

    def test_a_value_mutated_in_place_is_seen(self, saver: Any, call: Any) -> None:
        grown, rows = Grown(saver, call), [{"text": "x" * 50} for _ in range(100)]
        for number in range(3):
            rows[number]["text"] = "changed"
            grown.put({"rows": rows})
        assert [sum(row["text"] == "changed" for row in grown.values(at)["rows"]) for at in grown.configs] == [1, 2, 3]

    def test_a_value_that_returns_to_an_earlier_state(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for text in ("a" * 5000, "b" * 5000, "a" * 5000, "", "a" * 5000):
            grown.put({"text": text})
        assert [len(grown.values(at)["text"]) for at in grown.configs] == [5000, 5000, 5000, 0, 5000]
        assert grown.values(grown.configs[2]) == grown.values(grown.configs[0])

    def test_many_channels(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        values: dict[str, Any] = {f"channel {n}": f"value {n} " * n for n in range(80)}
        grown.put(values)
        for number in range(20):
            values = {**values, f"channel {number * 4}": number}
            grown.put(values, changed=[f"channel {number * 4}"])
        assert grown.values() == values
        assert len(call(saver, "list", config())) == 21

    def test_large_binary_values(self, saver: Any, call: Any) -> None:
        grown, data = Grown(saver, call), random.Random(1).randbytes(400_000)
        grown.put({"data": data, "n": 0})
        grown.put({"data": data, "n": 1}, changed=["n"])
        longer = data[:200_000] + b"inserted" + data[200_000:]
        grown.put({"data": longer, "n": 2})
        assert [len(grown.values(at)["data"]) for at in grown.configs] == [400_000, 400_000, 400_008]
        assert grown.values()["data"] == longer


def edited(rows: list[Any], chance: random.Random, number: int) -> list[Any]:
    """A copy of ``rows`` with one more edit."""
    rows = list(rows)
    line = {"id": number, "text": f"line {number} " * chance.randrange(1, 60)}
    match chance.randrange(6):
        case 0 if len(rows) > 3:
            del rows[chance.randrange(len(rows))]
        case 1 if rows:
            rows[chance.randrange(len(rows))] = line
        case 2:
            rows.insert(0, line)
        case 3 if len(rows) > 30:
            rows = rows[-10:]
        case _:
            rows += [line] * chance.randrange(1, 4)
    return rows
