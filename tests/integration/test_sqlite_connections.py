"""Every way to hand ``SqliteSaver`` a database, and what each may be used for."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver
from threadmark.errors import ColourError, SaverError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "threads.db")


def put(saver: Any, value: Any = 1, thread_id: str = "t") -> Any:
    return saver.put(config(thread_id), checkpoint({"a": value}), {"step": 0}, {"a": 1})


def in_thread(action: Any) -> Any:
    """What ``action`` returns, or raises, in another thread."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((action(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def test_the_saver_itself_comes_back_and_is_a_context_manager(path: str) -> None:
    saver = SqliteSaver.from_conn_string(path)
    put(saver)
    with saver as same:
        assert same is saver
        assert saver.get(config()) is not None
    with pytest.raises(SaverError, match="closed"):
        saver.get(config())
    saver.close()


async def test_it_is_an_async_context_manager_too(path: str) -> None:
    async with SqliteSaver.from_conn_string(path) as saver:
        await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
        assert saver.get(config()) is not None
    async with AsyncSqliteSaver.from_conn_string(path) as again:
        await again.setup()
        assert (await again.aget(config())) is not None


def uses(saver: Any) -> list[Any]:
    """Calls of every blocking operation."""
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
    return [
        lambda: put(saver),
        lambda: saver.put_writes(at, [("a", 1)], "task"),
        lambda: saver.get_tuple(config()),
        lambda: list(saver.list(None)),
        lambda: saver.delete_thread("t"),
        lambda: saver.copy_thread("t", "u"),
        lambda: saver.delete_for_runs(["run"]),
        lambda: saver.prune(["t"], keep_last=1),
        lambda: saver.get_delta_channel_history(config=at, channels=["a"]),
        saver.thread_ids,
        saver.list_threads,
    ]


@pytest.mark.parametrize("name", ["threads.db", ":memory:"])
@pytest.mark.parametrize("used", [True, False])
def test_a_connection_that_somebody_closed_says_so(tmp_path: Path, name: str, used: bool) -> None:
    conn = sqlite3.connect(name if name == ":memory:" else tmp_path / name, check_same_thread=False)
    saver = SqliteSaver(conn)
    if used:
        put(saver)
    conn.close()
    for use in (*uses(saver), lambda: SqliteSaver(conn), lambda: asyncio.run(saver.aget_tuple(config()))):
        with pytest.raises(SaverError, match="closed, or the connection that it was given is; open a new one"):
            use()


def test_a_closed_connection_of_one_thread_is_refused(path: str) -> None:
    conn = sqlite3.connect(path)
    conn.close()
    with pytest.raises(SaverError, match="the connection that it was given is; open a new one"):
        SqliteSaver(conn)


@pytest.mark.parametrize("used", [True, False])
async def test_an_aiosqlite_connection_that_somebody_closed_says_so(path: str, used: bool) -> None:
    conn = await aiosqlite.connect(path)
    saver: Any = AsyncSqliteSaver(conn)
    if used:
        await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
    await conn.close()
    for name, arguments in {
        "aput": (config(), checkpoint({"a": 1}), {}, {"a": 1}),
        "aget_tuple": (config(),),
        "adelete_thread": ("t",),
        "aprune": (["t"],),
    }.items():
        for each in (saver, AsyncSqliteSaver(conn)):
            with pytest.raises(SaverError, match="the connection that it was given is; open a new one"):
                await getattr(each, name)(*arguments)


@pytest.mark.parametrize("name", ["{path}", "sqlite:///{path}", "file:{path}", "file:{path}?cache=private"])
def test_names_of_a_file(path: str, name: str) -> None:
    with SqliteSaver.from_conn_string(name.format(path=path)) as saver:
        put(saver)
    assert Path(path).exists()
    with SqliteSaver.from_conn_string(path) as saver:
        assert saver.get(config()) is not None


@pytest.mark.parametrize("name", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_names_of_no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteSaver.from_conn_string(name) as saver:
        put(saver)
        assert in_thread(lambda: saver.get(config())) is not None
    assert list(tmp_path.iterdir()) == []


def test_a_thread_bound_connection_to_a_file_is_taken_for_its_path(path: str) -> None:
    conn = sqlite3.connect(path)
    saver = SqliteSaver(conn)
    in_thread(lambda: put(saver, 2))
    assert saver.get(config())["channel_values"] == {"a": 2}
    assert in_thread(lambda: saver.conn.execute("SELECT count(*) FROM checkpoints").fetchone()) == (1,)
    assert conn.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
    saver.close()
    conn.close()


def test_the_settings_of_a_thread_bound_connection_are_kept(path: str) -> None:
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA synchronous = NORMAL")
    with SqliteSaver(conn) as saver:
        assert saver.conn.execute("PRAGMA synchronous").fetchone() == (1,)
    conn.close()


def test_a_thread_bound_connection_in_memory_is_refused() -> None:
    conn = sqlite3.connect(":memory:")
    with pytest.raises(ValueError, match="check_same_thread=False"):
        SqliteSaver(conn)
    conn.close()


@pytest.mark.parametrize("place", [":memory:", "file"])
def test_a_shared_connection_is_used_itself(path: str, place: str) -> None:
    conn = sqlite3.connect(path if place == "file" else place, check_same_thread=False)
    saver = SqliteSaver(conn)
    assert saver.conn is conn
    in_thread(lambda: put(saver))
    assert saver.get(config()) is not None
    conn.execute("CREATE TABLE mine (x)")
    conn.execute("INSERT INTO mine VALUES (1)")
    put(saver, 2)
    assert conn.execute("SELECT count(*) FROM mine").fetchone() == (1,)
    conn.close()


def test_a_file_is_opened_for_durability(path: str) -> None:
    with SqliteSaver.from_conn_string(path) as saver:
        assert saver.conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert saver.conn.execute("PRAGMA synchronous").fetchone() == (2,)
    with SqliteSaver.from_conn_string(path, synchronous="NORMAL") as saver:
        assert saver.conn.execute("PRAGMA synchronous").fetchone() == (1,)


def test_a_superstep_is_one_transaction(path: str) -> None:
    with SqliteSaver.from_conn_string(path) as saver:
        first = put(saver)
        said: list[str] = []
        saver.conn.set_trace_callback(said.append)
        task = ("task", "", [("a", "x" * 9000)])
        saver.put_step(first, checkpoint({"a": "x" * 9000}, {"a": 2}), {}, {"a": 2}, [task])
        saver.conn.set_trace_callback(None)
    assert [s for s in said if s.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]


def test_small_steps_read_nothing_but_their_base(path: str) -> None:
    with SqliteSaver.from_conn_string(path) as saver:
        first = put(saver)
        said: list[str] = []
        saver.conn.set_trace_callback(said.append)
        saver.put_step(first, checkpoint({"a": 2}, {"a": 2}), {}, {"a": 2}, [("task", "", [("a", 2)])])
        saver.conn.set_trace_callback(None)
    assert [s.split()[0] for s in said] == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]


# -- aiosqlite -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [":memory:", "file"])
async def test_an_aiosqlite_connection_is_accepted(path: str, place: str) -> None:
    async with aiosqlite.connect(path if place == "file" else place) as conn:
        saver = AsyncSqliteSaver(conn)
        assert saver.conn is conn
        await saver.setup()
        first = await saver.aput(config(), checkpoint({"a": "x" * 5000}), {"step": 0}, {"a": 1})
        await saver.aput_writes(first, [("a", 1)], "task")
        found = [item async for item in saver.alist(config())]
        assert found[0].checkpoint["channel_values"] == {"a": "x" * 5000}
        assert found[0].pending_writes == [("task", "a", 1)]
        await saver.aprune(["t"])
        await saver.acopy_thread("t", "u")
        assert await saver.aget(config("u")) == found[0].checkpoint
        await saver.adelete_thread("t")
        assert await saver.aget(config()) is None
        assert [line.thread_id for line in await saver.alist_threads()] == ["u"]


async def test_over_aiosqlite_concurrent_calls_take_turns() -> None:
    async with aiosqlite.connect(":memory:") as conn:
        saver = AsyncSqliteSaver(conn)
        made = [saver.aput(config(str(n)), checkpoint({"n": n}), {"n": n}, {"n": 1}) for n in range(20)]
        await asyncio.gather(*made)
        assert sorted([item.metadata["n"] async for item in saver.alist(None)]) == list(range(20))


async def test_over_aiosqlite_blocking_calls_work_from_other_threads_only() -> None:
    async with aiosqlite.connect(":memory:") as conn:
        saver = AsyncSqliteSaver(conn)
        with pytest.raises(ColourError, match="starts with 'a'"):
            put(saver)
        await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
        with pytest.raises(ColourError):
            saver.get_tuple(config())
        await asyncio.to_thread(put, saver, 2)
        listed = await asyncio.to_thread(lambda: list(saver.list(config())))
        assert [item.checkpoint["channel_values"] for item in listed] == [{"a": 2}, {"a": 1}]


def test_over_aiosqlite_a_blocking_call_without_a_loop_says_so() -> None:
    async def opened() -> Any:
        conn = await aiosqlite.connect(":memory:")
        await conn.close()
        return AsyncSqliteSaver(conn)

    saver = asyncio.run(opened())
    with pytest.raises(ColourError, match="event loop"):
        saver.get_tuple(config())


@pytest.mark.parametrize("how", ["mode=ro", "immutable=1", "query_only"])
def test_a_connection_that_must_not_write_gives_a_saver_that_does_not(path: str, how: str) -> None:
    """The saver opens the file anew, since nodes run in other threads; what the connection may do stays the rule."""
    with SqliteSaver.from_conn_string(path) as saver:
        at = put(saver)
    with SqliteSaver.from_conn_string(path) as saver:  # the file is at rest
        stored = list(saver.list(None))
    conn = sqlite3.connect(path if how == "query_only" else f"file:{path}?{how}", uri=how != "query_only")
    if how == "query_only":
        conn.execute("PRAGMA query_only = ON")
    with SqliteSaver(conn) as saver:
        assert saver.get_tuple(at) == stored[0]
        with pytest.raises(SaverError, match="read-only"):
            put(saver, 2)
        assert list(saver.list(None)) == stored
    conn.close()


def test_asking_whether_a_connection_may_write_leaves_no_trace(path: str) -> None:
    with SqliteSaver.from_conn_string(path) as saver:
        put(saver)
    before = Path(path).read_bytes()
    conn = sqlite3.connect(path)
    SqliteSaver(conn).close()
    conn.close()
    with sqlite3.connect(path) as conn:
        assert "threadmark_probe" not in {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    conn.close()
    assert Path(path).read_bytes() == before


def test_what_is_no_retention_is_refused(path: str) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"Retention\(keep_last=50\)"):
        SqliteSaver.from_conn_string(path, retention=wrong)
