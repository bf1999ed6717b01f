"""LangGraph's bytes load here, and nothing that it did not mean does (spec 12.2, 12.4)."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import ipaddress
import json
import pathlib
import re
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pydantic
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.unit.checkpoint.serde import models as m
from tests.unit.checkpoint.serde.equality import same
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

SERDE = JsonPlusSerializer(allow=m.ALL)
HERE = m.__name__


def ext(code: int, *parts: Any, whole: Any = None) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(list(parts) if parts else whole, option=ormsgpack.OPT_NON_STR_KEYS))


def load(value: Any, serde: JsonPlusSerializer = SERDE) -> Any:
    return serde.loads_typed(("msgpack", ormsgpack.packb({"k": [value]})))["k"][0]


_DELTA = ext(1, "datetime", "timedelta", [0, 3600, 0])

CASES: list[tuple[ormsgpack.Ext, Any]] = [
    (ext(0, "builtins", "set", [1, 2]), {1, 2}),
    (ext(0, "builtins", "frozenset", [1]), frozenset({1})),
    (ext(0, "collections", "deque", [1, 2]), collections.deque([1, 2])),
    (ext(3, "datetime", "datetime", "2020-01-01T00:00:00+00:00", "fromisoformat"),
     dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    (ext(1, "datetime", "date", [2020, 1, 2]), dt.date(2020, 1, 2)),
    (ext(2, "datetime", "time", {"hour": 1, "minute": 2, "second": 3, "microsecond": 4, "tzinfo": None, "fold": 1}),
     dt.time(1, 2, 3, 4, fold=1)),
    (ext(1, "datetime", "timedelta", [1, 2, 3]), dt.timedelta(1, 2, 3)),
    (ext(1, "datetime", "timezone", [_DELTA]), dt.timezone(dt.timedelta(hours=1))),
    (ext(0, "zoneinfo", "ZoneInfo", "Europe/Berlin"), ZoneInfo("Europe/Berlin")),
    (ext(0, "decimal", "Decimal", "1.10"), decimal.Decimal("1.10")),
    (ext(0, "uuid", "UUID", "0" * 31 + "5"), uuid.UUID(int=5)),
    (ext(1, "re", "compile", ["a", 34]), re.compile("a", re.I)),
    (ext(1, "pathlib", "PurePosixPath", ["/", "a", "b"]), pathlib.PurePosixPath("/a/b")),
    (ext(1, "pathlib._local", "PurePosixPath", ["a"]), pathlib.PurePosixPath("a")),
    (ext(0, "ipaddress", "IPv4Address", "1.2.3.4"), ipaddress.ip_address("1.2.3.4")),
    (ext(0, "ipaddress", "IPv6Interface", "::1/64"), ipaddress.ip_interface("::1/64")),
    (ext(0, HERE, "Colour", "red"), m.Colour.RED),
    (ext(0, HERE, "Level", 1), m.Level.LOW),
    (ext(0, HERE, "Inner", 1), m.Outer.Inner.A),
    (ext(2, HERE, "Point", {"x": 1, "y": 2}), m.Point(1, 2)),
    (ext(2, HERE, "Basket", {"items": ["a"], "total": 2}), m.Basket(["a"], 2)),
    (ext(2, HERE, "Frozen", {"a": 1, "b": None}), m.Frozen(1)),
    (ext(5, HERE, "Message", {"role": "u", "content": 1, "tags": []}, "model_validate_json"),
     m.Message(role="u", content=1, tags=[])),
    (ext(5, HERE, "Alias", {"inner": 3, "secret": ext(0, "pydantic.types", "SecretStr", "s"), "link": None}, "x"),
     m.Alias(Inner=3, link=None)),
    (ext(5, HERE, "Box[int]", {"item": 1}, "model_validate_json"), m.Box[int](item=1)),
    (ext(5, HERE, "Root", [1], "model_validate_json"), m.Root([1])),
    (ext(4, HERE, "Old", {"a": 1, "b": []}), m.Old(a=1)),
    (ext(0, "pydantic.types", "SecretStr", "x"), pydantic.SecretStr("x")),
    (ext(6, "<i8", [2], "C", b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"), np.array([1, 2])),
    (ext(6, "<f4", [2, 1], "F", b"\0\0\x80?\0\0\0@"), np.asfortranarray(np.array([[1], [2]], "f4"))),
    (ext(7, whole=[1, [2]]), _DeltaSnapshot([1, [2]])),
    (ext(1, "langgraph.types", "Send", ["a", {"x": 1}]), Send("a", {"x": 1})),
    (ext(1, "langgraph.constants", "Send", ["a", 1]), Send("a", 1)),
    (ext(1, "langgraph.types", "Send", ["a", 1, ext(2, "langgraph.types", "TimeoutPolicy", {
        "run_timeout": 2.0, "idle_timeout": None, "refresh_on": "auto"})]), Send("a", 1, timeout=2.0)),
    (ext(2, "langgraph.types", "Interrupt", {"value": "v", "id": "i", "response_schema": None}),
     Interrupt("v", id="i")),
    (ext(2, "langgraph.types", "Command", {"graph": None, "update": {"a": 1}, "resume": None, "goto": ["x"]}),
     Command(update={"a": 1}, goto=["x"])),
    (ext(2, "langgraph.types", "Overwrite", {"value": [1], "type": "__overwrite__"}), Overwrite([1])),
    (ext(2, "langgraph.types", "TimeoutPolicy", {"run_timeout": 1.0, "idle_timeout": None, "refresh_on": "auto"}),
     TimeoutPolicy(run_timeout=1.0)),
    (ext(5, "langchain_core.messages.human", "HumanMessage",
         {"content": "x", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": None, "id": "1"},
         "model_validate_json"), HumanMessage("x", id="1")),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "value"), CASES)
def test_each_extension_code(stored: ormsgpack.Ext, value: Any) -> None:
    loaded = load(stored)
    assert type(loaded) is type(value)
    if isinstance(value, np.ndarray):
        assert same(value, loaded)
    else:
        assert loaded == value


def test_a_message_keeps_its_tool_calls() -> None:
    call = {"name": "t", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    stored = ext(5, "langchain_core.messages.ai", "AIMessage", {"content": "", "type": "ai", "tool_calls": [call]}, "m")
    loaded = load(stored, JsonPlusSerializer())
    assert isinstance(loaded, AIMessage)
    assert loaded.tool_calls == [call]


@pytest.mark.parametrize(
    "stored",
    [
        ext(0, "os", "system", "true"),
        ext(1, "subprocess", "Popen", [["true"]]),
        ext(2, "builtins", "exec", {"source": "1"}),
        ext(3, "os", "path", "x", "join"),
        ext(3, "datetime", "datetime", 5, "fromtimestamp"),
        ext(4, "subprocess", "Popen", {"args": ["true"]}),
        ext(5, "os", "system", {"command": "true"}, "model_validate_json"),
        ext(0, HERE, "Missing", 1),
        ext(0, HERE, "Colour", "purple"),
        ext(2, HERE, "Basket", {"items": []} | {"new": 1}),
        ext(5, HERE, "Message", {"role": 5}, "x"),
        ext(6, "|O", [1], "C", b"\0" * 8),
        ext(6, "<i8", [2**40], "C", b"\0" * 8),
        ext(6, "<i8", [2**30], "C", 2**33),
        ext(6, "|V0", [2**40], "C", b""),
        ext(6, "<i8", [-1], "C", b"\0" * 8),
        ext(0, "builtins", "set", 5),
        ext(0, "uuid", "UUID", ["x"]),
        ext(0, "zoneinfo", "ZoneInfo", "../../etc/passwd"),
        ext(1, "re", "compile", ["("]),
        ext(0, whole=5),
    ],
)
def test_what_cannot_or_may_not_be_made_raises(stored: ormsgpack.Ext) -> None:
    with pytest.raises(DeserializationError):
        load(stored)


def test_without_permission_the_class_is_named() -> None:
    with pytest.raises(DeserializationError, match=rf"{HERE}\.Basket is not allowed"):
        load(ext(2, HERE, "Basket", {"items": [], "total": 1}), JsonPlusSerializer())


# -- the json tag --------------------------------------------------------------------------------------------


def envelope(*id: str, lc: int = 2, **more: Any) -> dict[str, Any]:
    return {"lc": lc, "type": "constructor", "id": list(id), **more}


def load_json(value: Any, **options: Any) -> Any:
    return JsonPlusSerializer(**options).loads_typed(("json", json.dumps(value).encode()))


def test_envelopes_of_safe_types_are_revived_and_their_method_is_ignored() -> None:
    stored = {
        "at": envelope("datetime", "datetime", method="fromisoformat", args=["2020-01-01T00:00:00"]),
        "id": envelope("uuid", "UUID", args=["0" * 32], kwargs={}),
        "set": envelope("builtins", "set", args=[[1, 2]]),
        "m": envelope("langchain", "schema", "messages", "HumanMessage", lc=1, kwargs={"content": "hi"}),
        "e": envelope("builtins", "ValueError", args=["x"]),
        "send": envelope("langgraph", "types", "Send", kwargs={"node": "n", "arg": 1}),
        "plain": {"lc": 2, "type": "secret"},
    }
    loaded = load_json(stored)
    assert loaded["at"] == dt.datetime(2020, 1, 1)
    assert loaded["id"] == uuid.UUID(int=0)
    assert loaded["set"] == {1, 2}
    assert loaded["m"] == HumanMessage("hi")
    assert loaded["e"] is None
    assert loaded["send"] == Send("n", 1)
    assert loaded["plain"] == {"lc": 2, "type": "secret"}


def test_listed_classes_are_revived_and_others_refused() -> None:
    stored = envelope(*HERE.split("."), "Basket", kwargs={"items": [], "total": 1})
    assert load_json(stored, allowed_json_modules=[(*HERE.split("."), "Basket")]) == m.Basket([], 1)
    assert load_json(stored, allow=[m.Basket]) == m.Basket([], 1)
    for bad in (stored, envelope("os", "system", args=["true"]), envelope("builtins", "eval", args=["1"])):
        with pytest.raises(DeserializationError, match="not allowed"):
            load_json(bad)


def test_broken_json_is_a_typed_error() -> None:
    with pytest.raises(DeserializationError, match="JSON"):
        JsonPlusSerializer().loads_typed(("json", b"{"))
