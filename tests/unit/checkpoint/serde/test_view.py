"""Looking at stored bytes needs no class, imports nothing and reveals no secret."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ormsgpack
import pydantic
import pytest

from tests.unit.checkpoint.serde import models as m
from tests.unit.checkpoint.serde.equality import same
from tests.unit.checkpoint.serde.samples import ALLOWED, SAMPLES
from tests.unit.checkpoint.serde.test_legacy import CASES
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.view import Opaque, ViewSerializer

SERDE = JsonPlusSerializer(allow=ALLOWED)
VIEW = ViewSerializer()
HERE = m.__name__


def view(value: Any) -> Any:
    return VIEW.loads_typed(SERDE.dumps_typed(value))


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_can_be_looked_at(kind: str) -> None:
    for value in SAMPLES[kind]:
        view({"k": [value]})


@pytest.mark.parametrize(
    "kind", ["None, bool", "int", "str", "dict", "tuple", "deque", "datetime", "Decimal", "Path", "IP"]
)
def test_builtin_values_are_shown_as_themselves(kind: str) -> None:
    for value in SAMPLES[kind]:
        if "Colour" not in repr(value) and "UserId" not in repr(type(value)) and value != {"u": 1}:
            assert same(value, view(value))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (m.Basket(["a"], 2), Opaque(f"{HERE}:Basket", {"items": ["a"], "total": 2})),
        (m.Outer.Nested(3), Opaque(f"{HERE}:Outer.Nested", {"n": 3})),
        (m.Colour.RED, Opaque(f"{HERE}:Colour", "red")),
        (m.Colour.PAIR, Opaque(f"{HERE}:Colour", "PAIR")),
        (m.Point(1, 2), Opaque(f"{HERE}:Point", {"x": 1, "y": 2})),
        (ValueError("x"), Opaque("builtins:ValueError", ["x"])),
        (m.Basket, Opaque("builtins:type", f"{HERE}:Basket")),
        (pydantic.SecretStr("hunter2"), Opaque("pydantic:SecretStr", "hidden")),
        ({m.Colour.RED: 1}, {Opaque(f"{HERE}:Colour", "red"): 1}),
        ({m.Frozen(1)}, {Opaque(f"{HERE}:Frozen", {"a": 1, "b": None})}),
    ],
)
def test_classes_are_shown_as_name_and_fields(value: Any, shown: Any) -> None:
    assert view(value) == shown


def test_numpy_values_are_described() -> None:
    import numpy as np

    assert view(np.zeros((2, 3), "<f8")) == Opaque("numpy:ndarray", {"dtype": "<f8", "shape": (2, 3)})
    assert view([np.int16(-5), np.float32(1.5), np.uint8(200), np.bool_(True)]) == [-5, 1.5, 200, True]


@pytest.mark.parametrize(("stored", "_value"), CASES)
def test_langgraphs_values_can_be_looked_at(stored: ormsgpack.Ext, _value: Any) -> None:
    VIEW.loads_typed(("msgpack", ormsgpack.packb({"k": [stored]})))


def test_classes_that_nobody_has_are_no_obstacle() -> None:
    def ext(code: int, *parts: Any) -> ormsgpack.Ext:
        return ormsgpack.Ext(code, ormsgpack.packb(list(parts)))

    stored = [ext(0x52, "gone.module:Gone", {"a": 1}), ext(2, "gone", "Old", {"b": 2}), ormsgpack.Ext(0x4F, b"abc")]
    assert VIEW.loads_typed(("msgpack", ormsgpack.packb(stored))) == [
        Opaque("gone.module:Gone", {"a": 1}), Opaque("gone:Old", {"b": 2}), Opaque("unknown kind 79", "3 bytes"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (("null", b""), None),
        (("empty", b""), None),
        (("bytes", b"x"), b"x"),
        (("bytearray", b"x"), bytearray(b"x")),
        (("json", b'{"lc": 2, "id": ["os", "system"]}'), {"lc": 2, "id": ["os", "system"]}),
        (("pickle", b"cos\nsystem\n"), Opaque("pickle", "11 bytes")),
        (("msgpack+aes", b"xyz"), Opaque("msgpack encrypted with aes", "3 bytes")),
    ],
)
def test_every_tag(stored: tuple[str, bytes], shown: Any) -> None:
    assert VIEW.loads_typed(stored) == shown


def test_damaged_bytes_are_a_typed_error_and_nothing_is_written() -> None:
    for stored in (("msgpack", b"\xc1"), ("json", b"{")):
        with pytest.raises(DeserializationError):
            VIEW.loads_typed(stored)
    with pytest.raises(TypeError, match="looking"):
        VIEW.dumps_typed(1)


def test_nothing_is_imported_for_looking() -> None:
    import numpy as np
    import pandas as pd

    value = [np.arange(3), np.float64(1.5), pd.DataFrame({"a": [1]}), m.Message(role="r", content=1), m.Slotted(1)]
    value += SAMPLES["SecretStr"] + SAMPLES["LangChain messages"] + SAMPLES["URL"] + SAMPLES["msgspec"]
    body = SERDE.dumps_typed(value)[1]
    program = (
        "import sys; from threadmark.checkpoint.serde.view import ViewSerializer as V;"
        "print(len(V().loads_typed(('msgpack', sys.stdin.buffer.read()))));"
        "print(*(name for name in ('numpy', 'pandas', 'pyarrow', 'pydantic', 'attr', 'msgspec', 'langchain_core',"
        "'tests') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=body, capture_output=True, check=True)
    assert done.stdout.split() == [str(len(value)).encode()]
