"""Our savers on servers, in LangGraph's graphs and in migrations; LangGraph's Postgres tables, read and written."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver as PeersMemory
from langgraph.checkpoint.postgres import PostgresSaver as PeersPostgres
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver as PeersAwaited
from langgraph.types import Command as PeersCommand

from tests.conftest import Call
from tests.interop import exchanged, graphs
from tests.interop.play import Play, difference
from tests.interop.test_migrate import ALLOWED, copied, states
from tests.interop.test_peer_releases import END, config
from tests.interop.test_peers_savers import comparable
from tests.services.postgres import Postgres
from tests.wire import peer_databases
from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.mongodb import MongoDBSaver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.redis import RedisSaver
from threadmark.interop.langgraph import as_langgraph_saver
from threadmark.interop.migration import migrate
from threadmark.interop.own_store import OwnTarget
from threadmark.interop.stores import open_source

pytestmark = pytest.mark.filterwarnings("ignore::Warning")
SOME = ("children", "deltas", "own_classes", "questions_side_by_side", "travel")
"""Scenarios that ask most of a saver."""
_numbers = itertools.count()
Opener = Callable[[], AbstractContextManager[Any]]


@pytest.fixture(params=["postgres", "redis", "mongodb", "cosmosdb"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens a saver on an empty place of a server."""
    return opener_of(request, request.param)


def opener_of(request: pytest.FixtureRequest, name: str) -> Opener:
    if name == "postgres":
        url = request.getfixturevalue("pg_url")
        return lambda: PostgresSaver.from_conn_string(url, schema=f"interop{next(_numbers)}")
    if name == "redis":
        server = request.getfixturevalue("redis_server")
        return lambda: RedisSaver.from_conn_string(server.url, prefix=f"interop{next(_numbers)}")
    if name == "cosmosdb":
        account = request.getfixturevalue("cosmos")
        return lambda: CosmosDBSaverSync(**account.names())
    mongo = request.getfixturevalue("mongodb")

    @contextmanager
    def on_mongo() -> Iterator[Any]:
        with mongo.database() as database, MongoDBSaver.from_conn_string(mongo.uri, database) as saver:
            yield saver

    return on_mongo


@pytest.mark.parametrize("scenario", SOME)
def test_langgraphs_graphs_run_as_on_its_own_saver(scenario: str, opener: Opener, call: Call) -> None:
    shown = []
    with opener() as saver:
        for checkpointer in (as_langgraph_saver(saver, allow=graphs.ALLOWED), PeersMemory()):
            play = Play(checkpointer, call)
            graphs.SCENARIOS[scenario](play)
            shown.append(play.told)
    assert difference(*shown) == ""


@pytest.fixture
def peers_url(postgres_server: Postgres) -> Iterator[str]:
    name = postgres_server.database()
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.mark.parametrize("scenario", SOME)
def test_graphs_of_ours_run_on_langgraphs_postgres(scenario: str, peers_url: str, call: Call) -> None:
    shown = []
    kind: Any = PeersPostgres if call.colour == "sync" else PeersAwaited
    opened = kind.from_conn_string(peers_url)
    saver = opened.__enter__() if call.colour == "sync" else call.runner.run(opened.__aenter__())
    call.runner.run(saver.setup()) if call.colour == "async" else saver.setup()
    try:
        for checkpointer in (saver, InMemorySaver()):
            play = Play(checkpointer, call)
            exchanged.SCENARIOS[scenario](play)
            shown.append(comparable(play.told))
    finally:
        closing_it = (None, None, None)
        opened.__exit__(*closing_it) if call.colour == "sync" else call.runner.run(opened.__aexit__(*closing_it))
    assert difference(*shown) == ""


def test_threads_of_langgraphs_postgres_are_examined_copied_and_written_back(
    postgres_server: Postgres, peers_url: str, tmp_path: Path
) -> None:
    with PeersPostgres.from_conn_string(peers_url) as saver, asyncio.Runner() as runner:
        saver.setup()
        for name, scenario in graphs.SCENARIOS.items():
            scenario(Play(saver, Call("sync", runner), name))
    ours, back = str(tmp_path / "ours.db"), postgres_server.url(postgres_server.database())
    outcomes = copied(peers_url, ours)
    assert (len(outcomes), states(outcomes)) == (len(graphs.SCENARIOS), {"copied"})
    assert sum(one.carried for one in outcomes) == 0
    assert states(copied(ours, f"langgraph+{back}")) == {"copied"}
    assert states(copied(ours, f"langgraph+{back}")) == {"there already"}
    shown = []
    for url in (peers_url, back):
        with PeersPostgres.from_conn_string(url) as saver, asyncio.Runner() as runner:
            play = Play(saver, Call("sync", runner), "travel")
            play.compile(graphs.chain("a", "b", "c"))
            play.history()
            shown.append(play.told)
    assert difference(*shown) == ""
    told = subprocess.run([sys.executable, "-m", "threadmark", "doctor", peers_url, "--json"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    about = json.loads(told.stdout)
    assert (about["threads"], about["unreadable"]) == (len(graphs.SCENARIOS), 0)
    assert about["size_here"] > 0
    assert about["size_now"] > 0


def test_a_thread_that_paused_here_is_answered_in_langgraph_on_postgres(peers_url: str, tmp_path: Path) -> None:
    ours = str(tmp_path / "ours.db")
    assert states(copied(Path(__file__).parents[1] / "wire/peer_1_2.db", ours)) == {"copied"}
    assert states(copied(ours, f"langgraph+{peers_url}")) == {"copied"}
    with PeersPostgres.from_conn_string(peers_url) as saver:
        graph, at = peer_databases.graph([]).compile(checkpointer=saver), config("paused")
        answers = {one.id: one.value.rstrip("?") for one in graph.get_state(at).interrupts}
        assert graph.invoke(PeersCommand(resume=answers), at)["log"] == END
        assert graph.invoke(None, config("failed"))["log"][-1] == "checked"


def test_an_awaited_saver_of_a_server_runs_langgraphs_graphs(pg_url: str) -> None:
    with asyncio.Runner() as runner:
        opened = AsyncPostgresSaver.from_conn_string(pg_url, schema=f"interop{next(_numbers)}")
        saver = runner.run(opened.__aenter__())
        try:
            for scenario in SOME:
                shown = []
                for checkpointer in (as_langgraph_saver(saver, allow=graphs.ALLOWED), PeersMemory()):
                    play = Play(checkpointer, Call("async", runner), scenario)
                    graphs.SCENARIOS[scenario](play)
                    shown.append(play.told)
                assert difference(*shown) == ""
        finally:
            runner.run(opened.__aexit__(None, None, None))


def test_threads_go_from_server_to_server(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    first = open_source(str(Path(__file__).parents[1] / "wire/peer_1_2.db"), ALLOWED)
    with closing(first):
        source: Any = first
        with (
            opener_of(request, "postgres")() as one,
            opener_of(request, "redis")() as two,
            opener_of(request, "mongodb")() as three,
        ):
            for name, saver in (("one", one), ("two", two), ("three", three)):
                target = OwnTarget(name, saver)
                assert states(list(migrate(source, target, source.thread_ids()))) == {"copied"}
                assert states(list(migrate(first, target, first.thread_ids()))) == {"there already"}
                source = target
