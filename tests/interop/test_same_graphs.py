"""LangGraph's graphs on its own saver and on ours: everything that their callers see is equal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver as PeersSaver

from tests.conftest import Call
from tests.interop.graphs import ALLOWED, SCENARIOS
from tests.interop.play import Play, difference
from tests.interop.savers import AWAITED, OURS, opened
from threadmark.interop.langgraph import as_langgraph_saver

PLACES = [*((name, colour) for name in OURS for colour in ("sync", "async")), *((name, "async") for name in AWAITED)]


def told(scenario: str, checkpointer: Any, call: Call) -> list[Any]:
    play = Play(checkpointer, call)
    SCENARIOS[scenario](play)
    assert play.told
    return play.told


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(("name", "colour"), PLACES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_graph_runs_as_on_its_own_saver(scenario: str, name: str, colour: str, tmp_path: Path) -> None:
    with asyncio.Runner() as runner, opened(name, tmp_path, runner) as saver:
        call = Call(colour, runner)
        ours = told(scenario, as_langgraph_saver(saver, allow=ALLOWED), call)
        assert call(saver, "thread_ids") == ["1"]
        assert difference(ours, told(scenario, PeersSaver(), call)) == ""
