"""Databases of LangGraph's releases from 0.2 on: migrated, they go on here as if they had begun here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Call
from tests.house.source import ROOT
from tests.interop.exchanged import PEER_DATABASES
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.interop.migration import migrate
from threadmark.interop.stores import open_source, open_target
from threadmark.types import Command

RELEASES = {"0_2": 1, "0_2_76": 2, "0_4": 3, "0_6": 4, "1_0": 4, "1_2": 4}
"""Each with the format of its checkpoints."""
END = ["start", "split", "outer outer", "start", "split", "before", "inner inner", "did p", "did q", "checked"]


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def migrated(release: str, tmp_path: Path) -> Any:
    target = str(tmp_path / "threads.db")
    source = open_source(str(ROOT / f"tests/wire/peer_{release}.db"), JsonPlusSerializer())
    into = open_target(target, JsonPlusSerializer())
    outcomes = list(migrate(source, into, source.thread_ids()))
    formats = {one.checkpoint["v"] for name in source.thread_ids() for one in source.thread(name).checkpoints()}
    source.close()
    into.close()
    assert {one.thread_id: one.state for one in outcomes} == dict.fromkeys(
        ("chain", "failed", "finished", "paused"), "copied"
    )
    assert sum(one.carried + one.orphans for one in outcomes) == 0
    assert formats == {RELEASES[release]}
    with SqliteSaver.from_conn_string(target) as saver:
        yield saver


def test_a_paused_thread_is_answered_and_runs_to_its_end(migrated: Any, call: Call) -> None:
    ran: list[str] = []
    builder = PEER_DATABASES.graph([])
    graph = builder.compile(checkpointer=migrated)
    saved = call(graph, "get_state", config("paused"))
    assert saved.next == ("asks", "child")
    assert saved.values["log"] == ["start", "split", "did p", "did q"]
    assert sorted(one.value for one in saved.interrupts) == ["inner?", "outer?"]
    answers = {one.id: one.value.rstrip("?") for one in saved.interrupts}
    for event in call(graph, "stream", Command(resume=answers), config("paused"), stream_mode="tasks", subgraphs=True):
        ran += [event[1]["name"]] if "input" in event[1] else []
    # The workers had finished there and are not run again, nor is the child's first node.
    assert sorted(set(ran) - {"work"}) == ["asks", "check", "child"]
    assert call(graph, "get_state", config("paused")).values["log"] == END


def test_a_failed_thread_goes_on_at_the_node_that_failed(migrated: Any, call: Call) -> None:
    graph = PEER_DATABASES.graph([]).compile(checkpointer=migrated)
    saved = call(graph, "get_state", config("failed"))
    assert saved.next == ("check",)
    assert [task.error for task in saved.tasks] == ["ValueError('down')"]
    given = saved.values["log"]
    assert call(graph, "invoke", None, config("failed"))["log"] == [*given, "checked"]


def test_a_finished_thread_takes_new_input(migrated: Any, call: Call) -> None:
    graph = PEER_DATABASES.graph([]).compile(checkpointer=migrated)
    saved = call(graph, "get_state", config("finished"))
    assert (saved.next, saved.values["log"][-1]) == ((), "checked")
    assert saved.values["note"] == {"set": {1}, "pair": [1, 2], "bytes": b"\x00\xff", "deep": [None, 1.5]}
    assert [message.id for message in saved.values["messages"]] == ["m1", "m2"]
    call(graph, "invoke", {"log": ["more"]}, config("finished"))
    assert call(graph, "get_state", config("finished")).next == ("asks", "child")


def test_a_history_reads_as_it_was_and_can_be_replayed(migrated: Any, call: Call) -> None:
    chain = PEER_DATABASES.chain().compile(checkpointer=migrated)
    history = call(chain, "get_state_history", config("chain"))
    assert [one.next for one in history] == [(), ("b",), ("a",), ("__start__",)] * 2
    assert history[0].values["log"] == ["x", "a", "b", "y", "a", "b"]
    assert call(chain, "invoke", None, history[1].config)["log"] == ["x", "a", "b", "y", "a", "b"]
    assert call(chain, "invoke", {"log": ["z"]}, config("chain"))["log"][-3:] == ["z", "a", "b"]
