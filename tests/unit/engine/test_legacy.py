"""Checkpoints of LangGraph's formats 1 to 3 under today's names: triggers, packets, task ids."""

from __future__ import annotations

import copy
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from threadmark import ids
from threadmark.checkpoint.base import CheckpointTuple
from threadmark.engine.legacy import former_ids, upgraded
from threadmark.engine.plan import Plan
from threadmark.graph import START, StateGraph
from threadmark.types import Send

ID = "1ef4f797-8335-6428-8001-8a1503f9b875"
V1, V2, V3 = (f"{number:032}.0.5" for number in (1, 2, 3))


class State(TypedDict):
    log: Annotated[list[str], add]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """``a`` leads to ``b`` by an edge and to ``c`` by a condition; ``d`` waits for both."""
    builder = StateGraph(State)
    for name in "abcd":
        builder.add_node(name, lambda state: {"log": []})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("a", lambda state: "c", ["c"])
    builder.add_edge(["b", "c"], "d")
    found: Plan = builder.compile().plan
    return found


def saved(v: int, values: dict[str, Any], versions: dict[str, str], *writes: Any, **more: Any) -> CheckpointTuple:
    made: Any = {"v": v, "id": ID, "ts": "", "channel_values": values, "channel_versions": versions,
                 "versions_seen": {}, "updated_channels": None, **more}  # fmt: skip
    return CheckpointTuple({"configurable": {"thread_id": "t"}}, made, {"step": 1}, None, list(writes))


def after_a(v: int = 1, **more: Any) -> CheckpointTuple:
    """``a`` has run: its edge and its condition have named their ends as the old formats did."""
    values = {"log": ["x"], "a": "a", "branch:a:choose:c": "a"}
    versions = {"__start__": V2, "log": V3, "start:a": V3, "a": V3, "branch:a:choose:c": V3}
    seen = {"__start__": {"__start__": V1}, "a": {"start:a": V2}}
    return saved(v, values, versions, **{"versions_seen": seen, **more})


@pytest.mark.parametrize("v", [4, 5])
def test_what_is_of_today_stays_itself(plan: Plan, v: int) -> None:
    one = saved(v, {"start:a": 1}, {"start:a": V1})
    assert upgraded(plan, one) is one
    assert upgraded(plan, None) is None


@pytest.mark.parametrize("v", [1, 2])
def test_triggers_get_todays_names_and_nodes_stay_due(plan: Plan, v: int) -> None:
    old = after_a(v)
    before = copy.deepcopy(tuple(old))
    made = upgraded(plan, old)
    assert tuple(old) == before
    assert made.checkpoint["channel_values"] == {"log": ["x"], "branch:to:b": None, "branch:to:c": None}
    assert made.checkpoint["channel_versions"] == {
        "__start__": V2, "log": V3, "branch:to:a": V3, "branch:to:b": V3, "branch:to:c": V3,
    }  # fmt: skip
    assert made.checkpoint["versions_seen"] == {"__start__": {"__start__": V1}, "a": {"branch:to:a": V2}}
    assert made.former_triggers == {"b": ["a"], "c": ["branch:a:choose:c"]}
    assert upgraded(plan, made) is made


def test_a_trigger_that_was_seen_makes_nothing_due(plan: Plan) -> None:
    seen = {"b": {"a": V3}, "c": {"branch:a:choose:c": V2}, "__interrupt__": {"a": V3, "log": V2}}
    made = upgraded(plan, after_a(versions_seen=seen))
    assert made.former_triggers == {"c": ["branch:a:choose:c"]}
    assert made.checkpoint["versions_seen"] == {
        "b": {"branch:to:b": V3}, "c": {"branch:to:c": V2}, "__interrupt__": {"branch:to:b": V3, "log": V2},
    }  # fmt: skip


def test_joins_kept_their_names(plan: Plan) -> None:
    join = "join:b+c:d"
    made = upgraded(plan, saved(1, {join: ["b", "c"]}, {join: V2}, versions_seen={"d": {join: V1}}))
    assert made.checkpoint["channel_values"] == {join: ["b", "c"]}
    assert made.former_triggers == {"d": [join]}
    assert upgraded(plan, saved(1, {join: ["b"]}, {join: V2}, versions_seen={"d": {join: V2}})).former_triggers == {}


def test_writes_to_triggers_are_renamed_and_those_that_lead_nowhere_still_finish_their_task(plan: Plan) -> None:
    writes = [("t1", "log", ["y"]), ("t1", "a", "a"), ("t1", "branch:a:choose:c", "a"), ("t2", "d", "d"),
              ("t3", "start:a", "__start__")]  # fmt: skip
    made = upgraded(plan, saved(1, {}, {}, *writes))
    assert made.pending_writes == [
        ("t1", "log", ["y"]), ("t1", "branch:to:b", None), ("t1", "branch:to:c", None), ("t2", "__no_writes__", None),
        ("t3", "branch:to:a", None),
    ]  # fmt: skip


@pytest.mark.parametrize("v", [1, 2, 3])
def test_packets_become_a_channel_with_the_newest_version(plan: Plan, v: int) -> None:
    sends = [Send("b", 1), Send("c", 2)]
    made = upgraded(plan, saved(v, {"log": []}, {"log": V2, "__start__": V1}, pending_sends=sends))
    assert made.checkpoint["channel_values"] == {"log": [], "__pregel_tasks": sends}
    assert made.checkpoint["channel_versions"]["__pregel_tasks"] == V2
    assert "pending_sends" not in made.checkpoint
    assert "__pregel_tasks" not in upgraded(plan, saved(v, {}, {}, pending_sends=[])).checkpoint["channel_values"]


def test_format_3_has_todays_triggers(plan: Plan) -> None:
    old = saved(3, {"branch:to:b": None, "a": "of the user"}, {"branch:to:b": V2, "a": V1}, ("t", "a", 1))
    made = upgraded(plan, old)
    assert made.checkpoint["channel_values"] == old.checkpoint["channel_values"]
    assert made.pending_writes == [("t", "a", 1)]
    assert made.former_triggers == {}


def test_what_our_savers_keep_comes_along(plan: Plan) -> None:
    old = after_a()
    old.shown_writes = {"a": None}
    assert upgraded(plan, old).shown_writes == {"a": None}


def test_tasks_of_format_1_keep_their_ids(plan: Plan) -> None:
    made = upgraded(plan, after_a(pending_sends=[Send("b", 1)]))
    found = former_ids(plan, made, lambda node: node)
    assert found == {
        ids.task_id(ID, ("b", "2", "b", "__pregel_pull", *plan.nodes["b"].triggers)): ids.legacy_task_id(
            ID, ("b", "2", "b", "__pregel_pull", "a")
        ),
        ids.task_id(ID, ("c", "2", "c", "__pregel_pull", *plan.nodes["c"].triggers)): ids.legacy_task_id(
            ID, ("c", "2", "c", "__pregel_pull", "branch:a:choose:c")
        ),
        ids.task_id(ID, ("b", "2", "b", "__pregel_push", "0")): ids.legacy_task_id(
            ID, ("b", "2", "b", "__pregel_push", "0")
        ),
    }


def test_format_2_has_old_ids_where_something_is_stored_under_them(plan: Plan) -> None:
    old = ids.legacy_task_id(ID, ("b", "2", "b", "__pregel_pull", "a"))
    made = upgraded(plan, after_a(2)._replace(pending_writes=[(old, "log", ["b"])]))
    assert list(former_ids(plan, made, lambda node: node).values()) == [old]
    assert former_ids(plan, upgraded(plan, after_a(2)), lambda node: node) == {}


def test_later_formats_and_nodes_that_are_gone_have_no_former_ids(plan: Plan) -> None:
    assert former_ids(plan, None, lambda node: node) == {}
    assert former_ids(plan, upgraded(plan, after_a(3)), lambda node: node) == {}
    gone = upgraded(plan, saved(1, {"start:gone": "__start__"}, {"start:gone": V1}))
    assert gone.former_triggers == {"gone": ["start:gone"]}
    assert former_ids(plan, gone, lambda node: node) == {}
