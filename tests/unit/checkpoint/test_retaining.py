"""``Retention`` given to a saver: applied while graphs run, rarely, and never to what they stand on."""

from __future__ import annotations

import asyncio
import operator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from threadmark import ids
from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def graph_over(saver: Any, loops: int) -> Any:
    """A child that runs many supersteps and asks at its end, one that keeps its state on the thread, and a loop."""

    def ask(state: State) -> Any:
        return {"log": [interrupt("what?")]}

    def looped(times: int) -> StateGraph:
        builder = StateGraph(State).add_node("step", lambda state: {"log": ["step"]})
        builder.add_node("ask", ask)
        builder.add_conditional_edges("step", lambda s: "ask" if s["log"].count("step") % times == 0 else "step")
        return builder.add_edge(START, "step")

    def again(state: State) -> str:
        return "loop" if state["log"].count("loop") % loops else "__end__"

    child = looped(loops).compile()
    kept = looped(loops).compile(checkpointer=True)
    builder = StateGraph(State).add_node("child", child).add_node("kept", kept)
    builder.add_node("loop", lambda state: {"log": ["loop"]})
    builder.add_edge(START, "child").add_edge("child", "kept").add_edge("kept", "loop")
    return builder.add_conditional_edges("loop", again).compile(checkpointer=saver)


def spaces(saver: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in saver.list(config(ns=None)):
        ns = item.config["configurable"]["checkpoint_ns"].partition(":")[0]
        found[ns] = found.get(ns, 0) + 1
    return found


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("colour", ["blocking", "awaited"])
def test_a_run_ends_as_it_would_without_and_the_thread_stays_small(
    kind: str, durability: Any, colour: str, tmp_path: Path
) -> None:
    def ended(saver: Any) -> Any:
        graph = graph_over(saver, 12)
        for entered in ({"log": ["in"]}, Command(resume="one"), Command(resume="two"), {"log": ["more"]}):
            if colour == "awaited":
                told = asyncio.run(graph.ainvoke(entered, config(), durability=durability, recursion_limit=60))
            else:
                told = graph.invoke(entered, config(), durability=durability, recursion_limit=60)
        state = graph.get_state(config())
        return told["log"], state.next, [one.value for one in state.interrupts]

    keep = Retention(keep_last=3)
    path = str(tmp_path / "threads.db")
    plain: Any = InMemorySaver() if kind == "memory" else SqliteSaver.from_conn_string(":memory:")
    tidy: Any = (
        InMemorySaver(retention=keep) if kind == "memory" else SqliteSaver.from_conn_string(path, retention=keep)
    )
    with plain, tidy:
        assert ended(tidy) == ended(plain)
        if durability != "exit":
            assert max(spaces(plain).values()) > 12
        assert all(count <= 2 * 3 + 3 for count in spaces(tidy).values()), spaces(tidy)


def put(saver: Any, at: Any, number: int, **more: Any) -> Any:
    return saver.put(at, checkpoint({"n": number}, {"n": number + 1}, **more), {"step": number}, {"n": number + 1})


def left(saver: Any) -> int:
    return len(list(saver.list(config())))


@pytest.mark.parametrize("reopened", [False, True])
def test_it_looks_rarely_and_prunes_at_twice_the_bound(tmp_path: Path, reopened: bool) -> None:
    path, counts, looks = str(tmp_path / "threads.db"), [], list[str]()

    def opened() -> SqliteSaver:
        return SqliteSaver.from_conn_string(path, synchronous="OFF", retention=Retention(keep_last=5))

    at, saver = config(), opened()
    for number in range(60):
        if reopened and number % 7 == 3:  # what another process would count
            saver.close()
            saver = opened()
        saver.conn.set_trace_callback(looks.append)
        at = put(saver, at, number)
        saver.conn.set_trace_callback(None)
        counts.append(left(saver))
    saver.close()
    assert max(counts) == 11 - 1, counts
    assert min(counts[15:]) == 5, counts
    deletes = [text for text in looks if text.startswith("DELETE FROM checkpoint")]
    assert 0 < len(deletes) < 60


def test_by_age_alone() -> None:
    with SqliteSaver.from_conn_string(":memory:", retention=Retention(older_than=timedelta(hours=1))) as saver:
        at, start = config(), datetime.now(UTC) - timedelta(hours=2)
        for number in range(130):  # the first 110 are two hours old, by their ids too
            made = start + timedelta(seconds=number) if number < 110 else datetime.now(UTC)
            id = f"{ids.first_at(made.timestamp())}-8001-{number:012x}"
            at = put(saver, at, number, id=id, ts=made.isoformat())
        assert 20 <= left(saver) <= 100
    with SqliteSaver.from_conn_string(":memory:", retention=Retention(older_than=timedelta(hours=1))) as saver:
        at = config()
        for number in range(130):
            at = put(saver, at, number)
        assert left(saver) == 130


def test_only_the_namespaces_that_it_names() -> None:
    with SqliteSaver.from_conn_string(":memory:", retention=Retention(keep_last=2, namespaces=("child",))) as saver:
        for ns in ("", "child"):
            at = config(ns=ns)
            for number in range(30):
                at = put(saver, at, number)
        assert left(saver) == 30
        assert len(list(saver.list(config(ns="child")))) <= 4


def test_what_goes_wrong_is_logged_and_the_step_is_stored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: Any, **__: Any) -> None:
        raise OSError("out of luck")

    monkeypatch.setattr("threadmark.checkpoint.retaining.reduce", failing)
    with SqliteSaver.from_conn_string(":memory:", retention=Retention(keep_last=2)) as saver:
        at = config()
        for number in range(9):
            at = put(saver, at, number)
        assert left(saver) == 9
    assert "thread 't' could not be pruned and is as it was" in caplog.text
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["out of luck"] * 2


def test_ids_sort_around_a_moment() -> None:
    now = datetime.now(UTC).timestamp()
    made = ids.checkpoint_id(1)
    assert ids.first_at(now - 5) < made < ids.first_at(now + 5)
