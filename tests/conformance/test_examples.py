"""The savers in ``examples/`` keep the contract as their first lines say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance import savers
from tests.conformance.savers import EXAMPLES, example
from threadmark.checkpoint.conformance.suite import BaseConformance, DeltaConformance

custom, shelved = example("custom_sqlite_saver"), example("shelve_saver")


class TestCustomSqliteSaver(BaseConformance, DeltaConformance):
    colours = ("async",)

    def open_saver(self) -> Any:
        return savers.custom_sqlite_saver()


class TestShelveSaver(BaseConformance, DeltaConformance):
    colours = ("sync",)

    def open_saver(self) -> Any:
        return savers.shelve_saver()


def test_the_shelf_is_short_and_survives_being_closed(tmp_path: Path) -> None:
    assert len((EXAMPLES / "shelve_saver.py").read_text(encoding="utf-8").splitlines()) < 150
    config: Any = {"configurable": {"thread_id": "t"}}
    for number in range(3):
        saver = shelved.ShelveSaver(str(tmp_path / "notes"))
        builder = shelved.StateGraph(shelved.Notes).add_node("n", lambda state: {"notes": [len(state["notes"])]})
        graph = builder.add_edge(shelved.START, "n").compile(checkpointer=saver)
        graph.invoke({"notes": ["in"]}, config)
        assert len(graph.get_state(config).values["notes"]) == 2 * number + 2
        saver.close()


async def test_the_page_s_saver_forks_a_delta_channel(tmp_path: Path) -> None:
    async with custom.MyCheckpointer.create(str(tmp_path / "notes.db")) as saver:
        builder = custom.StateGraph(custom.Notes).add_node("n", lambda state: {"notes": [str(len(state["notes"]))]})
        graph = builder.add_edge(custom.START, "n").compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}
        for note in ("a", "b"):
            await graph.ainvoke({"notes": [note]}, config)
        states = [state async for state in graph.aget_state_history(config)]
        old = next(state for state in states if state.values["notes"] == ["a", "1"] and not state.next)
        await graph.ainvoke({"notes": ["other"]}, old.config)
        assert (await graph.aget_state(config)).values["notes"] == ["a", "1", "other", "3"]
        assert (await graph.aget_state(states[0].config)).values["notes"] == ["a", "1", "b", "3"]
