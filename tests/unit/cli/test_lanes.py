"""The tree beside a history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from threadmark.cli.lanes import DOT, draw


def drawn(*nodes: tuple[str, str | None]) -> list[str]:
    return [f"{line.graph}  {line.id}" if line.id else line.graph for line in draw(nodes)]


def test_a_straight_history_is_a_line() -> None:
    assert drawn(("c", "b"), ("b", "a"), ("a", None)) == ["●  c", "●  b", "●  a"]


def test_a_branch_runs_beside_the_other_and_meets_it_at_their_parent() -> None:
    history = ("d", "c"), ("c", "a"), ("b", "a"), ("a", None)
    assert drawn(*history) == ["●  d", "●  c", "│ ●  b", "├─╯", "●  a"]


def test_three_branches_meet_in_one_line() -> None:
    history = ("d", "a"), ("c", "a"), ("b", "a"), ("a", None)
    assert drawn(*history) == ["●  d", "│ ●  c", "│ │ ●  b", "├─┴─╯", "●  a"]


def test_a_branch_that_goes_on_is_crossed_not_joined() -> None:
    history = ("e", "b"), ("d", "a"), ("c", "b"), ("b", "a"), ("a", None)
    assert drawn(*history) == ["●  e", "│ ●  d", "│ │ ●  c", "├─┼─╯", "● │  b", "├─╯", "●  a"]


def test_a_parent_that_is_not_listed_leaves_its_branch_open() -> None:
    assert drawn(("c", "gone"), ("b", "a"), ("a", None)) == ["●  c", "│ ●  b", "│ ●  a"]


def test_a_root_of_its_own_takes_a_free_lane() -> None:
    assert drawn(("c", None), ("b", "a"), ("a", None)) == ["●  c", "●  b", "●  a"]


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str | None]]:
    """Nodes newest first, each with a parent that comes later, or none."""
    count = draw(st.integers(1, 30))
    parents = [draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None for number in range(count)]
    nodes = [(str(number), None if parent is None else str(parent)) for number, parent in enumerate(parents)]
    return nodes[::-1]


@given(trees())
def test_every_checkpoint_is_drawn_once_with_one_dot(tree: list[tuple[str, str | None]]) -> None:
    lines = list(draw(tree))
    assert [line.id for line in lines if line.id] == [id for id, _ in tree]
    assert all(line.graph.count(DOT) == (line.id is not None) for line in lines)
