"""The short way of a superstep into a file: taken where nothing is in the way, else left without a trace."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import Grown, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import HeadMoved, Unavailable
from threadmark.graph import END, START, StateGraph
from threadmark.types import Send


class Flaky(sqlite3.Connection):
    """A connection on which a statement can be made to fail."""

    fails: Callable[[str], BaseException | None] = staticmethod(lambda statement: None)

    def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
        error = self.fails(statement)
        if error is not None:
            raise error
        return super().execute(statement, *args)


class Watched:
    """A saver on a file, with what its port's short way was given and said."""

    def __init__(self, path: Path, serde: Any) -> None:
        self.conn = sqlite3.connect(path, factory=Flaky, check_same_thread=False, isolation_level=None)
        self.saver = SqliteSaver(self.conn, serde=serde)
        self.said = list[bool]()
        self.before: Callable[[], object] = lambda: None
        """Called before the short way is tried."""
        port: Any = self.saver._port
        self._append = port.append
        port.append = self._watched

    def _watched(self, additions: Sequence[Any]) -> Any:
        self.before()
        self.said.append(False)
        threads = self._append(additions)
        self.said[-1] = threads is not None
        return threads

    def count(self, table: str) -> int:
        (number,) = self.conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(number)


@pytest.fixture(params=["plain", "encrypted"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    serde = EncryptedSerializer.from_keys({"k": b"k" * 32}) if request.param == "encrypted" else None
    watched = Watched(tmp_path / "threads.db", serde)
    yield watched
    watched.conn.close()


class Lines(TypedDict):
    lines: Annotated[list[str], operator.add]


def chain(saver: Any, meanwhile: Callable[[], None] = lambda: None) -> Any:
    def second(_: Lines) -> Lines:
        meanwhile()
        return {"lines": ["second" * 200]}

    builder = StateGraph(Lines)
    builder.add_node("first", lambda _: {"lines": ["first" * 200]})
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    return builder.compile(checkpointer=saver)


LINES = ["asked", "first" * 200, "second" * 200]


def test_every_superstep_takes_it(watched: Watched) -> None:
    graph, at = chain(watched.saver), config("t")
    assert graph.invoke({"lines": ["asked"]}, at, durability="sync")["lines"] == LINES
    assert watched.said == [True] * 4
    assert graph.invoke({"lines": []}, at, durability="sync")["lines"] == LINES + LINES[1:]
    assert watched.said == [True] * 8
    assert [item.values["lines"] for item in graph.get_state_history(at)][:3] == [
        LINES + LINES[1:], [*LINES, LINES[1]], LINES
    ]  # fmt: skip


def test_several_supersteps_go_in_one(watched: Watched) -> None:
    graph, at = chain(watched.saver), config("t")
    graph.invoke({"lines": []}, at, durability="sync")
    watched.said.clear()
    assert graph.invoke({"lines": []}, at, durability="async")["lines"] == LINES[1:] * 2
    assert watched.said
    assert all(watched.said)
    assert watched.count("checkpoint") == 8


def test_another_writer_s_checkpoint_is_in_the_way(watched: Watched, tmp_path: Path) -> None:
    at = config("t")
    with SqliteSaver.from_conn_string(
        str(tmp_path / "threads.db"), serde=watched.saver.serde, synchronous="OFF"
    ) as other:
        graph = chain(watched.saver, lambda: chain(other).update_state(at, {"lines": ["theirs"]}))
        with pytest.raises(HeadMoved):
            graph.invoke({"lines": []}, at, durability="sync")
        assert watched.said[-1] is False
        assert not watched.conn.in_transaction
        head = chain(other).get_state(at)
        assert head.values["lines"] == ["first" * 200, "theirs"]
        assert watched.count("checkpoint") == 4


def test_a_task_that_is_stored_already_is_merged_by_the_long_way(watched: Watched) -> None:
    grown = Grown(watched.saver, lambda target, name, *args: getattr(target, name)(*args))
    grown.put({"a": "a" * 2000})
    at = grown.put({"a": "b" * 2000})
    watched.saver.put_writes(at, [("a", "one")], "task")
    watched.said.clear()
    writer = watched.saver.open_writer(at)
    writer.add(Step(config=at, writes=[("task", "", [("a", "b" * 2000), ("b", "two")])]))
    writer.flush()
    assert watched.said == [False]
    found = watched.saver.get_tuple(at)
    assert found is not None
    assert found.pending_writes == [("task", "a", "one"), ("task", "b", "two")]


def test_open_statements_of_the_connection_s_owner_are_committed_first(watched: Watched) -> None:
    watched.conn.execute("CREATE TABLE own (x)")

    def meanwhile() -> None:
        watched.conn.execute("BEGIN")
        watched.conn.execute("INSERT INTO own VALUES (1)")

    assert chain(watched.saver, meanwhile).invoke({"lines": []}, config("t"), durability="sync")["lines"] == LINES[1:]
    assert watched.said == [True, True, True, False]
    assert not watched.conn.in_transaction
    assert watched.count("own") == 1


@pytest.mark.parametrize(
    "statement", ["BEGIN IMMEDIATE", "SELECT id, body", "INSERT OR IGNORE INTO task", "INSERT OR REPLACE"]
)
def test_a_statement_that_fails_leaves_nothing_and_the_long_way_goes_on(watched: Watched, statement: str) -> None:
    graph, at = chain(watched.saver), config("t")
    graph.invoke({"lines": []}, at, durability="sync")
    failed = list[str]()

    def once(text: str) -> BaseException | None:
        if text.startswith(statement) and not failed:
            failed.append(text)
            return sqlite3.OperationalError("database is locked")
        return None

    watched.conn.fails = once  # type: ignore[attr-defined]
    watched.said.clear()
    assert graph.invoke({"lines": []}, at, durability="sync")["lines"] == LINES[1:] * 2
    assert failed
    assert False in watched.said
    assert True in watched.said
    assert watched.count("checkpoint") == 8


def test_a_commit_that_fails_is_an_error_and_stores_nothing(watched: Watched) -> None:
    def full(statement: str) -> BaseException | None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        return error if statement == "COMMIT" else None

    def meanwhile() -> None:
        watched.conn.fails = full  # type: ignore[attr-defined]

    at = config("t")
    with pytest.raises(Unavailable, match="disk I/O error"):
        chain(watched.saver, meanwhile).invoke({"lines": []}, at, durability="sync")
    assert not watched.conn.in_transaction
    watched.conn.fails = lambda _: None  # type: ignore[attr-defined]
    assert watched.count("checkpoint") == 3
    assert chain(watched.saver).invoke(None, at, durability="sync")["lines"] == LINES[1:]


def test_an_interruption_leaves_nothing(watched: Watched) -> None:
    graph, at = chain(watched.saver), config("t")
    graph.invoke({"lines": []}, at, durability="sync")
    watched.conn.fails = lambda text: KeyboardInterrupt() if text.startswith("INSERT OR REPLACE") else None  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"lines": []}, at, durability="sync")
    assert not watched.conn.in_transaction
    watched.conn.fails = lambda _: None  # type: ignore[attr-defined]
    assert watched.count("checkpoint") == 4


class Doubled(TypedDict):
    found: Annotated[list[int], operator.add]


def test_fan_outs_take_it_too(watched: Watched) -> None:
    builder = StateGraph(Doubled)
    builder.add_node("spread", lambda _: {"found": []})
    builder.add_node("double", lambda number: {"found": [2 * number]})
    builder.add_edge(START, "spread")
    builder.add_conditional_edges("spread", lambda _: [Send("double", number) for number in range(40)])
    graph = builder.compile(checkpointer=watched.saver)
    found = graph.invoke({"found": []}, config("t"), durability="sync")["found"]
    assert found == [2 * number for number in range(40)]
    assert watched.said[-1] is True
    assert watched.count("task") >= 40


def theirs(watched: Watched, act: Callable[[Any], object]) -> None:
    """What another process does with the same file."""
    (path,) = watched.conn.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
    with SqliteSaver.from_conn_string(path, serde=watched.saver.serde, synchronous="OFF") as other:
        act(other)


def test_a_thread_that_another_has_begun_meanwhile_is_in_the_way(watched: Watched) -> None:
    at = config("t")

    def begin() -> None:
        watched.before = lambda: None
        theirs(watched, lambda other: chain(other).update_state(at, {"lines": ["theirs"]}))

    watched.before = begin
    with pytest.raises(HeadMoved):
        chain(watched.saver).invoke({"lines": []}, at, durability="sync")
    assert watched.said == [False]
    assert watched.count("thread") == 1
    assert chain(watched.saver).get_state(at).values["lines"] == ["theirs"]


def test_a_thread_that_is_deleted_meanwhile_is_not_gone_on_with(watched: Watched) -> None:
    at = config("t")
    graph = chain(watched.saver, lambda: theirs(watched, lambda other: other.delete_thread("t")))
    with pytest.raises(HeadMoved):
        graph.invoke({"lines": []}, at, durability="sync")
    assert watched.said == [True, True, True, False]
    assert watched.count("checkpoint") == 0


def test_writes_to_a_thread_that_is_deleted_meanwhile_find_no_thread(watched: Watched) -> None:
    grown = Grown(watched.saver, lambda target, name, *args: getattr(target, name)(*args))
    at = grown.put({"a": 1})
    theirs(watched, lambda other: other.delete_thread("t"))
    watched.said.clear()
    watched.saver.put_writes(at, [("a", 2)], "task")
    assert watched.said == [False]
    assert watched.saver.get_tuple(at) is None


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_graphs_in_graphs_take_it(watched: Watched, durability: Any) -> None:
    inner = chain(None)
    builder = StateGraph(Lines)
    builder.add_node("inner", inner)
    builder.add_node("last", lambda _: {"lines": ["last"]})
    builder.add_edge(START, "inner")
    builder.add_edge("inner", "last")
    graph = builder.compile(checkpointer=watched.saver)
    found = graph.invoke({"lines": ["asked"]}, config("t"), durability=durability)
    assert found["lines"] == ["asked", *LINES, "last"]
    assert watched.said
    assert all(watched.said)
    with SqliteSaver.from_conn_string(":memory:") as other:
        again = builder.compile(checkpointer=other)
        again.invoke({"lines": ["asked"]}, config("t"), durability=durability)
        kept, expected = ([item.values for item in each.get_state_history(config("t"))] for each in (graph, again))
        assert kept == expected
