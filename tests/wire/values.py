"""What the entries of ``langgraph.json`` stand for. langgraph 1.2.24 with langgraph-checkpoint 4.3.2 wrote them."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import ipaddress
import pathlib
import re
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pydantic
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from tests.unit.checkpoint.serde import models as m
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

_CALL = {"name": "t", "args": {"a": 1}, "id": "1"}

PEER_VALUES: dict[str, Any] = {
    "None": None,
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "dict": {"a": [1, 2.5, None, True], 1: "x"},
    "set": {1},
    "frozenset": frozenset({1}),
    "deque": collections.deque([1]),
    "datetime": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    "date": dt.date(2020, 1, 1),
    "time": dt.time(1, 2, tzinfo=dt.UTC),
    "timedelta": dt.timedelta(1, 2, 3),
    "timezone": dt.timezone(dt.timedelta(hours=1)),
    "ZoneInfo": ZoneInfo("Europe/Berlin"),
    "Decimal": decimal.Decimal("1.10"),
    "UUID": uuid.UUID(int=5),
    "Pattern": re.compile("a", re.I),
    "Path": pathlib.PosixPath("/a/b"),
    "IPv4Address": ipaddress.ip_address("1.2.3.4"),
    "IPv4Network": ipaddress.ip_network("1.0.0.0/8"),
    "IPv6Interface": ipaddress.ip_interface("::1/64"),
    "Enum": m.Colour.RED,
    "IntEnum": m.Level.LOW,
    "StrEnum": m.Word.HELLO,
    "nested Enum": m.Outer.Inner.A,
    "NamedTuple": m.Point(1, 2),
    "dataclass": m.Basket(["a"], 2),
    "frozen dataclass": m.Frozen(1),
    "pydantic": m.Message(role="u", content={"k": [1]}, tags=["a"]),
    "pydantic generic": m.Box[int](item=1),
    "pydantic root": m.Root([1]),
    "pydantic v1": m.Old(a=1, b=[2]),
    "SecretStr": pydantic.SecretStr("x"),
    "numpy": np.arange(3),
    "numpy Fortran": np.asfortranarray(np.ones((2, 3))),
    "numpy objects": DeserializationError,
    "Send": Send("a", {"x": 1}),
    "Send with timeout": Send("a", 1, timeout=2.0),
    "Interrupt": Interrupt("v", id="i"),
    "Command": Command(update={"a": 1}, goto=["x", Send("y", 1)]),
    "Overwrite": Overwrite([1]),
    "TimeoutPolicy": TimeoutPolicy(run_timeout=1.0),
    "_DeltaSnapshot": _DeltaSnapshot([1, [2]]),
    "HumanMessage": HumanMessage("x", id="1"),
    "AIMessage": AIMessage("y", tool_calls=[_CALL]),
    "Document": Document(page_content="d", metadata={"k": 1}),
    "list of messages": [HumanMessage("x", id="1"), HumanMessage("y", id="2")],
    "pickle": DeserializationError,
}
