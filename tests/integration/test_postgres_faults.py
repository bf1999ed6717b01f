"""Networks and servers that fail under ``PostgresSaver``: nothing is lost, half stored, or stored twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Call
from tests.services.postgres import Postgres, postgres
from tests.services.proxy import Proxy, proxy
from tests.sizes import sized
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import HeadMoved, Unavailable

WRITES = [("task", "~p", [("n", 1), ("text", "x" * 400)])]
WRITTEN = [("task", "n", 1), ("task", "text", "x" * 400)]


class Line:
    """A saver that reaches its server through a proxy, with one checkpoint on a thread; everything in one colour."""

    def __init__(self, server: Postgres, between: Proxy, call: Call, **options: Any) -> None:
        self.server, self.between, self.call = server, between, call
        self.database = server.database()
        kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
        self.saver = kind.from_conn_string(server.url(self.database, port=between.port), **options)
        self.at = self.put({"n": 0}, config())

    def put(self, values: dict[str, Any], at: Any, writes: Any = (), **more: Any) -> Any:
        made = checkpoint(values, dict.fromkeys(values, f"{1 + values.get('n', 0):032}"))
        if writes:
            return self.call(self.saver, "put_step", at, made, {}, made["channel_versions"], writes, **more)
        return self.call(self.saver, "put", at, made, {}, made["channel_versions"], **more)

    def seen(self) -> list[tuple[Any, Any]]:
        """What a fresh reader beside the proxy finds, newest first."""
        with PostgresSaver.from_conn_string(self.server.url(self.database)) as reader:
            return [(item.checkpoint["channel_values"]["n"], item.pending_writes) for item in reader.list(config())]

    def kill(self) -> None:
        """Let the server end every connection to the database, and wait until it has."""
        killing = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.database}'"
        with psycopg.connect(self.server.url(), autocommit=True) as conn:
            while conn.execute(killing.encode()).fetchall():
                pass

    def close(self) -> None:
        self.call(self.saver, "close")
        self.server.drop(self.database)


@pytest.fixture
def line(postgres_server: Postgres, call: Call) -> Iterator[Line]:
    with proxy(postgres_server.port) as between:
        made = Line(postgres_server, between, call)
        yield made
        made.close()


# -- round trips -------------------------------------------------------------------------------------------------------


def test_a_superstep_is_one_round_trip(line: Line) -> None:
    before = line.between.asked
    at = line.put({"n": 1}, line.at, WRITES, expected_head=line.at["configurable"]["checkpoint_id"])
    line.put({"n": 2, "more": "y" * 3000}, at, WRITES, expected_head=at["configurable"]["checkpoint_id"])
    assert line.between.asked - before == 2
    assert line.between.opened == 1
    assert [n for n, _ in line.seen()] == [2, 1, 0]


def test_after_another_writer_a_superstep_is_three_round_trips(line: Line) -> None:
    """One that finds out, one that asks, one that stores."""
    with PostgresSaver.from_conn_string(line.server.url(line.database)) as other:
        other.put_writes(line.at, [("n", 1)], "task", "~p")
    before = line.between.asked
    line.put({"n": 1}, line.at, WRITES)
    assert line.between.asked - before == 3
    assert line.seen()[1] == (0, WRITTEN)


# -- connections that die while nobody uses them -----------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_connections_killed_between_steps_are_not_noticed(line: Line) -> None:
    steps = sized(1000, 40)
    at, reads = line.at, 0
    for number in range(1, steps + 1):
        line.kill()
        at = line.put({"n": number}, at, WRITES, expected_head=at["configurable"]["checkpoint_id"])
        line.kill() if number % 2 else line.between.reset()
        reads += line.call(line.saver, "get_tuple", at).checkpoint["channel_values"]["n"]
    assert reads == sum(range(1, steps + 1))
    assert [n for n, _ in line.seen()] == list(range(steps, -1, -1))


@pytest.mark.timeout(600)
def test_connections_killed_at_any_moment_are_not_noticed(line: Line) -> None:
    steps = sized(1000, 60)
    ended = threading.Event()

    def shoot() -> None:
        while not ended.wait(random.uniform(0.01, 0.1)):
            line.kill()

    gun = threading.Thread(target=shoot)
    gun.start()
    at = line.at
    try:
        for number in range(1, steps + 1):
            at = line.put({"n": number}, at, WRITES, expected_head=at["configurable"]["checkpoint_id"])
            assert line.call(line.saver, "get_tuple", at).checkpoint["channel_values"] == {"n": number}
    finally:
        ended.set()
        gun.join()
    assert line.seen() == [(steps, []), *((number, WRITTEN) for number in range(steps - 1, -1, -1))]


# -- answers that do not come ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [0, 1, 7, 30, 60])
def test_a_commit_whose_answer_is_lost_is_found_and_not_done_twice(line: Line, passes: int) -> None:
    line.between.cuts_once, line.between.answer_limit = True, passes
    head = line.at["configurable"]["checkpoint_id"]
    after = line.put({"n": 1}, line.at, WRITES, expected_head=head)
    assert line.between.answer_limit is None, "nothing was cut"
    assert line.seen() == [(1, []), (0, WRITTEN)]
    assert line.call(line.saver, "get_tuple", after).checkpoint["channel_values"] == {"n": 1}


@pytest.mark.parametrize("passes", [0, 7])
def test_task_writes_whose_answer_is_lost_are_found(line: Line, passes: int) -> None:
    line.between.cuts_once, line.between.answer_limit = True, passes
    line.call(line.saver, "put_writes", line.at, WRITES[0][2], "task", "~p")
    assert line.between.answer_limit is None
    assert line.seen() == [(0, WRITTEN)]


def test_a_first_checkpoint_whose_answer_is_lost_is_found(line: Line) -> None:
    line.between.cuts_once, line.between.answer_limit = True, 0
    made = checkpoint({"a": 1})
    line.call(line.saver, "put", config("new"), made, {}, {"a": 1}, expected_head=None)
    assert line.between.answer_limit is None
    (found,) = line.call(line.saver, "list", config("new"))
    assert found.checkpoint == made


@pytest.mark.parametrize("nth", range(1, 7))
def test_long_work_whose_answer_is_lost_happens_once(line: Line, nth: int) -> None:
    """Copying takes several round trips; whichever answer is lost, the copy is there, once."""
    line.put({"n": 1}, line.at, WRITES)
    answers = 0
    real = line.between._pass

    async def counted(reader: Any, writer: Any, *, answer: bool) -> None:
        nonlocal answers
        if not answer:
            await real(reader, writer, answer=answer)
            return
        while data := await reader.read(1 << 16):
            answers += 1
            if answers == nth:
                await line.between._reset()
                return
            writer.write(data)
            await writer.drain()

    line.between._pass = counted  # type: ignore[method-assign]
    line.between.reset()
    line.call(line.saver, "copy_thread", "t", "copy")
    assert answers >= nth, "nothing was cut"
    with PostgresSaver.from_conn_string(line.server.url(line.database)) as reader:
        copied = [item.checkpoint for item in reader.list(config("copy"))]
        assert copied == [item.checkpoint for item in reader.list(config())]


def test_a_line_that_stays_cut_is_told_and_the_step_can_be_tried_again(line: Line) -> None:
    line.between.answer_limit = 0
    with pytest.raises(Unavailable, match="try again"):
        line.put({"n": 1}, line.at, WRITES)
    line.between.answer_limit = None
    assert line.seen() in ([(0, [])], [(1, []), (0, WRITTEN)])
    again = line.put({"n": 2}, line.at, WRITES)
    assert line.call(line.saver, "get_tuple", again).checkpoint["channel_values"] == {"n": 2}


def test_silence_ends(postgres_server: Postgres, call: Call) -> None:
    with proxy(postgres_server.port) as between:
        line = Line(postgres_server, between, call, timeout=0.3)
        between.silent = True
        with pytest.raises(Unavailable, match="did not answer"):
            line.put({"n": 1}, line.at)
        between.silent = False
        between.reset()
        line.put({"n": 2}, line.at)
        assert line.seen()[0] == (2, [])
        line.close()


def test_slow_lines_are_waited_for(line: Line) -> None:
    line.between.latency = 0.05
    line.put({"n": 1}, line.at, WRITES)
    assert line.seen() == [(1, []), (0, WRITTEN)]


def test_nobody_there(line: Line) -> None:
    line.between.refusing = True
    line.between.reset()
    for operation in (lambda: line.put({"n": 1}, line.at), lambda: line.call(line.saver, "get_tuple", config())):
        with pytest.raises(Unavailable, match="could not be reached") as caught:
            operation()
        assert isinstance(caught.value.__cause__, psycopg.Error)
    line.between.refusing = False
    line.put({"n": 1}, line.at)
    assert [n for n, _ in line.seen()] == [1, 0]


def test_another_head_is_still_another_head_after_a_cut(line: Line) -> None:
    with PostgresSaver.from_conn_string(line.server.url(line.database)) as other:
        made = checkpoint({"n": 9})
        other.put(line.at, made, {}, {"n": 9})
    line.between.reset()
    with pytest.raises(HeadMoved):
        line.put({"n": 1}, line.at, WRITES, expected_head=line.at["configurable"]["checkpoint_id"])
    assert line.seen() == [(9, []), (0, [])]


# -- servers that die --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal() -> Iterator[Postgres]:
    """A server that waits for the disk, and may be killed."""
    with postgres(safe=True) as server:
        yield server


def test_what_was_acknowledged_survives_a_killed_server(mortal: Postgres, call: Call) -> None:
    with proxy(mortal.port) as between:
        line = Line(mortal, between, call)
        acknowledged, at = [0], line.at
        for number in range(1, 13):
            if number % 4 == 0:
                mortal.server.kill()
                with pytest.raises(Unavailable):
                    line.put({"n": number}, at, WRITES)
                mortal.server.start()
            at = line.put({"n": number}, at, WRITES, expected_head=at["configurable"]["checkpoint_id"])
            acknowledged.append(number)
        assert [n for n, _ in line.seen()] == acknowledged[::-1]
        assert all(writes == WRITTEN for _, writes in line.seen()[1:])
        line.close()


def test_a_server_killed_in_the_middle_of_writing(mortal: Postgres, call: Call) -> None:
    """Killed at any moment: what was acknowledged is there whole, and at most the step under way besides."""
    with proxy(mortal.port) as between:
        line = Line(mortal, between, call)
        acknowledged, at, deaths = 0, line.at, 0
        for number in range(1, 4):
            bullet = threading.Timer(0.02 * number, mortal.server.kill)
            bullet.start()
            try:
                while True:
                    at = line.put({"n": acknowledged + 1}, at, WRITES)
                    acknowledged += 1
            except Unavailable:
                deaths += 1
            bullet.join()
            mortal.server.start()
            seen = line.seen()
            assert seen[0][0] in (acknowledged, acknowledged + 1)
            assert [n for n, _ in seen] == list(range(seen[0][0], -1, -1))
            assert all(writes == WRITTEN for _, writes in seen[1:])
            acknowledged, at = seen[0][0], line.call(line.saver, "get_tuple", config()).config
        assert deaths == 3
        line.close()
