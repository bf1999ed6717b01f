"""Networks and servers that fail under the Redis savers: what was acknowledged is whole, nothing is there twice."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import Call
from tests.integration.redis_kit import fresh
from tests.services.proxy import Proxy, proxy
from tests.services.redis import RedisServer, cluster, redis_binary, running, valkey_binary
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.checkpoint.redis.keys import Keys
from threadmark.constants import END, START
from threadmark.errors import Unavailable
from threadmark.graph import StateGraph

SHORT = "socket_timeout=0.3&socket_connect_timeout=0.3"


class Line:
    """A saver behind a proxy, and one that reads beside it."""

    def __init__(self, server: RedisServer, between: Proxy, call: Call) -> None:
        self.server, self.between, self.call = server, between, call
        self.prefix = fresh()
        kind = RedisSaver if call.colour == "sync" else AsyncRedisSaver
        self.saver = kind.from_conn_string(f"redis://127.0.0.1:{between.port}?{SHORT}", prefix=self.prefix)
        self.beside = RedisSaver.from_conn_string(server.url, prefix=self.prefix)
        self.at = self.put({"n": 0}, config(), ())

    def put(self, values: dict[str, Any], at: Any, writes: Any, **more: Any) -> Any:
        made = checkpoint(values, dict.fromkeys(values, values["n"] + 1), **more)
        return self.call(self.saver, "put_step", at, made, {"step": values["n"]}, made["channel_versions"], writes)

    def seen(self) -> list[tuple[int, list[Any]]]:
        """Numbers and writes of the checkpoints that are stored, newest first."""
        return [(i.checkpoint["channel_values"]["n"], i.pending_writes) for i in self.beside.list(config())]

    def changes(self) -> int:
        """How many transactions the thread has seen, up to sixteen."""
        with self.server.client() as client:
            stamps: bytes = client.hget(Keys(self.prefix).thread("t")[0], "l")
        return len(stamps) // 8

    def close(self) -> None:
        self.beside.close()
        self.call(self.saver, "close")


@pytest.fixture
def line(redis_server: RedisServer, call: Call) -> Iterator[Line]:
    with proxy(redis_server.port) as between:
        line = Line(redis_server, between, call)
        yield line
        line.close()


WRITES = [("task", "~p", [("n", 1), ("text", "x" * 400)])]
WRITTEN = [("task", "n", 1), ("task", "text", "x" * 400)]


@pytest.mark.parametrize("passes", [0, 1, 3, 11])
def test_an_answer_that_breaks_off_is_asked_for_again_and_nothing_happens_twice(line: Line, passes: int) -> None:
    """The step was stored when its answer broke off: the same step, sent again, finds itself."""
    cut = line.between._reset

    async def once() -> None:
        line.between.answer_limit = None
        await cut()

    line.between._reset = once  # type: ignore[method-assign]
    line.between.answer_limit = passes
    after = line.put({"n": 1}, line.at, WRITES)
    assert line.seen() == [(1, []), (0, WRITTEN)]
    assert line.changes() == 2
    assert line.between.answer_limit is None
    assert line.call(line.saver, "get_tuple", after).checkpoint["channel_values"] == {"n": 1}


def test_a_line_that_stays_broken_is_told_and_the_step_may_be_tried_again(line: Line) -> None:
    line.between.answer_limit = 0
    with pytest.raises(Unavailable, match="whole or not there"):
        line.put({"n": 1}, line.at, WRITES, id="9")
    assert line.seen() in ([(0, [])], [(1, []), (0, WRITTEN)])
    line.between.answer_limit = None
    line.put({"n": 1}, line.at, WRITES, id="9")
    line.put({"n": 1}, line.at, WRITES, id="9")
    assert line.seen() == [(1, []), (0, WRITTEN)]


def test_connections_that_are_cut_between_two_steps_are_made_anew(line: Line) -> None:
    for number in range(1, 6):
        line.between.reset()
        line.at = line.put({"n": number}, line.at, ())
    assert [n for n, _ in line.seen()] == [5, 4, 3, 2, 1, 0]


def test_a_black_hole_is_given_up_and_forgotten(line: Line) -> None:
    line.between.silent = True
    with pytest.raises(Unavailable):
        line.put({"n": 1}, line.at, WRITES)
    with pytest.raises(Unavailable):
        line.call(line.saver, "get_tuple", config())
    line.between.silent = False
    line.between.reset()
    line.put({"n": 1}, line.at, WRITES)
    assert line.seen()[0] == (1, [])


def test_a_server_that_refuses_connections(line: Line) -> None:
    line.between.refusing = True
    line.between.reset()
    with pytest.raises(Unavailable):
        line.put({"n": 1}, line.at, ())
    line.between.refusing = False
    line.put({"n": 1}, line.at, ())
    assert [n for n, _ in line.seen()] == [1, 0]


class Log(TypedDict):
    log: Annotated[list[int], operator.add]


def logging(steps: int, saver: Any) -> Any:
    """A graph that writes 0, 1, 2, ... into its log, one a superstep."""
    builder = StateGraph(Log)
    builder.add_node("work", lambda state: {"log": [len(state["log"])]})
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if len(state["log"]) < steps else END)
    return builder.compile(checkpointer=saver)


def until_done(graph: Any, call: Call, durability: str) -> Any:
    """Run to the end, again after each error that may be retried."""
    given: Any = {"log": []}
    end = time.monotonic() + 60
    while True:
        try:
            if given is not None and call(graph, "get_state", config()).metadata is not None:
                given = None
            return call(graph, "invoke", given, {**config(), "recursion_limit": 500}, durability=durability)
        except Unavailable:
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_over_a_bad_line_comes_to_the_right_end(line: Line, durability: str) -> None:
    """5 ms of latency each way, and the line is cut again and again, in the middle of answers too."""
    line.call(line.saver, "delete_thread", "t")
    line.between.latency = 0.005
    stop = threading.Event()

    def cutting() -> None:
        number = 0
        while not stop.wait(0.3):
            number += 1
            line.between.answer_limit = 7 * (number % 4)
            stop.wait(0.03)
            line.between.answer_limit = None
            line.between.reset()

    thread = threading.Thread(target=cutting)
    thread.start()
    try:
        found = until_done(logging(25, line.saver), line.call, durability)
    finally:
        stop.set()
        thread.join()
    assert found["log"] == list(range(25))
    logs = [item.checkpoint["channel_values"].get("log", []) for item in line.beside.list(config())]
    assert logs == [list(range(number)) for number in range(25, 0, -1)] + [[], []]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("binary", [redis_binary, valkey_binary])
def test_a_server_that_dies_loses_nothing_that_it_acknowledged(call: Call, binary: Any) -> None:
    """SIGKILL again and again with ``appendfsync always``; a run and a writer go on as soon as it is back."""
    with running(binary, "--appendonly", "yes", "--appendfsync", "always") as server:
        kind = RedisSaver if call.colour == "sync" else AsyncRedisSaver
        saver = kind.from_conn_string(f"{server.url}?{SHORT}")
        acknowledged: dict[str, int] = {}
        deaths: list[float] = []
        stop = threading.Event()

        def writing() -> None:
            """Steps of another thread, through a saver of its own, each tried until it is acknowledged."""
            at, number = config("beside"), 0
            with RedisSaver.from_conn_string(f"{server.url}?{SHORT}") as own:
                while not stop.is_set():
                    number += 1
                    made = checkpoint({"n": number, "pad": f"{number} " * 300}, {"n": number, "pad": number})
                    writes = [(f"task {number}", "~p", [("n", number)])] if number > 1 else []
                    while True:
                        try:
                            at = own.put_step(at, made, {"step": number}, made["channel_versions"], writes)
                            break
                        except Unavailable:
                            if stop.is_set():
                                return
                            time.sleep(0.01)
                    acknowledged[made["id"]] = number

        def killing() -> None:
            before = 0
            while not stop.wait(0.001):
                if len(acknowledged) - before >= 15:
                    server.kill()
                    server.start()
                    deaths.append(time.monotonic())
                    before = len(acknowledged)

        threads = [threading.Thread(target=each) for each in (writing, killing)]
        for thread in threads:
            thread.start()
        try:
            found = until_done(logging(120, saver), call, "sync")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert deaths
        server.kill()  # once more, and from this thread: a server dies with the thread that started it
        server.start()
        call(saver, "close")
        assert found["log"] == list(range(120))
        with RedisSaver.from_conn_string(server.url) as fresh_saver:
            logs = [i.checkpoint["channel_values"].get("log", []) for i in fresh_saver.list(config())]
            assert logs == [list(range(number)) for number in range(120, 0, -1)] + [[], []]
            stored = {item.checkpoint["id"]: item for item in fresh_saver.list(config("beside"))}
            assert len(acknowledged) > 3
            for id, number in acknowledged.items():
                assert stored[id].checkpoint["channel_values"] == {"n": number, "pad": f"{number} " * 300}
            numbers = sorted(item.metadata["step"] for item in stored.values())
            assert numbers == list(range(1, len(numbers) + 1))
            for item in stored.values():  # a step is there with the writes that led to it, or not at all
                number = item.metadata["step"]
                expected = [(f"task {number + 1}", "n", number + 1)] if number < len(numbers) else []
                assert item.pending_writes == expected


@pytest.mark.timeout(300)
def test_a_cluster_that_loses_a_master_and_gets_it_back() -> None:
    thread_ids = [f"t{number}" for number in range(12)]
    with cluster(redis_binary, "--appendonly", "yes", "--appendfsync", "always") as servers:
        with RedisSaver.from_conn_string(servers.url) as saver:
            stored = {id: [saver.put(config(id), checkpoint({"n": 0}), {}, {"n": 0})] for id in thread_ids}
            servers.nodes[1].kill()
            refused = 0
            for id in thread_ids:
                try:
                    stored[id].append(saver.put(config(id), checkpoint({"n": 1}), {}, {"n": 1}))
                except Unavailable:
                    refused += 1
            assert refused
            servers.nodes[1].start()
            end = time.monotonic() + 60
            for id in thread_ids:
                while True:
                    try:
                        stored[id].append(saver.put(config(id), checkpoint({"n": 2}), {}, {"n": 2}))
                        break
                    except Unavailable:
                        assert time.monotonic() < end
                        time.sleep(0.05)
        with RedisSaver.from_conn_string(servers.url) as saver:
            for id, configs in stored.items():
                assert [item.config for item in saver.list(config(id))] == configs[::-1]
