"""Many writers at once, from an event loop, from threads and from processes: no error, no lost write."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest

from tests.integration.redis_kit import fresh
from tests.services.redis import Cluster, RedisServer
from tests.sizes import sized
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.constants import END, START
from threadmark.errors import HeadMoved
from threadmark.graph import StateGraph

THREADS, RUNS = 64, sized(20, 3)


class Sums(TypedDict):
    log: Annotated[list[str], operator.add]


def graph(saver: Any) -> Any:
    """Two nodes side by side and one after them."""
    builder = StateGraph(Sums)
    for name in ("one", "two"):
        builder.add_node(name, lambda state, name=name: {"log": [f"{name} {len(state['log'])}"]})
        builder.add_edge(START, name)
    builder.add_node("last", lambda state: {"log": [f"last {len(state['log'])}"]})
    builder.add_edge(["one", "two"], "last")
    builder.add_edge("last", END)
    return builder.compile(checkpointer=saver)


def expected(runs: int) -> list[str]:
    return [word for at in range(0, 4 * runs, 4) for word in ("in", f"one {at + 1}", f"two {at + 1}", f"last {at + 3}")]


def check(saver: RedisSaver, runs: int, threads: int = THREADS) -> None:
    """Every thread has every run's words, in order, and as many checkpoints as supersteps."""
    lines = {line.thread_id: line.checkpoints for line in saver.list_threads()}
    assert lines == {f"t{number}": 4 * runs for number in range(threads)}
    for number in range(threads):
        assert saver.get(config(f"t{number}"))["channel_values"]["log"] == expected(runs)


def run(compiled: Any, number: int, times: int) -> None:
    for _ in range(times):
        compiled.invoke({"log": ["in"]}, config(f"t{number}"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", ["redis_server", "redis_cluster"])
def test_from_an_event_loop(server: str, request: pytest.FixtureRequest) -> None:
    url, prefix = request.getfixturevalue(server).url, fresh()

    async def main() -> None:
        async with AsyncRedisSaver.from_conn_string(url, prefix=prefix) as saver:
            compiled = graph(saver)

            async def one(number: int) -> None:
                for _ in range(RUNS):
                    await compiled.ainvoke({"log": ["in"]}, config(f"t{number}"))

            await asyncio.gather(*map(one, range(THREADS)))

    asyncio.run(main())
    with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
        check(saver, RUNS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", ["redis_server", "redis_cluster"])
def test_from_threads(server: str, request: pytest.FixtureRequest) -> None:
    with RedisSaver.from_conn_string(request.getfixturevalue(server).url, prefix=fresh()) as saver:
        compiled = graph(saver)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: run(compiled, number, RUNS), range(THREADS)))
        check(saver, RUNS)


PROCESS = """
    import sys
    from tests.integration.test_redis_writers import RUNS, THREADS, graph, run
    from threadmark.checkpoint.redis import RedisSaver

    url, prefix, which = *sys.argv[1:3], int(sys.argv[3])
    with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
        compiled = graph(saver)
        for number in range(which, THREADS, 4):
            run(compiled, number, RUNS)
"""


@pytest.mark.timeout(600)
def test_from_processes(redis_server: RedisServer) -> None:
    prefix = fresh()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROCESS), redis_server.url, prefix, str(which)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for which in range(4)
    ]
    assert [process.communicate()[1] for process in running] == ["", "", "", ""]
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix) as saver:
        check(saver, RUNS)


def test_of_writers_on_one_head_one_wins_each_time(redis_server: RedisServer, redis_cluster: Cluster) -> None:
    """Eight writers with a memory of their own add to one thread; who finds another head reads it and tries again."""
    for url in (redis_server.url, redis_cluster.url):
        prefix = fresh()
        moved: list[int] = []
        start = threading.Barrier(8)

        def write(
            name: int, url: str = url, prefix: str = prefix, moved: list[int] = moved, start: Any = start
        ) -> None:
            with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
                start.wait()
                for _ in range(5):
                    while True:
                        head = saver.get_tuple(config())
                        rows = head.checkpoint["channel_values"]["rows"] if head else []
                        at = head.config if head else config()
                        made = checkpoint({"rows": [*rows, f"{name} " * 50]}, {"rows": len(rows) + 1})
                        try:
                            expected = head.checkpoint["id"] if head else None
                            saver.put(at, made, {}, made["channel_versions"], expected_head=expected)
                            break
                        except HeadMoved:
                            moved.append(name)

        writers = [threading.Thread(target=write, args=(name,)) for name in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
            found = saver.get(config())["channel_values"]["rows"]
            assert sorted(found) == sorted(f"{name} " * 50 for name in range(8) for _ in range(5))
            assert len(list(saver.list(config()))) == 40
        assert moved
