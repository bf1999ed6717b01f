"""Threads go from every store to every other, whole; and a migration that is killed goes on to the same end."""

from __future__ import annotations

import json
import operator
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.house.source import ROOT
from tests.interop.all_savers import url_of
from tests.interop.exchanged import PEER_DATABASES
from tests.interop.test_migrate import STRICT, copied, states
from tests.interop.test_peer_releases import END
from tests.wire.peer_copies import onto_mongodb, onto_redis
from threadmark.channels import DeltaChannel
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.records import HIDDEN
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.doctor import doctor
from threadmark.graph import START, StateGraph
from threadmark.interop.migration import migrate
from threadmark.interop.own_store import steps
from threadmark.interop.stores import open_source, open_target
from threadmark.types import Command, Send, interrupt

BACKENDS = ("sqlite", "postgres", "redis", "mongodb", "cosmosdb")
Place = Callable[[str], str]
_numbers = count(1)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    deltas: Annotated[list[str], DeltaChannel(lambda log, writes: [*log, *(one for each in writes for one in each)])]
    item: str


def say(word: str) -> Any:
    return lambda state: {"log": [word], "deltas": [word]}


def graph() -> Any:
    """Workers by ``Send``, a question in a graph within a graph, delta channels at both levels."""
    inner = StateGraph(State)
    inner.add_node("before", say("before"))
    inner.add_node("asks", lambda state: {"log": [interrupt("inner?")]})
    inner.add_edge(START, "before")
    inner.add_edge("before", "asks")
    outer = StateGraph(State)
    outer.add_node("first", say("first"))
    outer.add_node("work", lambda state: {"log": [f"did {state['item']}"], "deltas": [state["item"]]})
    outer.add_node("child", inner.compile())
    outer.add_edge(START, "first")
    outer.add_conditional_edges("first", lambda state: [Send("work", {"item": "p"}), "child"])
    return outer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A thread with a fork whose tips are all open, and one that has finished."""
    path = str(tmp_path_factory.mktemp("made") / "made.db")
    with SqliteSaver.from_conn_string(path) as saver:
        app = graph().compile(checkpointer=saver)
        for thread in ("open", "finished"):
            at: Any = {"configurable": {"thread_id": thread}}
            app.invoke({"log": ["a"], "deltas": ["a"]}, at)
        app.invoke(Command(resume="answer"), at)
        at = {"configurable": {"thread_id": "open"}}
        early = next(one for one in app.get_state_history(at) if one.next == ("first",))
        app.update_state(early.config, {"log": ["edited"], "deltas": ["edited"]}, as_node="first")
        app.invoke(None, at)
        assert app.get_state(at).next == ("child",)
    return path


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The name of a store of a backend that is not there yet."""
    gone: list[Any] = []

    def named(backend: str) -> str:
        if backend == "sqlite":
            return str(tmp_path / f"{next(_numbers)}.db")
        if backend == "postgres":
            server = request.getfixturevalue("postgres_server")
            database = server.database()
            gone.append(lambda: server.drop(database))
            return str(server.url(database))
        if backend == "redis":
            server = request.getfixturevalue("redis_with_json")
            number = next(_numbers) % 16
            with server.client() as client:
                client.select(number)
                client.flushdb()
            return f"redis://127.0.0.1:{server.port}/{number}"
        if backend == "mongodb":
            mongo = request.getfixturevalue("mongodb")
            database = f"pairs{os.getpid()}_{next(_numbers)}"
            gone.append(lambda: mongo.client.drop_database(database))
            return str(mongo.uri.replace("/?", f"/{database}?"))
        return url_of(request.getfixturevalue("cosmos"))

    yield named
    for drop in gone:
        drop()


@pytest.mark.parametrize("source", BACKENDS)
def test_a_thread_goes_from_every_store_of_ours_to_every_other(
    source: str, made: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    first = place(source)
    assert states(copied(made, first, STRICT)) == {"copied"}
    doctor(first, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["threads"], told["unreadable"]) == (2, 0)
    assert {one["thread"]: one["stands"] for one in told["by_thread"]} == {"open": "asks", "finished": "finished"}
    assert sum(one["size_now"] for one in told["by_thread"]) > 0
    for backend in BACKENDS:
        target = place(backend)
        assert states(copied(first, target, STRICT)) == {"copied"}
        assert states(copied(made, target, STRICT)) == {"there already"}
        with open_saver(target, serde=STRICT) as saver:
            app, at = graph().compile(checkpointer=saver), config("open")
            asked = app.get_state(at)
            assert (asked.next, [one.value for one in asked.interrupts]) == (("child",), ["inner?"])
            ended = app.invoke(Command(resume="answer"), at)
            assert ended["log"] == ["a", "edited", "a", "edited", "before", "answer", "did p"]
            assert ended["deltas"] == ["a", "edited", "a", "edited", "before", "p"]


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A thread whose delta channel is rebuilt from checkpoints that nobody sees."""
    path = str(tmp_path_factory.mktemp("pruned") / "pruned.db")
    with SqliteSaver.from_conn_string(path) as saver:
        app = graph().compile(checkpointer=saver)
        app.invoke({"log": ["a"], "deltas": ["a"]}, config("pruned"))
        saver.prune(["pruned"])
        app.invoke(Command(resume="answer"), config("pruned"))
    return path


def _told(saver: Any) -> Any:
    app = graph().compile(checkpointer=saver)
    return [(one.config, one.parent_config, one.next, one.values) for one in app.get_state_history(config("pruned"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thread_that_was_pruned_around_a_delta_channel_goes_along(backend: str, pruned: str, place: Place) -> None:
    target, back = place(backend), place("sqlite")
    assert states(copied(pruned, target, STRICT)) == {"copied"}
    assert states(copied(pruned, target, STRICT)) == {"there already"}
    assert states(copied(target, back, STRICT)) == {"copied"}
    told = []
    for name in (pruned, target, back):
        with open_saver(name, serde=STRICT) as saver:
            told.append(_told(saver))
            hidden = saver._drive(_unseen(saver._port))
        assert hidden > 0
    assert told[0] == told[1] == told[2]
    assert told[0][0][3]["deltas"] == ["a", "first", "a", "first", "before", "p"]
    [outcome] = copied(target, f"langgraph+sqlite:///{place('sqlite')}", STRICT)
    assert outcome.state == "failed"
    assert "only a store of ours takes this thread" in outcome.problems[0]


async def _unseen(port: Any) -> int:
    async with port.read() as view:
        thread = await view.thread("pruned")
        return sum(1 for row in await view.every_checkpoint(thread) if row.flags & HIDDEN)


def test_one_that_was_stopped_before_it_was_hidden_is_made_anew(pruned: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    with closing(open_source(pruned, STRICT)) as source, SqliteSaver.from_conn_string(target) as saver:
        rows = source.thread("pruned")
        writer = saver.open_writer(config("pruned"))
        for step in steps(rows):
            writer.add(step)
        writer.flush()
        assert saver._drive(_unseen(saver._port)) == 0
    assert states(copied(pruned, target, STRICT)) == {"copied"}


# -- from LangGraph's --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres", "redis", "mongodb"])
def peers(request: pytest.FixtureRequest, place: Place) -> str:
    """A store of LangGraph's with threads in all states."""
    golden, kind = str(ROOT / "tests/wire/peer_1_2.db"), request.param
    if kind == "sqlite":
        return golden
    name = place(kind)
    if kind == "postgres":
        assert states(copied(golden, f"langgraph+{name}", STRICT)) == {"copied"}
    elif kind == "redis":
        number = int(name.rpartition("/")[2])
        with request.getfixturevalue("redis_with_json").client() as client:
            client.select(number)
            onto_redis(client, "0_5_2")
    else:
        client = request.getfixturevalue("mongodb").client
        onto_mongodb(client[name.rpartition("/")[2].partition("?")[0]], "0_5_1")
    return f"langgraph+{name}"


def test_langgraphs_threads_go_to_every_store_of_ours(
    peers: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(peers, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["threads"], told["unreadable"]) == (4, 0)
    for backend in BACKENDS:
        target = place(backend)
        assert states(copied(peers, target, STRICT)) == {"copied"}
        assert states(copied(peers, target, STRICT)) == {"there already"}
        with open_saver(target, serde=STRICT) as saver:
            app = PEER_DATABASES.graph([]).compile(checkpointer=saver)
            asked = app.get_state(config("paused"))
            answers = {one.id: one.value.rstrip("?") for one in asked.interrupts}
            assert app.invoke(Command(resume=answers), config("paused"))["log"] == END


# -- killed ------------------------------------------------------------------------------------------------------------

THREADS, CHECKPOINTS = 60, 4


@contextmanager
def _many(path: Path) -> Iterator[str]:
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        for number in range(THREADS):
            writer = saver.open_writer(config(f"{number:03}"))
            at = config(f"{number:03}")
            for step in range(CHECKPOINTS):
                one = checkpoint({"v": ["word"] * 50 + [step]}, {"v": step}, id=f"{step:04}")
                at = saver.put(at, one, {}, {"v": step})
                saver.put_writes(at, [("v", [step])], "task")
            writer.flush()
    yield str(path)


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "redis"), ("redis", "sqlite")])
def test_a_killed_migration_goes_on_to_the_same_end(first: str, second: str, place: Place, tmp_path: Path) -> None:
    source, target = place(first), place(second)
    with _many(tmp_path / "many.db") as many:
        assert states(copied(many, source, STRICT)) == {"copied"}
    kills = 0
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-m", "threadmark", "migrate", source, target, "--json"],
                                   stdout=subprocess.DEVNULL)  # fmt: skip
        before, deadline = len(_there(target)), time.monotonic() + 60
        while len(_there(target)) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.random() * 0.05)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        assert set(_there(target).values()) <= {CHECKPOINTS}, "a thread is there by half"
    assert kills > 0
    with closing(open_source(source, STRICT)) as read, closing(open_target(target, STRICT)) as written:
        outcomes = list(migrate(read, written, read.thread_ids()))
        assert states(outcomes) <= {"copied", "there already"}
        assert states(list(migrate(read, written, read.thread_ids()))) == {"there already"}
    assert len(_there(target)) == THREADS


def _there(name: str) -> dict[str, int]:
    """The threads of a store, and how many checkpoints each has."""
    if "://" not in name and not Path(name).exists():
        return {}
    with open_saver(name, serde=STRICT) as saver:
        return {one.thread_id: one.checkpoints for one in saver.list_threads()}
