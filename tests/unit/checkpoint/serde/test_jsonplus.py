"""Values come back exactly; what would not is refused while it is written."""

from __future__ import annotations

import collections
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.unit.checkpoint.serde import models as m
from tests.unit.checkpoint.serde.equality import same
from tests.unit.checkpoint.serde.samples import ALLOWED, SAMPLES, each
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.kinds import CLASS_CODES, kinds
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.types import Send

SERDE = JsonPlusSerializer(allow=ALLOWED)


def back(value: Any, serde: JsonPlusSerializer = SERDE) -> Any:
    return serde.loads_typed(serde.dumps_typed(value))


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_comes_back_as_it_was_wherever_it_stands(kind: str) -> None:
    for value in SAMPLES[kind]:
        assert same(value, back(value)), repr(value)
        assert same({"k": [(value, value)]}, back({"k": [(value, value)]})), repr(value)
        assert same(m.Frozen(1, value), back(m.Frozen(1, value))), repr(value)


def test_all_kinds_fit_into_one_value() -> None:
    assert same(each(), back(each()))


def test_the_samples_cover_the_whole_table() -> None:
    seen: set[int] = set()

    class Watching(dict[int, Any]):
        def __missing__(self, code: int) -> Any:
            seen.add(code)
            return SERDE._decoders[code]

    serde = JsonPlusSerializer(allow=ALLOWED)
    serde._decoders = Watching()  # type: ignore[assignment]
    for value in each():
        serde.loads_typed(serde.dumps_typed(value))
    elsewhere = {row.code for row in kinds() if row.type == "pathlib:WindowsPath"} | {CLASS_CODES["pickle"]}
    assert seen | elsewhere == {row.code for row in kinds()} | set(CLASS_CODES.values())


def test_no_code_is_given_out_twice() -> None:
    codes = [row.code for row in kinds()] + list(CLASS_CODES.values())
    assert len(codes) == len(set(codes))
    assert all(16 <= code < 128 for code in codes)


def test_writing_the_same_value_twice_gives_the_same_bytes() -> None:
    value = {"s": {"b", "a", "c"}, "m": m.Message(role="r", content={3, 1}), "d": m.Basket(["x"])}
    assert SERDE.dumps_typed(value) == SERDE.dumps_typed(value)


def test_sets_of_text_give_the_same_bytes_in_every_process() -> None:
    program = (
        "from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer as J;"
        "print(J().dumps_typed({w for w in 'these words have no order of their own'.split()}))"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1


def test_tags_are_those_people_know() -> None:
    assert SERDE.dumps_typed(None) == ("null", b"")
    assert SERDE.dumps_typed(b"x") == ("bytes", b"x")
    assert SERDE.dumps_typed(bytearray(b"x")) == ("bytearray", b"x")
    assert SERDE.dumps_typed({"a": 1})[0] == "msgpack"


def test_plain_values_are_plain_msgpack_without_anything_of_ours() -> None:
    import ormsgpack

    value = {"messages": [{"role": "user", "content": "hi", "n": 1, "x": None, "f": 1.5}]}
    assert SERDE.dumps_typed(value)[1] == ormsgpack.packb(value)


# -- what is refused when it is written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"messages": [1, 2, 3, {"extra": {"fn": lambda: 1}}]}, "messages[3].extra.fn", "function is not serializable"),
        ({"a": [(1, {2: sys})]}, "a[0][1][2]", "module is not serializable"),
        (m.Message(role="r", content={"deep": object()}), "content.deep", "object is not serializable"),
        (m.Frozen(1, [len]), "b[0]", "builtin_function_or_method"),
        (Send("n", {"x": iter(())}), "arg.x", "is not serializable"),
        ({"odd key": {"a b": print}}, "['odd key']['a b']", "not serializable"),
        ({(1, print): 1}, "(the key", "not serializable"),
        (collections.defaultdict(lambda: 1), "default_factory", "function is not serializable"),
        (threading.Lock(), "the value itself", "lock is not serializable"),
        (_DeltaSnapshot([print]), "value[0]", "not serializable"),
        (ValueError("x", print), "args[1]", "not serializable"),
        ({"a": type("Local", (), {})()}, "a", "Local is not serializable"),
        ({"c": {"t": m}}, "c.t", "module"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(value: Any, path: str, words: str) -> None:
    with pytest.raises(SerializationError) as caught:
        SERDE.dumps_typed(value)
    assert path in str(caught.value)
    assert words in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert SERDE.explain(value) == list(caught.value.problems)


def test_a_class_that_loading_would_refuse_is_refused_on_writing_with_the_line_to_add() -> None:
    with pytest.raises(SerializationError, match=r"cart\[0\].*allow=\[tests.unit.checkpoint.serde.models.Basket\]"):
        JsonPlusSerializer().dumps_typed({"cart": [m.Basket([])]})
    assert JsonPlusSerializer().explain({"fine": (1, {2})}) == []


def test_several_problems_are_told_at_once_but_not_all_of_many() -> None:
    with pytest.raises(SerializationError) as caught:
        SERDE.dumps_typed({str(at): print for at in range(50)})
    assert len(caught.value.problems) == 5


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append([loop, loop])
    with pytest.raises(SerializationError, match=r"^loop\[0\]\[0\]: this list contains itself"):
        SERDE.dumps_typed({"loop": loop})
    knot = m.One(None)
    knot.only = knot
    with pytest.raises(SerializationError, match=r"^only: this One contains itself"):
        SERDE.dumps_typed(knot)


def test_what_is_not_too_deep_to_write_is_not_too_deep_to_read() -> None:
    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"a": [v]}, m.One, lambda v: ([{"k": v}],)):
        value: Any = 1
        for depth in range(400):
            value = wrap(value)
            try:
                stored = SERDE.dumps_typed(value)
            except SerializationError:
                assert depth > 60
                break
            assert SERDE.loads_typed(stored) == value
        else:
            pytest.fail("nothing stopped the nesting")


def test_an_object_that_cannot_be_read_is_refused_with_its_own_error() -> None:
    view = memoryview(b"x")
    view.release()
    with pytest.raises(SerializationError, match=r"a\[1\]: .*released memoryview"):
        SERDE.dumps_typed({"a": [1, view]})


# -- buffers hidden in plain values --------------------------------------------------------------------------


def test_a_bytearray_stays_one_deep_in_a_large_plain_value() -> None:
    rows: list[Any] = [{"id": f"id-{at}", "content": "word " * at, "n": at, "f": at / 7} for at in range(150)]
    for place in (0, 75, 149):
        value = [dict(row) for row in rows]
        value[place]["raw"] = bytearray(b"hello" * 30)
        assert type(back({"rows": value})["rows"][place]["raw"]) is bytearray
    tricky = {"x": ["padding " * 400, 217, bytearray(b"a" * 100), "tail " * 200]}
    assert same(tricky, back(tricky))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_array_is_the_same_bytes_by_the_short_way(order: Any) -> None:
    import numpy as np
    import ormsgpack

    array = np.arange(40_000, dtype=">u4").reshape((100, 400), order=order)
    [alone] = [SERDE.dumps_typed(array)[1]]
    assert SERDE.dumps_typed([array])[1] == ormsgpack.packb([0])[:1] + alone
    assert same(array, back(array))
    assert same(array.T[::2], back(array.T[::2]))
    for damaged in (alone[:-1], alone[:6] + b"\xff" * 4 + alone[10:]):
        with pytest.raises(DeserializationError):
            SERDE.loads_typed(("msgpack", damaged))
    with pytest.raises(SerializationError, match="the value itself"):
        SERDE.dumps_typed(np.zeros(40_000, dtype=[("a", "i4"), ("b", "O")]))


# -- loading -------------------------------------------------------------------------------------------------


def test_a_newer_class_with_a_default_for_its_new_field_takes_old_values() -> None:
    old = SERDE.dumps_typed(m.Basket(["a"], 7))
    for module, change in _changes(
        f"{_HEAD}    items: list\n    total: int = 0\n"
        "    coupon: str = 'none'\n    seen: list = dataclasses.field(default_factory=list)\n"
    ):
        loaded = JsonPlusSerializer(allow=[change]).loads_typed(
            ("msgpack", old[1].replace(m.__name__.encode(), module))
        )
        assert (loaded.items, loaded.total, loaded.coupon, loaded.seen) == (["a"], 7, "none", [])


_HEAD = "import dataclasses\n@dataclasses.dataclass\nclass Basket:\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"{_HEAD}    items: list\n", "no longer has the stored field"),
        (f"{_HEAD}    items: list\n    total: int\n    must: int\n", "give it a default"),
        ("class Basket:\n    def __init__(self, other): pass\n", "is no more"),
    ],
)
def test_a_class_that_cannot_hold_the_stored_fields_raises_and_says_what_to_do(source: str, words: str) -> None:
    old = SERDE.dumps_typed({"a": m.Basket(["a"], 7)})
    for module, change in _changes(source):
        with pytest.raises(DeserializationError, match=words) as caught:
            JsonPlusSerializer(allow=[change]).loads_typed(("msgpack", old[1].replace(m.__name__.encode(), module)))
        assert caught.value.class_name == f"{module.decode()}:Basket"


def _changes(source: str) -> list[tuple[bytes, type]]:
    """A class of another module whose name is as long as the real one's."""
    import types

    name = "x" * len(m.__name__)
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(source, module.__dict__)
    finally:
        del sys.modules[name]
    return [(name.encode(), module.Basket)]


def test_instances_are_made_without_running_any_code_of_their_class() -> None:
    import dataclasses

    import pydantic

    @dataclasses.dataclass
    class Loud:
        a: int

        def __new__(cls, *args: Any) -> Any:
            ran.append("new")
            return super().__new__(cls)

        def __post_init__(self) -> None:
            ran.append("post_init")

        def __setattr__(self, name: str, value: Any) -> None:
            ran.append("setattr")
            super().__setattr__(name, value)

    class Checked(pydantic.BaseModel):
        a: int

        @pydantic.field_validator("a")
        @classmethod
        def check(cls, value: int) -> int:
            ran.append("validator")
            return value + 1

        def model_post_init(self, context: Any) -> None:
            ran.append("model_post_init")

    ran: list[str] = []
    serde = JsonPlusSerializer(allow=[Loud, Checked])
    stored = serde.dumps_typed([Loud(1), Checked(a=1)])
    ran.clear()
    loud, checked = serde.loads_typed(stored)
    assert (loud.a, checked.a, ran) == (1, 2, [])


@pytest.mark.parametrize("tag", ["nonsense", "msgpack+aes", "", "JSON"])
def test_an_unknown_tag_is_refused(tag: str) -> None:
    with pytest.raises(DeserializationError, match="tag"):
        SERDE.loads_typed((tag, b"\x01"))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x81", b"\xc7\x01\x0f\x01", b"\xd4\x7f\x00", b"\xdd\xff\xff\xff\xff"])
def test_damaged_bytes_raise_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(DeserializationError):
        SERDE.loads_typed(("msgpack", body))


def test_hostile_nesting_ends_in_an_error_and_not_in_a_crash() -> None:
    import ormsgpack

    arrays = b"\x91" * 1000 + b"\x90"
    bomb = arrays
    for _ in range(40):
        bomb = b"\x91" * 1000 + ormsgpack.packb(ormsgpack.Ext(0x10, b"\x91" + bomb))
    with pytest.raises(DeserializationError):
        SERDE.loads_typed(("msgpack", bomb))
    nest = b"\x90"
    for _ in range(300):
        nest = ormsgpack.packb(ormsgpack.Ext(0x10, nest))
    with pytest.raises(DeserializationError, match="deeper"):
        SERDE.loads_typed(("msgpack", nest))


# -- pickle --------------------------------------------------------------------------------------------------


class Odd:
    """Nothing but pickle carries this."""

    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.a == other.a

    def __reduce__(self) -> Any:
        return _odd, (self.a,)


def _odd(a: int) -> Odd:
    return Odd(a)


def test_pickle_carries_only_what_nothing_else_can_and_only_when_asked_for() -> None:
    serde = JsonPlusSerializer(pickle_fallback=True)
    value = {"odd": [Odd(1)], "plain": (1, {2}), "f": collections.deque([Odd(2)], maxlen=2)}
    assert back(value, serde) == value
    assert b"deque" not in serde.dumps_typed(value)[1]
    with pytest.raises(SerializationError, match="not serializable"):
        JsonPlusSerializer().dumps_typed(value)
    with pytest.raises(DeserializationError, match="pickle_fallback=True"):
        JsonPlusSerializer().loads_typed(serde.dumps_typed(value))
    with pytest.raises(SerializationError, match="not even pickle"):
        serde.dumps_typed({"l": threading.Lock()})


def test_a_whole_pickle_loads_only_when_asked_for() -> None:
    import pickle

    body = ("pickle", pickle.dumps({"a": 1}))
    assert JsonPlusSerializer(pickle_fallback=True).loads_typed(body) == {"a": 1}
    with pytest.raises(DeserializationError, match="pickle"):
        JsonPlusSerializer().loads_typed(body)


# -- cost of importing ---------------------------------------------------------------------------------------


def test_importing_and_using_it_on_plain_values_loads_nothing_heavy() -> None:
    program = (
        "import sys; from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer as J; s = J();"
        "s.loads_typed(s.dumps_typed({'a': [1, (2,), {3}]}));"
        "print(*(name for name in ('pydantic', 'numpy', 'pandas', 'polars', 'pyarrow', 'cryptography',"
        "'langchain_core', 'zoneinfo', 'decimal', 'fractions', 'ipaddress', 'asyncio', 'attr', 'msgspec')"
        "if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("odd", [{1: 2}, {None: {"a": (1, 2)}}, {2.5: m.Frozen(1, {3: 4})}, {True: {"s"}}])
def test_keys_that_are_no_text_come_back_wherever_they_stand(count: int, odd: Any) -> None:
    plain = [{"role": "user", "content": f"some text {at}"} for at in range(count)]
    mixed = [{"role": "user", "content": (at, m.Frozen(at, odd))} for at in range(count)]
    for value in ([*plain, odd], [odd, *plain], {"k": plain, "odd": odd}, [*mixed, odd], {"m": mixed, "odd": [odd]}):
        assert same(value, back(value)), repr(value)


@pytest.mark.parametrize("count", [1, 200])
def test_what_cannot_be_made_again_is_told_the_same_in_short_and_in_long_values(count: int) -> None:
    tag, body = SERDE.dumps_typed([{"role": "user", "at": m.Frozen(at, {1: 2})} for at in range(count)])
    with pytest.raises(DeserializationError, match="Frozen is not allowed here"):
        JsonPlusSerializer().loads_typed((tag, body))
    with pytest.raises(DeserializationError, match="cannot be read"):
        SERDE.loads_typed((tag, body[:-1]))
