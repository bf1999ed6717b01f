"""Values of every kind, for round trips, fuzzing, golden files and the table in the documentation."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import re
import types
import uuid
import warnings
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from tests.unit.checkpoint.serde import models as m
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.errors import InvalidUpdateError, UnknownInterruptError
from threadmark.store.base import GetOp, Item, SearchItem
from threadmark.types import Command, Interrupt, Overwrite, PregelTask, Send, StateSnapshot, TimeoutPolicy


def _unset() -> m.Unset:
    return m.Unset(1)


def _loose() -> m.Loose:
    made = m.Loose(a=2, more=[1, (2,)])
    made._note = "changed"
    return made


def _chosen() -> m.Message:
    return m.Message.model_construct(_fields_set={"role"}, role="r")


def _noted() -> Exception:
    error = ValueError("bad", 1)
    error.add_note("seen here")
    return error


_NOON = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
_BERLIN = ZoneInfo("Europe/Berlin")
_DAYS = pd.date_range("2020-01-01", periods=3, tz="UTC")

SAMPLES: dict[str, list[Any]] = {
    "None, bool": [None, True, False],
    "int": [0, -1, 2**63, 2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 2**500, -(2**500)],
    "float": [0.0, -0.0, 1.5, float("inf"), float("nan"), 5e-324],
    "complex": [1 + 2j, complex("nan"), complex(-0.0, -0.0)],
    "str": ["", "a", "\x00", "ä\U0001f600", "\ud800", "a\udfffb", "\ud83d\ude00"],
    "bytes": [b"", b"\x00\xff"],
    "bytearray": [bytearray(b"ab"), [bytearray()]],
    "memoryview": [memoryview(b"abc"), memoryview(array.array("i", [1, 2])), memoryview(bytearray(b"ab"))],
    "list": [[], [1, [2, []]]],
    "dict": [{}, {"a": {"b": 1}}, {1: 2, None: 3, False: 4, 2.5: 5, b"k": 6}, {(1, "x"): 1, frozenset({2}): 2},
             {2**70: 1}, {"\udc00": 1}, {m.Colour.RED: 1, m.Word.HELLO: 2}, {m.UserId("u"): 1}, {float("nan"): 1}],
    "tuple": [(), (1, (2, [3, ()]))],
    "set": [set(), {1, "a", None}, {(1, "x")}, {frozenset({1})}],
    "frozenset": [frozenset(), frozenset({(3, 4)})],
    "range, slice": [range(0), range(0, 10, 3), range(2**70), slice(1, None, 2), slice("a", (1,))],
    "...": [..., [...]],
    "deque": [collections.deque(), collections.deque([1, (2,)], maxlen=3)],
    "OrderedDict": [collections.OrderedDict([(2, 1), ("a", (2,))])],
    "defaultdict": [collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None, {(1,): 1}),
                    collections.defaultdict(m.Tree, {})],
    "Counter": [collections.Counter("abca"), collections.Counter({(1,): -2})],
    "ChainMap": [collections.ChainMap({"a": 1}, {"b": 2})],
    "datetime": [dt.datetime(2020, 1, 1, 3, 4, 5, 6), dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
                 dt.datetime(2020, 10, 25, 2, 30, tzinfo=_BERLIN, fold=1),
                 dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1, microseconds=5), "X")),
                 dt.datetime.min, dt.datetime.max],
    "date": [dt.date(2020, 2, 29), dt.date.min],
    "time": [dt.time(1, 2, 3, 4), dt.time(1, tzinfo=dt.UTC), dt.time(1, fold=1), dt.time(2, tzinfo=_BERLIN)],
    "timedelta": [dt.timedelta(-5, 3, 2), dt.timedelta.max],
    "timezone": [dt.UTC, dt.timezone(dt.timedelta(hours=-3)), dt.timezone(dt.timedelta(0), "UTC")],
    "ZoneInfo": [ZoneInfo("UTC"), _BERLIN],
    "Decimal": [decimal.Decimal("1.10"), decimal.Decimal("-0"), decimal.Decimal("sNaN12"), decimal.Decimal("1E+99999")],
    "Fraction": [fractions.Fraction(1, 3), fractions.Fraction(10**40, 7)],
    "UUID": [uuid.UUID(int=5), uuid.UUID(int=2**128 - 1)],
    "Path": [pathlib.PurePosixPath("/a"), pathlib.Path("x/y"), pathlib.PureWindowsPath("c:\\x"),
             pathlib.PurePosixPath("\udcff")],
    "IP": [ipaddress.ip_address("1.2.3.4"), ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8"),
           ipaddress.ip_network("fe80::/64"), ipaddress.ip_interface("1.2.3.4/8"), ipaddress.ip_interface("::1/64")],
    "Pattern": [re.compile("a(b)", re.I), re.compile(b"x", re.M), re.compile("\\w", re.A)],
    "SimpleNamespace": [types.SimpleNamespace(a=(1,), b=types.SimpleNamespace())],
    "array": [array.array("d", [1.5]), array.array("q", [])],
    "class": [int, type(None), ValueError, m.Basket, m.Outer.Nested, m.Box[int]],
    "Enum": [m.Colour.RED, m.Colour.PAIR, m.Level.LOW, m.Word.HELLO, m.Outer.Inner.A],
    "Flag": [m.Perm.R | m.Perm.W, m.Perm(0), m.Mode.A | m.Mode.B, m.Mode(0)],
    "NamedTuple": [m.Point(1, 2), m.Point((1,), m.Point(0))],  # type: ignore[arg-type]
    "dataclass": [m.Basket(["a"], 2), m.Frozen(1, (2,)), m.One({1}), _unset(), m.Outer.Nested(3),
                  m.Tree(name="a", children=[m.Tree(name="b")])],
    "exception": [_noted(), KeyError("x"), FileNotFoundError(2, "no", "file"), m.Problem(3, why="w"),
                  UnicodeDecodeError("utf8", b"x", 0, 1, "r"), ImportError("i", name="n"), StopIteration((1,)),
                  ExceptionGroup("g", [ValueError(1), KeyError((2,))]), m.SlottedError("s")],
    "pydantic": [m.Message(role="u", content=("x", {1}), tags=["a"]), m.Message(role="u", content=None), _loose(),
                 _chosen(), m.Alias(Inner=3, link="http://x.y/z?q=1"), m.Root([1, 2]), m.Box[int](item=3)],
    "pydantic v1": [m.Old(a=1), m.Old(a=2, b=[1])],
    "SecretStr": [pydantic.SecretStr("s"), pydantic.SecretBytes(b"s")],
    "URL": [pydantic.HttpUrl("http://x.y/z?q=1"), pydantic.PostgresDsn("postgres://u:p@h:1/db")],
    "attrs": [m.Slotted(1, [2]), m.Plain(1), m.Hashed(1)],
    "msgspec": [m.Packed(1), m.Packed((1,), "x"), m.Hooked(1)],  # type: ignore[arg-type]
    "subclass": [m.UserId("x"), m.Tagged({"a": 1}), m.Scores([1, 2])],
    "list of instances": [[m.Basket([1]), m.Point(1, 2), m.Basket(["a"], 2), m.Message(role="u", content=(1,))],
                          {"a": [m.Colour.RED] * 5, "b": [_chosen(), m.Slotted(1, [2]), _loose(), m.Packed(1)]}],
    "numpy array": [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.arange(10)[::2], np.array(5),
                    np.zeros((0, 3)), np.array(["a", "bcd"]), np.array([b"x"]), np.array([True]), np.zeros(2, "V0"),
                    np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", ">f8")]), np.array(["2020"], "M8[ns]"),
                    np.array([(1, (2, [3, 4]))], dtype=[("a", "i4"), ("b", [("c", "i2"), ("d", "i2", (2,))])]),
                    np.ones(3, ">u2"), np.array([1 + 2j], "c8"), np.ones((2, 3, 4)).transpose(1, 0, 2)],
    "numpy array of objects": [np.array([1, "a", (2,)], dtype=object), np.array([[None], [{1}]], dtype=object)],
    "numpy scalar": [np.int64(5), np.float32(1.5), np.bool_(True), np.str_("a\x00b"), np.bytes_(b"x"),
                     np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.complex64(1j), np.float64("nan")],
    "numpy dtype": [np.dtype("<i4"), np.dtype([("a", "i4"), ("b", "U3")])],
    "pandas DataFrame": [pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, float("nan")],
                                       "e": pd.Categorical(["p", "q"])}), pd.DataFrame(), pd.DataFrame(np.ones((2, 2))),
                         pd.DataFrame({"n": [1, 2, 3]}, index=_DAYS), pd.DataFrame({"n": [1]}, index=["k"])],
    "pandas Series": [pd.Series([1, 2], name="s"), pd.Series(["a", None], name=("t", 1))],
    "pandas Timestamp": [pd.Timestamp("2020-01-01 01:02:03.123456789"), pd.Timestamp("2020-01-01", tz="Europe/Berlin"),
                         pd.Timedelta(1, "s")],
    "polars DataFrame": [pl.DataFrame({"a": [1, None], "b": ["x", "y"], "l": [[1], []]}), pl.DataFrame()],
    "polars Series": [pl.Series("q", [1, 2], dtype=pl.UInt8)],
    "Arrow table": [pa.table({"a": [1, 2], "b": ["x", None]}), pa.table({})],
    "Arrow batch": [pa.record_batch({"a": [1.5]}), pa.record_batch({"a": pa.array([], pa.int8())})],
    "LangChain messages": [HumanMessage("hi", id="1"), RemoveMessage(id="1"), ToolMessage("t", tool_call_id="c"),
                           AIMessage("y", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}]),
                           Document(page_content="d", metadata={"k": (1,)})],
    "Send": [Send("a", {"x": (1,)}), Send("a", m.Point(1), timeout=3.5)],
    "Command": [Command(update={"a": 1}, goto=("x", Send("b", 1))), Command(resume={"i": (1,)}),
                Command(graph=Command.PARENT, goto="n")],
    "Interrupt": [Interrupt("q", id="i"), Interrupt({"k": (1,)}, id="j", response_schema=m.Message)],
    "Overwrite": [Overwrite([1, (2,)])],
    "_DeltaSnapshot": [_DeltaSnapshot([1, (2,)])],
    "TimeoutPolicy": [TimeoutPolicy(1.5, dt.timedelta(seconds=3))],
    "store Item": [Item(value={"a": (1,)}, key="k", namespace=("n",), created_at=_NOON, updated_at=_NOON),
                   SearchItem(("n",), "k", {}, _NOON, _NOON, 0.5), GetOp(("n",), "k")],
    "own errors": [InvalidUpdateError("x"), UnknownInterruptError("u", reason="empty_map", pending_ids=("i",))],
    "StateSnapshot": [StateSnapshot({"a": 1}, ("n",), {}, None, None, None, (PregelTask("i", "n", ("a", 1)),), ())],
    "lists of instances": [
        [m.Basket([at], at) for at in range(4)],
        {"rows": [m.Message(role="r", content=None if at == 1 else m.Loose(a=at)) for at in range(4)]},
        [m.Frozen(m.Colour.RED, m.Message(role="r", content=m.Point(1, 2), tags=["t"])) for _ in range(4)],
    ],
}  # fmt: skip

ALLOWED = m.ALL


def each() -> list[Any]:
    """All samples in one list, and all in one value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [value for values in SAMPLES.values() for value in values]
