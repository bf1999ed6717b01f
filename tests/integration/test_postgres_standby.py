"""A primary that dies under a run: the writer is told, and the run goes on at the standby that takes over."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import Call
from tests.services.postgres import Postgres, postgres
from threadmark.checkpoint.conformance.kit import config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import SaverError, Unavailable
from threadmark.graph import START, StateGraph

NODES = 6


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def graph(saver: Any, primary: Postgres) -> Any:
    """A line of nodes; the primary dies under the fourth, the first time it runs."""

    def node(number: int) -> Any:
        def run(state: Words) -> Any:
            if number == 3 and primary.server.process.poll() is None:
                primary.server.kill()
            return {"words": [f"n{number}"]}

        return run

    builder = StateGraph(Words)
    builder.add_sequence([(f"n{number}", node(number)) for number in range(NODES)])
    builder.add_edge(START, "n0")
    return builder.compile(checkpointer=saver)


def test_a_run_goes_on_at_the_standby_that_takes_over(call: Call) -> None:
    """With the new address, or, which is tried in the other colour, with one that named both servers from the start."""
    address = "new" if call.colour == "sync" else "both"
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    with postgres(safe=True) as primary, postgres(safe=True, primary=primary) as standby:
        primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")  # acknowledged is what both have
        primary.run("SELECT pg_reload_conf()")
        both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres@{both}/postgres?target_session_attrs=read-write"
        saver = kind.from_conn_string(url if address == "both" else primary.url())
        with pytest.raises(Unavailable):
            call(graph(saver, primary), "invoke", {"words": []}, config(), durability="sync")
        reader = kind.open_read_only(standby.url())
        assert call(reader, "get_tuple", config()).checkpoint["channel_values"]["words"] == ["n0", "n1", "n2"]
        call(reader, "close")
        if address == "new":
            with pytest.raises(Unavailable):
                call(graph(saver, primary), "invoke", None, config(), durability="sync")
            call(saver, "close")
            saver = kind.from_conn_string(standby.url())
            with pytest.raises(SaverError, match="only reads"):
                call(graph(saver, primary), "invoke", None, config(), durability="sync")
        standby.run("SELECT pg_promote()")
        state = call(graph(saver, primary), "invoke", None, config(), durability="sync")
        assert state == {"words": [f"n{number}" for number in range(NODES)]}
        assert len(call(saver, "list", config())) == NODES + 2
        call(saver, "close")
