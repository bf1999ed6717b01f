"""Annotations -> channels, results -> writes, path functions -> targets: pure functions (spec 2.1, 2.4, 2.5)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required

import pytest
from pydantic import BaseModel
from typing_extensions import ReadOnly, TypedDict

from threadmark.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic, UntrackedValue
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.constants import END, START
from threadmark.errors import InvalidUpdateError, ParentCommand
from threadmark.graph import StateGraph
from threadmark.graph.branch import branch_spec
from threadmark.graph.schema import channel_of, channels_of, coercion, hints_of
from threadmark.graph.writes import update_of
from threadmark.managed import IsLastStep, IsLastStepManager
from threadmark.types import Command, Send


def reduce(old: list[int], new: int) -> list[int]:
    return [*old, new]


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int, LastValue),
        (Annotated[int, "a note"], LastValue),
        (Annotated[list[int], reduce], BinaryOperatorAggregate),
        (Annotated[list[int], "a note", reduce], BinaryOperatorAggregate),
        (Required[Annotated[list[int], reduce]], BinaryOperatorAggregate),
        (NotRequired[int], LastValue),
        (ReadOnly[int], LastValue),
        (NotRequired[ReadOnly[Annotated[list[int], reduce]]], BinaryOperatorAggregate),
        (Annotated[list[int], Topic], Topic),
        (Annotated[list[int], Topic(int, accumulate=True)], Topic),
        (Annotated[int, EphemeralValue, "a note"], EphemeralValue),
        (Annotated[int, UntrackedValue(int)], UntrackedValue),
        (Annotated[int, str], LastValue),
    ],
)
def test_which_channel_an_annotation_means(hint: Any, kind: type) -> None:
    assert type(channel_of("key", hint)) is kind


def test_a_managed_value_is_no_channel() -> None:
    assert channel_of("last", IsLastStep) is IsLastStepManager


@pytest.mark.parametrize("reducer", [max, lambda a: a, lambda a, b, c: a])
def test_a_reducer_of_another_arity_is_refused_and_its_key_named(reducer: Any) -> None:
    with pytest.raises(ValueError, match="'key'"):
        channel_of("key", Annotated[int, reducer])


class Total(TypedDict, total=False):
    a: Required[int]
    b: Annotated[list[int], operator.add]


class Derived(Total):
    c: str


@dataclass
class Data:
    a: int
    b: int = 2


class Model(BaseModel):
    a: int
    b: int = 2


@pytest.mark.parametrize(
    ("schema", "keys"),
    [
        (Total, ["a", "b"]),
        (Derived, ["a", "b", "c"]),
        (Data, ["a", "b"]),
        (Model, ["a", "b"]),
        (int, ["__root__"]),
        (list[int], ["__root__"]),
        (Annotated[list[int], operator.add], ["__root__"]),
    ],
)
def test_the_keys_of_a_schema(schema: Any, keys: list[str]) -> None:
    channels, managed = channels_of(schema)
    assert (list(channels), managed) == (keys, {})
    assert all(channel.key == key for key, channel in channels.items())


def test_a_name_that_is_not_known_is_named() -> None:
    class Broken(TypedDict):
        a: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ValueError, match="Nowhere"):
        hints_of(Broken)


def test_which_schemas_make_objects() -> None:
    assert coercion(Total) is None
    assert coercion(int) is None
    data, model = coercion(Data), coercion(Model)
    assert data is not None
    assert model is not None
    assert data({"a": 1}) == Data(1)
    assert model({"a": "1"}) == Model(a=1)


# -- results


def wrote(result: Any, *keys: str) -> list[tuple[str, Any]]:
    return list(update_of("n", frozenset(keys or ("a", "b")))(result))


@pytest.mark.parametrize(
    ("result", "writes"),
    [
        (None, []),
        ({}, []),
        ({"a": 1, "x": 2}, [("a", 1)]),
        (Data(1, 3), [("a", 1), ("b", 3)]),
        (Command(update={"a": 1, "x": 2}, goto="m"), [("a", 1), ("branch:to:m", None)]),
        (Command(update=[("a", 1), ("a", 2)]), [("a", 1), ("a", 2)]),
        (Command(goto=[END, "m"]), [("branch:to:m", None)]),
        (Send("m", 1), [("__pregel_tasks", Send("m", 1))]),
        ([{"a": 1}, None, Command(update={"b": 2})], [("a", 1), ("b", 2)]),
    ],
)
def test_what_a_result_writes(result: Any, writes: Any) -> None:
    assert wrote(result) == writes


@pytest.mark.parametrize(
    ("result", "writes"),
    [(1, [("__root__", 1)]), (None, []), ({"a": 1}, [("__root__", {"a": 1})]), ([1], [("__root__", [1])])],
)
def test_what_a_result_writes_to_a_single_value(result: Any, writes: Any) -> None:
    assert wrote(result, "__root__") == writes


@pytest.mark.parametrize("result", [1, "text", ["a"], (1, 2), [Send("m", 1)], Command(update=3), object()])
def test_what_is_no_update_names_its_node(result: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"'n'.*INVALID_GRAPH_NODE_RETURN_VALUE"):
        wrote(result)


def test_a_command_for_a_parent_is_handed_on() -> None:
    command: Command[Any] = Command(graph=Command.PARENT, update={"a": 1})
    with pytest.raises(ParentCommand) as raised:
        wrote(command)
    assert raised.value.args[0] is command


# -- path functions


def nowhere(state: Any) -> Any:
    return None


def literal(state: Any) -> Literal["a", "b"]:
    return "a"


class Chooser:
    def __call__(self, state: Total) -> Literal["a"]:
        return "a"


@pytest.mark.parametrize(
    ("path", "given", "name", "ends"),
    [
        (nowhere, None, "nowhere", None),
        (lambda state: "a", None, "condition", None),
        (literal, None, "literal", {"a": "a", "b": "b"}),
        (literal, ["c"], "literal", {"c": "c"}),
        (nowhere, {True: "a"}, "nowhere", {True: "a"}),
        (Chooser(), None, "Chooser", {"a": "a"}),
    ],
)
def test_what_a_path_function_says_of_itself(path: Any, given: Any, name: str, ends: Any) -> None:
    spec = branch_spec(path, given)
    assert (spec.name, spec.ends) == (name, ends)


def test_a_path_function_s_parameter_is_a_schema() -> None:
    assert branch_spec(Chooser(), None).input_schema is Total
    assert branch_spec(literal, None).input_schema is None


@pytest.mark.parametrize(
    ("result", "ends", "writes"),
    [
        ("a", None, [("branch:to:a", None)]),
        (["a", END, "b"], None, [("branch:to:a", None), ("branch:to:b", None)]),
        (True, {True: "a"}, [("branch:to:a", None)]),
        (Send("a", 1), {True: "a"}, [("__pregel_tasks", Send("a", 1))]),
        ((), None, []),
        (True, None, [("branch:to:True", None)]),
    ],
)
def test_where_a_choice_leads(result: Any, ends: Any, writes: Any) -> None:
    assert branch_spec(nowhere, ends).decide(result) == writes


@pytest.mark.parametrize(
    ("result", "error"),
    [(None, ValueError), (START, ValueError), ([None], ValueError), (Send(END, 1), InvalidUpdateError)],
)
def test_a_choice_that_leads_nowhere(result: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        branch_spec(nowhere, None).decide(result)


@pytest.mark.parametrize("durability", [None, "sync", "exit"])
def test_a_key_may_have_the_name_of_a_trigger_as_long_as_nobody_writes_it(durability: Any) -> None:
    fields: Any = {"n": int, "branch:to:b": int}
    builder: Any = StateGraph(TypedDict("Odd", fields))  # type: ignore[operator]
    for name in "ab":
        builder.add_node(name, lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "a").add_edge("a", "b")
    graph = builder.compile(checkpointer=None if durability is None else InMemorySaver())
    options = {} if durability is None else {"durability": durability}
    assert graph.invoke({"n": 0}, {"configurable": {"thread_id": "1"}}, **options) == {"n": 2}
