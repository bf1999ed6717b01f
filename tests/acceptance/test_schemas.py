"""What the annotations of a state mean: schemas, reducers, channel kinds, private keys (spec 2.1, 2.2)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required

import numpy
import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from tests.acceptance.kit import Log, Pair, chain, fan, thread
from tests.conftest import Call
from threadmark.channels import AnyValue, EphemeralValue, LastValue, Topic, UntrackedValue
from threadmark.errors import InvalidUpdateError
from threadmark.graph import START, StateGraph
from threadmark.managed import IsLastStep, RemainingSteps
from threadmark.types import Overwrite, Send

Node = Callable[[Any], Any]


@dataclass
class Order:
    item: str
    count: int = 1
    notes: Annotated[list[str], operator.add] = field(default_factory=list)


class Account(BaseModel):
    owner: str
    balance: int = 0
    notes: Annotated[list[str], operator.add] = []


# -- the forms of a state ----------------------------------------------------------------------------------------------


class Loose(TypedDict, total=False):
    a: Required[int]
    b: NotRequired[Annotated[list[int], operator.add]]
    c: int


def test_a_typed_dict_s_keys_without_a_value_are_left_out(saver: Any, call: Call, node: Node) -> None:
    seen = []

    def look(state: Loose) -> dict[str, Any]:
        seen.append(dict(state))
        return {"b": [2]}

    graph = chain(("look", node(look)), schema=Loose).compile(checkpointer=saver)
    assert call(graph, "invoke", {"a": 1}, thread()) == {"a": 1, "b": [2]}
    assert seen == [{"a": 1, "b": []}]
    assert call(graph, "get_state", thread()).values == {"a": 1, "b": [2]}


def test_a_dataclass_reaches_nodes_as_an_instance_and_callers_as_a_dict(saver: Any, call: Call, node: Node) -> None:
    seen = []

    def look(state: Order) -> dict[str, Any]:
        seen.append(state)
        return {"notes": ["dict"]}

    def whole(state: Order) -> Order:
        return Order(item=state.item, count=5, notes=["instance"])

    graph = chain(("look", node(look)), ("whole", node(whole)), schema=Order).compile(checkpointer=saver)
    assert call(graph, "invoke", {"item": "lamp"}, thread()) == {
        "item": "lamp",
        "count": 5,
        "notes": ["dict", "instance"],
    }
    assert seen == [Order("lamp", 1, [])]


@dataclass
class Measured:
    values: Any = None
    count: int = 0


class MeasuredModel(BaseModel):
    values: Any = 0
    count: int = 0


@pytest.mark.parametrize("schema", [Measured, MeasuredModel])
def test_an_object_may_hold_what_compares_element_by_element(saver: Any, call: Call, node: Node, schema: Any) -> None:
    def measure(state: Any) -> Any:
        made = schema()
        made.values = state.values + 1
        return made

    graph = chain(("measure", node(measure)), schema=schema).compile(checkpointer=saver)
    found = call(graph, "invoke", schema(values=numpy.arange(3)), thread())
    assert found["values"].tolist() == [1, 2, 3]


def test_a_dataclass_instance_is_an_input(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("look", node(lambda state: None)), schema=Order).compile(checkpointer=saver)
    found = call(graph, "invoke", Order("lamp", 3, ["in"]), thread())
    assert found == {"item": "lamp", "count": 3, "notes": ["in"]}


def test_a_pydantic_model_reaches_nodes_as_an_instance_and_callers_as_a_dict(
    saver: Any, call: Call, node: Node
) -> None:
    seen = []

    def look(state: Account) -> dict[str, Any]:
        seen.append(state)
        return {"notes": ["dict"]}

    def whole(state: Account) -> Account:
        return Account(owner=state.owner, balance=state.balance + 1, notes=["instance"])

    graph = chain(("look", node(look)), ("whole", node(whole)), schema=Account).compile(checkpointer=saver)
    found = call(graph, "invoke", {"owner": "ada", "balance": "7"}, thread())
    assert found == {"owner": "ada", "balance": 8, "notes": ["dict", "instance"]}
    assert seen == [Account(owner="ada", balance=7)]


def test_a_pydantic_instance_is_an_input(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("look", node(lambda state: None)), schema=Account).compile(checkpointer=saver)
    assert call(graph, "invoke", Account(owner="ada", notes=["in"]), thread())["notes"] == ["in"]


def test_an_input_that_does_not_fit_is_never_state(saver: Any, call: Call, node: Node) -> None:
    ran = []
    graph = chain(("look", node(lambda state: ran.append(1))), schema=Account).compile(checkpointer=saver)
    with pytest.raises(ValidationError, match="balance"):
        call(graph, "invoke", {"owner": "ada", "balance": "much"}, thread())
    assert ran == []
    assert all("balance" not in one.values for one in call(graph, "get_state_history", thread()))
    assert call(graph, "invoke", {"owner": "ada", "balance": 1}, thread())["balance"] == 1


def test_a_result_that_does_not_fit_is_never_state(saver: Any, call: Call, node: Node) -> None:
    result: dict[str, Any] = {"balance": "much"}
    graph = chain(("look", node(lambda state: result)), schema=Account).compile(checkpointer=saver)
    with pytest.raises(ValidationError, match="balance") as raised:
        call(graph, "invoke", {"owner": "ada", "balance": 1}, thread())
    assert any("'look'" in note for note in raised.value.__notes__)
    state = call(graph, "get_state", thread())
    assert (state.values["balance"], state.next) == (1, ("look",))
    result["balance"] = 2
    assert call(graph, "invoke", None, thread())["balance"] == 2


class Strict(BaseModel):
    log: list[int]


def test_a_state_that_does_not_fit_a_node_names_the_node(saver: Any, call: Call, node: Node) -> None:
    ran = []

    def look(state: Strict) -> None:
        ran.append(1)

    graph = chain("a", ("look", node(look))).compile(checkpointer=saver)
    with pytest.raises(ValidationError) as raised:
        call(graph, "invoke", {"log": []}, thread())
    assert any("look" in note for note in raised.value.__notes__)
    assert ran == []
    state = call(graph, "get_state", thread())
    assert (state.values, state.next) == ({"log": ["a"]}, ("look",))


def add_two(left: int, right: int) -> int:
    return left + right


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [(int, 1, 3), (Annotated[int, add_two], 1, 5), (Annotated[list, operator.add], [1], [1, 3])],
    ids=["plain", "reducer", "list"],
)
def test_a_state_may_be_a_single_value(
    saver: Any, call: Call, node: Node, schema: Any, given: Any, expected: Any
) -> None:
    def double(state: Any) -> Any:
        return [3] if isinstance(state, list) else state + 2 if schema is int else state + 3

    graph = chain(("double", node(double)), schema=schema).compile(checkpointer=saver)
    assert call(graph, "invoke", given, thread()) == expected
    assert call(graph, "get_state", thread()).values == expected
    assert call(graph, "stream", given, thread("2"), stream_mode="values") == [given, expected]
    assert call(graph, "stream", given, thread("3")) == [{"double": double(given)}]


# -- reducers ----------------------------------------------------------------------------------------------------------


class Reduced(TypedDict):
    total: Annotated[int, operator.add]
    words: Annotated[Sequence[str], lambda old, new: [*old, *new]]
    seen: Annotated[set[int], operator.or_]
    last: str


def test_reducers_fold_each_write_and_start_empty(saver: Any, call: Call, node: Node) -> None:
    def write(state: Reduced) -> dict[str, Any]:
        return {"total": 2, "words": ["w"], "seen": {2}}

    graph = fan(("a", node(write)), ("b", node(write)), schema=Reduced).compile(checkpointer=saver)
    assert call(graph, "invoke", {"last": "x"}, thread()) == {
        "total": 4,
        "words": ["w", "w"],
        "seen": {2},
        "last": "x",
    }


def three(a: int, b: int, c: int) -> int:
    return a


class MaxOf(TypedDict):
    x: Annotated[int, max]


class ThreeOf(TypedDict):
    x: Annotated[int, three]


@pytest.mark.parametrize("schema", [MaxOf, ThreeOf])
def test_a_reducer_must_take_two_arguments(schema: Any) -> None:
    with pytest.raises(ValueError, match="reducer"):
        StateGraph(schema)


def test_two_writes_to_a_plain_key_in_one_superstep_are_refused(saver: Any, call: Call, node: Node) -> None:
    def write(state: Pair) -> dict[str, Any]:
        return {"foo": "x", "bar": ["kept"]}

    graph = fan(("a", node(write)), ("b", node(write)), schema=Pair).compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="INVALID_CONCURRENT_GRAPH_UPDATE"):
        call(graph, "invoke", {"foo": "in"}, thread())
    found = call(graph, "get_state", thread())
    assert found.next == ("a", "b")
    assert found.values == {"foo": "in", "bar": []}
    with pytest.raises(InvalidUpdateError):
        call(graph, "invoke", None, thread())
    call(graph, "update_state", thread(), {"foo": "mended"}, as_node="a")
    assert call(graph, "get_state", thread()).values["foo"] == "mended"


def no_negatives(old: int, new: int) -> int:
    if new < 0:
        raise ValueError("negative")
    return old + new


class Counted(TypedDict):
    total: Annotated[int, no_negatives]


def test_a_thread_whose_reducer_failed_reads(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("a", node(lambda state: {"total": -1})), schema=Counted).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="negative"):
        call(graph, "invoke", {"total": 1}, thread())
    state = call(graph, "get_state", thread())
    assert (state.values, state.next) == ({"total": 1}, ("a",))
    assert len(call(graph, "get_state_history", thread())) == 2
    call(graph, "update_state", thread(), {"total": 5}, as_node="a")
    assert call(graph, "invoke", None, thread()) == {"total": 6}


@pytest.mark.parametrize(
    "overwrite", [Overwrite(["new"]), {"__overwrite__": ["new"]}, {"type": "__overwrite__", "value": ["new"]}]
)
def test_an_overwrite_replaces_what_a_reducer_gathered(saver: Any, call: Call, node: Node, overwrite: Any) -> None:
    graph = chain("a", ("b", node(lambda state: {"log": overwrite}))).compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": ["in"]}, thread()) == {"log": ["new"]}
    call(graph, "update_state", thread(), {"log": Overwrite(["edited"])})
    assert call(graph, "get_state", thread()).values == {"log": ["edited"]}


def test_other_writes_beside_an_overwrite_do_not_count(saver: Any, call: Call, node: Node) -> None:
    def replace(state: Log) -> dict[str, Any]:
        return {"log": Overwrite(["only"])}

    graph = fan("a", ("b", node(replace)), "c").compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": ["in"]}, thread()) == {"log": ["only"]}
    two = fan(("a", node(replace)), ("b", node(replace))).compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="Overwrite"):
        call(two, "invoke", {"log": ["in"]}, thread("2"))


# -- other kinds of channel --------------------------------------------------------------------------------------------


class Kinds(TypedDict):
    topic: Annotated[list[str], Topic]
    all: Annotated[list[str], Topic(str, accumulate=True)]
    passing: Annotated[int, EphemeralValue]
    any: Annotated[int, AnyValue]
    handle: Annotated[Any, UntrackedValue]
    plain: Annotated[int, LastValue]
    log: Annotated[list[str], operator.add]


def test_channel_kinds_in_a_schema(saver: Any, call: Call, node: Node) -> None:
    seen = []

    def first(state: Kinds) -> dict[str, Any]:
        return {"topic": "t1", "all": ["x", "y"], "passing": 1, "any": 1, "handle": object, "plain": 1}

    def second(state: Kinds) -> dict[str, Any]:
        seen.append(dict(state))
        return {"all": "z"}

    def third(state: Kinds) -> None:
        seen.append(dict(state))

    graph = chain(("first", node(first)), ("second", node(second)), ("third", node(third)), schema=Kinds).compile(
        checkpointer=saver
    )
    call(graph, "invoke", {"log": []}, thread())
    assert seen[0] == {
        "topic": ["t1"],
        "all": ["x", "y"],
        "passing": 1,
        "any": 1,
        "handle": object,
        "plain": 1,
        "log": [],
    }
    assert seen[1] == {"all": ["x", "y", "z"], "handle": object, "plain": 1, "log": []}
    assert call(graph, "get_state", thread()).values == {"all": ["x", "y", "z"], "plain": 1, "log": []}
    for stored in saver.list(thread()):
        assert "handle" not in stored.checkpoint["channel_values"]
        assert "handle" not in [channel for _, channel, _ in stored.pending_writes]


def test_a_packet_s_untracked_keys_are_not_stored_either(saver: Any, call: Call, node: Node) -> None:
    def work(state: Any) -> dict[str, Any]:
        return {"log": [str(sorted(state))], "handle": object}

    builder = StateGraph(Kinds).add_node("work", node(work))
    builder.add_conditional_edges(START, node(lambda state: [Send("work", {"handle": object, "n": 1})]))
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread())["log"] == ["['handle', 'n']"]
    packets = [one.checkpoint["channel_values"].get("__pregel_tasks") for one in saver.list(thread())]
    assert packets[1] == [Send("work", {"n": 1})]
    written = [
        value for one in saver.list(thread()) for _, name, value in one.pending_writes if name == "__pregel_tasks"
    ]
    assert written == [Send("work", {"n": 1})]


def test_equal_writes_to_an_any_value(saver: Any, call: Call, node: Node) -> None:
    graph = fan(("a", node(lambda state: {"any": 1})), ("b", node(lambda state: {"any": 1})), schema=Kinds).compile(
        checkpointer=saver
    )
    assert call(graph, "invoke", {"log": []}, thread())["any"] == 1


class Bounded(TypedDict):
    left: RemainingSteps
    last: IsLastStep
    log: Annotated[list[Any], operator.add]


def test_managed_values_tell_how_far_a_run_may_go(saver: Any, call: Call, node: Node) -> None:
    def look(state: Bounded) -> dict[str, Any]:
        return {"log": [(state["left"], state["last"])]}

    graph = chain(("a", node(look)), ("b", node(look)), schema=Bounded).compile(checkpointer=saver)
    found = call(graph, "invoke", {"log": []}, {**thread(), "recursion_limit": 10})
    assert found == {"log": [(9, False), (8, False)]}
    found = call(graph, "invoke", {"log": []}, {**thread("2"), "recursion_limit": 3})
    assert found["log"][-1] == (1, True)


# -- several schemas ---------------------------------------------------------------------------------------------------


class Given(TypedDict):
    question: str


class Returned(TypedDict):
    answer: str


class Whole(Given, Returned):
    log: Annotated[list[str], operator.add]


class Secret(TypedDict):
    hidden: str


class PlainLog(TypedDict):
    log: list[str]


class OtherLog(TypedDict):
    log: Annotated[list[str], operator.iadd]


def test_input_output_and_private_schemas(saver: Any, call: Call, node: Node) -> None:
    seen: list[Any] = []

    def think(state: Given) -> dict[str, str]:
        seen.append(dict(state))
        return {"hidden": "42", "unknown": "dropped"}

    def speak(state: Secret) -> dict[str, Any]:
        seen.append(dict(state))
        return {"answer": state["hidden"], "log": ["spoke"]}

    builder = StateGraph(Whole, input_schema=Given, output_schema=Returned)
    builder.add_node("think", node(think))
    builder.add_node("speak", node(speak))
    builder.add_edge(START, "think")
    builder.add_edge("think", "speak")
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"question": "?", "log": ["not an input"]}, thread()) == {"answer": "42"}
    assert seen == [{"question": "?"}, {"hidden": "42"}]
    everything = {"question": "?", "answer": "42", "log": ["spoke"], "hidden": "42"}
    assert call(graph, "get_state", thread()).values == everything
    assert call(graph, "stream", {"question": "?"}, thread("2"), stream_mode="values")[-1] == everything


def test_an_explicit_input_schema_wins(call: Call, node: Node) -> None:
    seen = []

    def look(state: Whole) -> None:
        seen.append(dict(state))

    builder = StateGraph(Whole)
    builder.add_node("look", node(look), input_schema=Given)
    builder.add_edge(START, "look")
    call(builder.compile(), "invoke", {"question": "?", "log": ["x"]})
    assert seen == [{"question": "?"}]


def test_a_plain_annotation_does_not_undo_a_reducer(call: Call, node: Node) -> None:
    def look(state: PlainLog) -> dict[str, list[str]]:
        return {"log": ["b"]}

    assert call(chain("a", ("b", node(look))).compile(), "invoke", {"log": []}) == {"log": ["a", "b"]}


def test_two_meanings_of_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="'log' already exists"):
        StateGraph(Log, input_schema=OtherLog)
    with pytest.raises(ValueError, match="'log' already exists"):
        StateGraph(PlainLog, output_schema=Log)


def test_a_managed_value_is_no_input() -> None:
    with pytest.raises(ValueError, match="left"):
        StateGraph(Log, input_schema=Bounded)


def test_what_a_path_function_reads_is_a_schema_too(call: Call, node: Node) -> None:
    seen = []

    def where(state: Secret) -> str:
        seen.append(dict(state))
        return "b"

    builder = StateGraph(Log)
    builder.add_node("a", node(lambda state: {"hidden": "x"}))
    builder.add_node("b", node(lambda state: {"log": ["b"]}))
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", node(where))
    assert call(builder.compile(), "invoke", {"log": []}) == {"log": ["b"]}
    assert seen == [{"hidden": "x"}]
