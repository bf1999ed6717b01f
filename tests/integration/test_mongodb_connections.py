"""Connections that fail, loops that end, processes that fork; and that no password is ever shown."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from tests.services.mongodb import Mongo, mongodb
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, filled
from threadmark.checkpoint.mongodb import AsyncMongoDBSaver, MongoDBSaver, publish
from threadmark.checkpoint.open import open_saver
from threadmark.errors import ColourError, HeadMoved, SaverError, Unavailable

MODES: dict[str, dict[str, Any]] = {"transactions": {}, "published last": {"transactions": False}}
call = Caller("sync", lambda result: result)


@pytest.fixture(scope="module")
def faulty() -> Iterator[Mongo]:
    """A server of ours, which fails when it is told to."""
    with mongodb() as mongo:
        yield mongo


@contextmanager
def failing(mongo: Mongo, *commands: str, times: int = 1, **how: Any) -> Iterator[None]:
    """The next of these commands fail."""
    point = {"configureFailPoint": "failCommand", "mode": {"times": times}}
    mongo.client.admin.command({**point, "data": {"failCommands": list(commands), **how}})
    try:
        yield
    finally:
        mongo.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


@contextmanager
def opened(mongo: Mongo, **options: Any) -> Iterator[Any]:
    with mongo.database() as name, MongoDBSaver.from_conn_string(mongo.uri, name, **options) as saver:
        yield saver


def stepped(grown: Grown, number: int) -> None:
    """A superstep that expects the head that it knows."""
    at = grown.config["configurable"]["checkpoint_id"]
    made = checkpoint({"n": number}, {"n": f"{number + 50:032}"})
    tasks = [(f"step {number}", "", [("n", number)])]
    grown.config = grown.saver.put_step(grown.config, made, {"step": number}, {"n": ""}, tasks, expected_head=at)


FAULTS: dict[str, dict[str, Any]] = {
    "write conflict": {"commands": ("update",), "errorCode": 112, "errorLabels": ["TransientTransactionError"]},
    "no such transaction": {
        "commands": ("commitTransaction",), "errorCode": 251, "errorLabels": ["TransientTransactionError"]
    },
    "not primary": {"commands": ("update",), "errorCode": 10107},
    "shutting down": {"commands": ("aggregate",), "errorCode": 91},
    "answer lost": {"commands": ("update",), "closeConnection": True},
    "answer to a commit lost": {"commands": ("commitTransaction",), "closeConnection": True, "times": 2},
    "commit not known": {
        "commands": ("commitTransaction",), "errorCode": 50, "times": 3,
        "errorLabels": ["UnknownTransactionCommitResult"],
    },
    "question lost": {"commands": ("aggregate",), "closeConnection": True},
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_stores_a_step_once(faulty: Mongo, mode: str, fault: str) -> None:
    how = dict(FAULTS[fault])
    commands = how.pop("commands")
    with opened(faulty, **MODES[mode]) as saver:
        grown = filled(saver, call, count=1)
        for number in range(2):
            with failing(faulty, *commands, **how):
                try:
                    stepped(grown, number)
                except Unavailable:  # nothing was stored, and the same call may be made again
                    assert fault in ("not primary", "shutting down", "question lost", "answer lost")
                    stepped(grown, number)
        assert [item.metadata["step"] for item in saver.list(config())] == [1, 0, -1]
        assert saver.collection.count_documents({"kind": "checkpoint"}) == 3


@pytest.mark.parametrize("arrived", [True, False])
def test_an_answer_that_gets_lost_is_looked_for(faulty: Mongo, arrived: bool) -> None:
    """Without transactions: a change that counts is not made twice, one that does not is made to fail."""
    with opened(faulty, transactions=False) as saver:
        grown = filled(saver, call, count=1)
        driver = saver._port.driver
        write, calls = driver.write, list[int]()

        async def lost(operations: Any, session: Any = None) -> Any:
            calls.append(len(operations))
            if len(calls) == 1:
                if arrived:
                    await write(operations, session)
                late.append(operations)
                from pymongo.errors import AutoReconnect

                raise AutoReconnect("connection closed")
            return await write(operations, session)

        late: list[Any] = []
        driver.write = lost
        stepped(grown, 0)
        driver.write = write
        if not arrived:  # the first attempt arrives when nobody waits for it any more
            saver.collection.bulk_write(late[0])
        stepped(grown, 1)
        assert [item.metadata["step"] for item in saver.list(config())] == [1, 0, -1]
        assert saver.get_tuple(grown.config).parent_config is not None


def test_a_commit_that_nobody_hears_of_ends_as_unavailable(faulty: Mongo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_PATIENCE", 0.3)
    with opened(faulty) as saver:
        grown = filled(saver, call, count=1)
        unknown = {"errorCode": 50, "errorLabels": ["UnknownTransactionCommitResult"]}
        with failing(faulty, "commitTransaction", times=1000, **unknown), pytest.raises(Unavailable):
            stepped(grown, 0)


def test_two_writers_who_expect_the_same_head(faulty: Mongo) -> None:
    for mode in MODES.values():
        with opened(faulty, **mode) as saver:
            grown = filled(saver, call, count=1)
            head = grown.config["configurable"]["checkpoint_id"]
            from threading import Barrier, Thread

            start, won, lost = Barrier(4), list[int](), list[int]()

            def write(number: int) -> None:
                start.wait()  # noqa: B023
                made = checkpoint({"n": number}, {"n": f"{number + 60:032}"})
                try:
                    saver.put(grown.config, made, {}, {"n": ""}, expected_head=head)  # noqa: B023
                    won.append(number)  # noqa: B023
                except HeadMoved:
                    lost.append(number)  # noqa: B023

            threads = [Thread(target=write, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (len(won), len(lost)) == (1, 3)
            assert saver.get(config())["channel_values"] == {"n": won[0]}


# -- what cannot be reached, and what must not be shown --------------------------------------------------------------

SECRET = "s3cret-w0rd"


def test_no_server_is_unavailable_and_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "threadmark")
    uri = f"mongodb://user:{SECRET}@127.0.0.1:9/threads?serverSelectionTimeoutMS=50&directConnection=true"
    with open_saver(uri) as saver:
        for operation in (
            lambda: saver.get(config()),
            lambda: saver.put(config(), checkpoint({"a": 1}), {}, {}),
            saver.setup,
            lambda: saver.delete_thread("t"),
        ):
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9/threads could not be reached") as caught:
                operation()
            assert caught.value.__cause__ is not None
            assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert SECRET not in repr(saver) + str(saver._port.store.settings)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "uri",
    [
        f"mongodb://user:{SECRET}@/x",
        f"mongodb://us:er:{SECRET}@host",
        f"mongodb://user:{SECRET}%@host",
        f"mongodb://user:{SECRET}@host:port",
        f"mongodb://user:{SECRET}@one,two/?directConnection=true",
        f"postgres://user:{SECRET}@host",
    ],
)
def test_a_uri_that_is_none_says_so_without_its_password(uri: str) -> None:
    for kind in (MongoDBSaver, AsyncMongoDBSaver):
        with pytest.raises(ValueError) as caught:
            kind.from_conn_string(uri)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_who_is_not_let_in_is_told_so() -> None:
    with mongodb("--auth") as mongo:
        uri = mongo.uri.replace("://", f"://nobody:{SECRET}@")
        with MongoDBSaver.from_conn_string(uri) as saver, pytest.raises(SaverError, match="let us") as caught:
            saver.get(config())
        assert not isinstance(caught.value, Unavailable)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_closed_saver_says_so(faulty: Mongo) -> None:
    with opened(faulty) as saver:
        saver.put(config(), checkpoint({"a": 1}), {}, {})
        saver.close()
        saver.close()
        with pytest.raises(SaverError, match="closed"):
            saver.get(config())


def test_more_than_a_document_may_hold_is_refused_before_anything_is_stored(faulty: Mongo) -> None:
    for mode in MODES.values():
        with opened(faulty, **mode) as saver:
            with pytest.raises(SaverError, match="no document"):
                saver.put(config(), checkpoint({"a": 1}), {"run_id": "x" * (17 << 20)}, {})
            assert saver.get(config()) is None


# -- event loops and forks -------------------------------------------------------------------------------------------


# Connections of a loop that has ended can only be left to the collector, which complains.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_loop_after_another(faulty: Mongo) -> None:
    with faulty.database() as name:
        three_loops(AsyncMongoDBSaver.from_conn_string(faulty.uri, name))
        gc.collect()


def three_loops(saver: AsyncMongoDBSaver) -> None:
    async def use(number: int) -> Any:
        await saver.setup()
        await saver.aput(config(), checkpoint({"n": number}), {}, {})
        found = await saver.aget(config())
        return found["channel_values"] if found else None

    assert [asyncio.run(use(number)) for number in range(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]
    with pytest.raises(ColourError, match="event loop"):
        saver.get(config())
    asyncio.run(saver.aclose())


def test_a_client_of_another_loop_is_refused(faulty: Mongo) -> None:
    async def use(saver: Any) -> Any:
        return await saver.aget(config())

    async def first() -> Any:
        client: Any = AsyncMongoClient(faulty.uri)
        saver = AsyncMongoDBSaver(client, "nothing")
        assert await use(saver) is None
        await saver.aclose()
        assert (await client.admin.command("ping"))["ok"] == 1
        await client.close()
        return saver

    saver = asyncio.run(first())
    with pytest.raises(ColourError, match="another event loop"):
        asyncio.run(use(saver))


def test_many_tasks_of_one_loop_on_one_thread(faulty: Mongo) -> None:
    async def use(name: str) -> None:
        async with AsyncMongoDBSaver.from_conn_string(faulty.uri, name) as saver:
            at = await saver.aput(config(), checkpoint({"n": 1}), {}, {})
            await asyncio.gather(*(saver.aput_writes(at, [("n", n)], f"{n:03}") for n in range(40)))
            found = await saver.aget_tuple(at)
            assert found is not None
            assert found.pending_writes == [(f"{n:03}", "n", n) for n in range(40)]

    with faulty.database() as name:
        asyncio.run(use(name))


FORK = """
import os, sys, warnings
from threadmark.checkpoint.mongodb import MongoDBSaver
from threadmark.checkpoint.conformance.kit import checkpoint, config

warnings.simplefilter("ignore")  # the driver's, that clients of a parent are not to be used: they are not
uri, name = sys.argv[1:]
with MongoDBSaver.from_conn_string(uri, name) as saver:
    saver.put(config("parent"), checkpoint({"n": 1}), {}, {})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            saver.put(config("child"), checkpoint({"n": 2}), {}, {})
            assert saver.get(config("parent"))["channel_values"] == {"n": 1}
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    saver.put(config("parent"), checkpoint({"n": 3}), {}, {})
    print(saver.thread_ids())
"""


def test_parent_and_child_go_on_after_a_fork(faulty: Mongo) -> None:
    with faulty.database() as name:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FORK), faulty.uri, name],
            capture_output=True, text=True, check=False, env={**os.environ},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "['child', 'parent']\n"), done.stderr


def test_without_the_driver_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['pymongo'] = None; import threadmark.checkpoint.mongodb"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'threadmark[mongodb]'" in done.stderr
