"""What a prune keeps, hides and drops; where delta histories lie."""

from __future__ import annotations

import pytest

from threadmark.checkpoint.layout import (
    Node,
    RowFields,
    hidden_fields,
    plan_delete_runs,
    plan_history,
    plan_prune,
    value_ids,
)


def line(count: int, *, ns: str = "", snapshots: tuple[int, ...] = (), delta: str = "", **more: str) -> list[Node]:
    """A line of checkpoints c0, c1, ...; with ``delta``, that channel has values at ``snapshots`` only."""
    return [
        Node(
            ns=ns, id=f"c{n}", parent=f"c{n - 1}" if n else None, time=float(n), run_id=f"run{n // 2}",
            delta=frozenset({delta} - {""}) if n not in snapshots else frozenset(),
            stored=frozenset({delta} if n in snapshots else ()) | {"plain"},
            enclosing={"": more["root"]} if "root" in more else {},
        )
        for n in range(count)
    ]  # fmt: skip


def ids(keys: object) -> list[str]:
    return sorted(key[1] for key in keys)  # type: ignore[attr-defined]


def test_keep_latest_keeps_one_a_namespace_and_shows_no_parent() -> None:
    nodes = [*line(4), *line(3, ns="child")]
    plan = plan_prune(nodes, keep_last=1)
    assert plan.keep == {("", "c3"), ("child", "c2")}
    assert plan.orphaned == plan.keep
    assert len(plan.drop) == 5
    assert plan.hide == {}


def test_newest_is_the_greatest_id_whatever_the_order_of_rows() -> None:
    assert ids(plan_prune(reversed(line(4)), keep_last=2).keep) == ["c2", "c3"]
    assert plan_prune(line(4), keep_last=2).orphaned == {("", "c2")}
    assert plan_prune(line(2), keep_last=9).drop == frozenset()


def test_by_age_the_newest_stays_however_old() -> None:
    assert ids(plan_prune(line(4), older_than=2.0).keep) == ["c2", "c3"]
    assert ids(plan_prune(line(4), older_than=99.0).keep) == ["c3"]
    assert ids(plan_prune(line(4), older_than=99.0, keep_last=3).keep) == ["c1", "c2", "c3"]
    assert ids(plan_prune(line(4), older_than=1.0, keep_last=1).keep) == ["c1", "c2", "c3"]


def test_rules_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="keep_last"):
        plan_prune(line(2))
    with pytest.raises(ValueError, match="at least 1"):
        plan_prune(line(2), keep_last=0)
    with pytest.raises(TypeError, match="same type"):
        plan_prune(line(2), older_than="2026-01-01")


def test_a_delta_channel_keeps_its_ancestors_hidden_as_far_as_its_snapshot() -> None:
    plan = plan_prune(line(8, delta="d", snapshots=(3,)), keep_last=1)
    assert plan.keep == {("", "c7")}
    assert {key[1]: set(channels) for key, channels in plan.hide.items()} == {f"c{n}": {"d"} for n in (3, 4, 5, 6)}
    assert ids(plan.drop) == ["c0", "c1", "c2"]
    assert plan.orphaned == plan.keep


def test_a_head_with_a_snapshot_needs_no_ancestor() -> None:
    assert plan_prune(line(5, delta="d", snapshots=(4,)), keep_last=1).hide == {}


def test_a_delta_channel_without_snapshot_keeps_all_its_line_and_a_second_prune_changes_nothing() -> None:
    nodes = line(5, delta="d")
    first = plan_prune(nodes, keep_last=1)
    assert ids(first.hide) == ["c0", "c1", "c2", "c3"]
    hidden = [Node(id=n.id, parent=n.parent, delta=n.delta, hidden=n.key in first.hide) for n in nodes]
    again = plan_prune(hidden, keep_last=1)
    assert (again.keep, again.drop, dict(again.hide)) == (first.keep, frozenset(), dict(first.hide))


def test_hidden_rows_that_nobody_needs_any_more_go() -> None:
    nodes = [
        Node(id="c0", hidden=True),
        Node(id="c1", parent="c0", delta=frozenset("d")),
        Node(id="c2", parent="c1", stored=frozenset("d")),
    ]
    assert ids(plan_prune(nodes, keep_last=1).drop) == ["c0", "c1"]


def test_branches_keep_what_each_needs() -> None:
    nodes = [
        Node(id="a", stored=frozenset("d")),
        Node(id="b", parent="a", delta=frozenset("d")),
        Node(id="x", parent="a", delta=frozenset("d")),
        Node(id="y", parent="x", delta=frozenset("d")),
    ]
    plan = plan_prune(nodes, keep_last=1)
    assert ids(plan.hide) == ["a", "x"]
    assert ids(plan.drop) == ["b"]


def test_a_tasks_namespace_goes_with_its_checkpoint() -> None:
    root = line(3)
    old, new = line(2, ns="n:1", root="c1"), line(2, ns="n:2", root="c2")
    inner = [Node(ns="n:2|m:3", id="c9", enclosing={"": "c2", "n:2": "c1"})]
    lost = [Node(ns="n:1|m:3", id="c9", enclosing={"": "c1", "n:1": "c1"})]
    memory, unknown = line(2, ns="n", root="c0"), line(2, ns="k:1")
    plan = plan_prune([*lost, *inner, *old, *new, *memory, *unknown, *root], keep_last=1)
    assert plan.keep == {("", "c2"), ("n:2", "c1"), ("n:2|m:3", "c9"), ("n", "c1"), ("k:1", "c1")}


def test_a_namespace_whose_task_is_not_stored_yet_stays() -> None:
    coming, lost = line(2, ns="n:1", root="c9"), line(2, ns="n:2", root="b")
    plan = plan_prune([*coming, *lost, *line(3)], keep_last=1)
    assert plan.keep == {("", "c2"), ("n:1", "c1")}


def test_only_the_namespaces_that_are_named_lose_any() -> None:
    nodes = [*line(4), *line(3, ns="a"), *line(3, ns="b"), *line(3, ns="n:1", root="c0"), *line(3, ns="n:2", root="c3")]
    plan = plan_prune(nodes, keep_last=1, namespaces=("a",))
    assert plan.drop == {("a", "c0"), ("a", "c1")}
    plan = plan_prune(nodes, keep_last=1, namespaces=[""])
    assert {ns for ns, _ in plan.drop} == {"", "n:1"}
    assert {key for key in plan.keep if key[0] == "n:2"} == {("n:2", f"c{n}") for n in range(3)}
    assert plan_prune(nodes, keep_last=1, namespaces=()).drop == frozenset()


def child(id: str, root: str, *, ns: str = "n", asks: bool = False) -> Node:
    return Node(ns=ns, id=id, enclosing={"": root}, asks=asks)


def test_what_a_child_with_thread_state_begins_with_stays_for_each_that_is_kept() -> None:
    roots = [Node(id=id) for id in ("1", "3", "5", "7")]
    children = [
        child("2a", "1"),
        child("2b", "1"),
        child("4a", "3"),
        child("4b", "3"),
        child("6a", "5"),
        child("6b", "5"),
    ]
    kept = ids(key for key in plan_prune([*roots, *children], keep_last=2).keep if key[0] == "n")
    # 5 and 7 are kept: 6a and 6b are the last two, 4b is where the child begins when 5 is run again.
    assert kept == ["4b", "6a", "6b"]
    only_newest = plan_prune([*roots, *children], keep_last=1).keep
    assert ids(only_newest) == ["6b", "7"]
    aged = plan_prune([*roots, *children], older_than=1.0, keep_last=1).keep
    assert ids(aged) == ["6b", "7"]


def test_where_a_child_asked_under_a_kept_checkpoint_stays() -> None:
    roots = [Node(id=id) for id in ("1", "3", "5")]
    for ns in ("n", "n:1"):
        children = [child("3a", "3", ns=ns), child("3b", "3", ns=ns, asks=True), child("3c", "3", ns=ns)]
        later = [child("5a", "5"), child("5b", "5")]
        keep = plan_prune([*roots, *children, *later], keep_last=2).keep
        assert {"3b", "3c"} <= {key[1] for key in keep}
        assert (ns, "3a") not in keep


def test_deleting_runs_drops_theirs_in_every_namespace() -> None:
    nodes = [*line(6), *line(3, ns="child")]
    plan = plan_delete_runs(nodes, ["run1", "unknown"])
    assert plan.drop == {("", "c2"), ("", "c3"), ("child", "c2")}
    assert plan.orphaned == {("", "c4")}
    assert plan_delete_runs(nodes, []).drop == frozenset()


def test_deleting_a_run_in_the_middle_hides_what_later_delta_values_need() -> None:
    plan = plan_delete_runs(line(6, delta="d"), ["run1"])
    assert ids(plan.hide) == ["c2", "c3"]
    assert plan.drop == frozenset()
    assert plan.orphaned == {("", "c4")}


def test_a_history_runs_from_the_snapshot_to_the_parent() -> None:
    nodes = {node.id: node for node in line(8, delta="d", snapshots=(3,))}
    history = plan_history("c6", nodes, ["d", "e"])
    assert history.writes["d"] == ("c3", "c4", "c5", "c6")
    assert history.seeds == {"d": "c3"}
    assert history.writes["e"] == tuple(f"c{n}" for n in range(7))
    assert history.wanted is None
    assert plan_history(None, nodes, ["d"]).writes == {"d": ()}


def test_a_history_asks_for_more_ancestors_only_while_it_needs_them() -> None:
    nodes = {node.id: node for node in line(8, delta="d", snapshots=(3,))[3:]}
    assert plan_history("c6", nodes, ["d"]).wanted is None
    history = plan_history("c6", nodes, ["d", "e"])
    assert history.wanted == "c2"
    assert history.writes["e"] == ("c3", "c4", "c5", "c6")


def test_a_parent_link_in_a_circle_ends() -> None:
    nodes = {"a": Node(id="a", parent="b"), "b": Node(id="b", parent="a")}
    assert plan_history("a", nodes, ["d"]).writes == {"d": ("b", "a")}
    looped = [Node(id=n.id, parent=n.parent, delta=frozenset("d")) for n in nodes.values()]
    assert ids(plan_prune(looped, keep_last=1).keep) == ["b"]


def test_a_hidden_row_names_only_the_values_it_is_kept_for() -> None:
    fields = RowFields(versions={"d": 1, "p": 1}, values={"d": 7, "p": 8, "q": b"x"}, updated=["d"], extra=b"m")
    hidden = hidden_fields(fields, {"d", "gone"})
    assert hidden == RowFields(values={"d": 7}, extra=b"m")
    assert value_ids([fields, hidden]) == {7, 8}
