"""The allow-list: what entries mean, what is imported and when, and what annotations bring in."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, NotRequired, TypedDict, TypeVar

import pydantic
import pytest

from tests.unit.checkpoint.serde import models as m
from threadmark.checkpoint.serde.allow import types_in
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

MODULE = m.__name__


@pytest.mark.parametrize(
    "allow",
    [
        [m.Basket, m.Outer.Inner],
        [MODULE],
        MODULE,
        [(MODULE, "Basket"), (MODULE, "Outer.Inner")],
        [(MODULE, "Basket"), (MODULE, "Inner")],
        [f"{MODULE}:Basket", f"{MODULE}:Outer.Inner"],
        [f"{MODULE}.Basket", f"{MODULE}.Inner"],
        [(*MODULE.split("."), "Basket"), m.Outer.Inner],
        True,
    ],
    ids=repr,
)
def test_every_form_of_entry(allow: Any) -> None:
    value = [m.Basket(["a"]), m.Outer.Inner.A]
    for serde in (JsonPlusSerializer(allow=allow), JsonPlusSerializer(allowed_msgpack_modules=allow)):
        assert serde.loads_typed(serde.dumps_typed(value)) == value


@pytest.mark.parametrize("allow", [None, False, (), [], [m.Point], [(MODULE, "Other")], ["tests.unit"]])
def test_what_is_not_listed_is_refused_on_both_sides(allow: Any) -> None:
    stored = JsonPlusSerializer(allow=[m.Basket]).dumps_typed(m.Basket(["a"]))
    serde = JsonPlusSerializer(allow=allow)
    with pytest.raises(SerializationError, match="is not allowed here"):
        serde.dumps_typed(m.Basket(["a"]))
    with pytest.raises(DeserializationError, match=r"is not allowed here.*allow=\[") as caught:
        serde.loads_typed(stored)
    assert caught.value.class_name == f"{MODULE}:Basket"


@pytest.mark.parametrize("entry", [5, lambda: 1, ("only",), print, ("a", 1)])
def test_an_entry_that_is_no_class_and_no_name_is_refused(entry: Any) -> None:
    with pytest.raises(TypeError, match="allow-list"):
        JsonPlusSerializer(allow=[entry])


def test_a_bare_pair_is_taken_for_a_mistake() -> None:
    with pytest.raises(TypeError, match="list of entries"):
        JsonPlusSerializer(allow=(MODULE, "Basket"))


def test_with_allowlist_makes_another_serializer() -> None:
    first = JsonPlusSerializer(allow=[m.Basket])
    second = first.with_allowlist({m.Point})
    assert second.loads_typed(second.dumps_typed([m.Basket([]), m.Point(1)])) == [m.Basket([]), m.Point(1)]
    with pytest.raises(SerializationError):
        first.dumps_typed(m.Point(1))


def test_with_allowlist_keeps_a_subclass_and_its_own_attributes() -> None:
    class Mine(JsonPlusSerializer):
        pass

    serde = Mine(pickle_fallback=True)
    serde.extra = 5  # type: ignore[attr-defined]
    clone = serde.with_allowlist([m.Basket])
    assert (type(clone), clone.extra, clone.pickle_fallback) == (Mine, 5, True)  # type: ignore[attr-defined]


def test_a_class_listed_as_an_object_may_be_local_and_is_never_looked_up() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    serde = JsonPlusSerializer(allow=[Local])
    assert serde.loads_typed(serde.dumps_typed(Local(1))) == Local(1)
    with pytest.raises(SerializationError, match="not allowed"):
        JsonPlusSerializer(allow=[__name__]).dumps_typed(Local(1))


def test_another_class_of_a_listed_name_is_not_the_listed_one() -> None:
    def make() -> type:
        return dataclasses.make_dataclass("Twin", ["a"], namespace={"__module__": "twins"})

    one, other = make(), make()
    with pytest.raises(SerializationError, match="not the class that was listed"):
        JsonPlusSerializer(allow=[one]).dumps_typed(other(1))
    newer = JsonPlusSerializer(allow=[one]).with_allowlist([other])
    assert newer.loads_typed(newer.dumps_typed(other(1))) == other(1)


def test_a_name_reaches_only_classes_that_the_module_defines() -> None:
    module = types.ModuleType("borrower")
    exec("from subprocess import Popen\nfrom collections import OrderedDict as Basket\ndef f(): pass", module.__dict__)
    sys.modules["borrower"] = module
    try:
        stored = JsonPlusSerializer(allow=[m.Basket]).dumps_typed(m.Basket([]))[1]
        for name in (b"borrower:Popen", b"borrower:Basket", b"borrower:f", b"borrower:nothing", b"borrower:f.x"):
            old = f"{MODULE}:Basket".encode()
            body = stored.replace(bytes([0xD9, len(old)]) + old, bytes([0xD9, len(name)]) + name)
            body = body.replace(body[:2], bytes([0xC7, len(body) - 3]), 1)
            with pytest.raises(DeserializationError, match="gone from its module"):
                JsonPlusSerializer(allow=["borrower"]).loads_typed(("msgpack", body))
    finally:
        del sys.modules["borrower"]


def test_only_what_the_user_listed_by_name_is_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass Item:\n    n: int\n")
    program = textwrap.dedent("""
        import sys
        from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
        body = bytes.fromhex(sys.argv[1])
        try:
            JsonPlusSerializer().loads_typed(("msgpack", body))
        except ValueError:
            print("refused", "shop" in sys.modules)
        print(JsonPlusSerializer(allow=["shop"]).loads_typed(("msgpack", body)), "shop" in sys.modules)
    """)
    sys.path.insert(0, str(tmp_path))
    try:
        import shop  # type: ignore[import-not-found]

        body = JsonPlusSerializer(allow=["shop"]).dumps_typed(shop.Item(3))[1]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("shop", None)
    done = subprocess.run(
        [sys.executable, "-c", program, body.hex()], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["refused False", "Item(n=3) True"]


def test_a_listed_module_that_cannot_be_imported_is_named() -> None:
    stored = JsonPlusSerializer(allow=[m.Basket]).dumps_typed(m.Basket([]))[1]
    body = stored.replace(MODULE.encode(), b"x" * len(MODULE))
    with pytest.raises(DeserializationError, match=r"importing x+ failed"):
        JsonPlusSerializer(allow=["x" * len(MODULE)]).loads_typed(("msgpack", body))


def test_a_permitted_class_is_made_as_its_own_sort_only() -> None:
    """Bytes that call a dataclass an exception, or an enum a subclass of text, are refused."""
    serde = JsonPlusSerializer(allow=m.ALL)
    stored = serde.dumps_typed(m.Basket(["a"]))[1]
    for code in range(0x50, 0x59):
        if code == 0x52:
            continue
        body = bytearray(stored)
        body[body.index(0x52)] = code
        with pytest.raises(DeserializationError):
            serde.loads_typed(("msgpack", bytes(body)))


# -- annotations ---------------------------------------------------------------------------------------------


class Kind(enum.Enum):
    A = 1


class Leaf(pydantic.BaseModel):
    kind: Kind


@dataclasses.dataclass
class Branch:
    leaves: list[Leaf]
    other: Later | None = None


class Later:
    pass


class State(TypedDict):
    branch: Annotated[list[Branch], lambda a, b: a + b]
    point: NotRequired[m.Point]
    tagged: dict[str, tuple[m.Frozen, ...]] | None


T = TypeVar("T", bound=m.Basket)


@dataclasses.dataclass
class Holder(Generic[T]):
    item: T


Number = NewType("Number", Kind)


def test_types_in_finds_everything_a_schema_names() -> None:
    assert types_in(State) >= {State, Branch, Leaf, Kind, Later, m.Point, m.Frozen}


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        (int, set()),
        (None, set()),
        (Any, set()),
        (list[m.Basket], {m.Basket}),
        (Literal[Kind.A, "x"], {Kind}),
        (Number, {Kind}),
        (Holder[Any], {Holder, m.Basket}),
        ("m.Basket | None", set()),
        (m.Box[m.Message], {m.Box[m.Message], m.Message}),
        (m.Tree, {m.Tree}),
        (type[m.Basket], {m.Basket}),
    ],
)
def test_types_in(annotation: Any, found: set[type]) -> None:
    assert found <= types_in(annotation)
    assert not {int, str, list, dict} & types_in(annotation)


def test_a_serializer_extended_by_a_schema_takes_its_values() -> None:
    serde = JsonPlusSerializer().with_allowlist(types_in(State))
    value = {"branch": [Branch([Leaf(kind=Kind.A)])], "point": m.Point(1), "tagged": {"a": (m.Frozen(1),)}}
    assert serde.loads_typed(serde.dumps_typed(value)) == value
