"""Long lists are stored as what is new of them: nobody can tell, whatever nodes do to the items before."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest

from tests.acceptance.kit import thread
from tests.conftest import Call
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.graph import END, START, StateGraph
from threadmark.types import Overwrite

Node = Callable[[Any], Any]
Change = Callable[[list[Any], int], Any]


class Whole(JsonPlusSerializer):
    """As the default serializer, but a saver that is given it knows nothing of its bytes."""


@dataclass
class Rude:
    """Something that is added to a list by code of its own, which changes the items that are there."""

    def __radd__(self, left: list[Any]) -> list[Any]:
        left[1]["text"] = "rudely changed"
        return [*left, "rude"]


class Talk(TypedDict):
    said: Annotated[list[Any], operator.add]


def message(number: int) -> dict[str, Any]:
    return {"n": number, "text": f"message {number} " * 100, "more": {"tags": ["a", "b"]}}


def assigned(items: list[Any], at: int, value: Any, result: Any) -> Any:
    items[at] = value
    return result


def set_in(items: list[Any], at: int, key: str, value: Any) -> list[Any]:
    items[at][key] = value
    return [message(1000)]


CHANGES: dict[str, Change] = {
    "adds": lambda items, turn: [message(turn)],
    "adds nothing": lambda items, turn: [],
    "adds what is no plain value": lambda items, turn: [(turn, datetime(2026, 11, 30, tzinfo=UTC)), {turn}],
    "adds bytes": lambda items, turn: [b"bytes", bytearray(b"a bytearray")],
    "edits an old item in place": lambda items, turn: set_in(items, 3 + turn, "text", f"edited in turn {turn}"),
    "edits a nested one in place": lambda items, turn: items[7]["more"]["tags"].append(turn) or [],
    "makes an item of another type in place": lambda items, turn: assigned(items, 5, (True, 1.0, 1)[turn % 3], []),
    "puts a bytearray for equal bytes": lambda items, turn: assigned(items, 6, (b"ab", bytearray(b"ab"))[turn % 2], []),
    "takes an old item out in place": lambda items, turn: [items.pop(turn), message(turn)],
    "puts one in between in place": lambda items, turn: items.insert(40, message(turn)) or [message(turn)],
    "keeps the last": lambda items, turn: Overwrite(items[-70:]),
    "keeps a few": lambda items, turn: Overwrite(items[:5]),
    "puts one in front": lambda items, turn: Overwrite([message(turn), *items]),
    "writes the same again": lambda items, turn: Overwrite(items),
    "writes an item twice": lambda items, turn: [items[0], items[0]],
    "adds rudely": lambda items, turn: Rude(),
}


def graph_of(saver: Any, node: Node, change: Change, *, at_start: Callable[[list[Any]], Any] | None = None) -> Any:
    turns = iter(range(100))
    builder: StateGraph[Any] = StateGraph(Talk)
    builder.add_node("first", node(lambda state: {"said": change(state["said"], next(turns))}))
    builder.add_node("second", node(lambda state: {"said": [message(len(state["said"]))]}))
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    if at_start is None:
        builder.add_edge(START, "first")
    else:
        builder.add_conditional_edges(START, lambda state: at_start(state["said"]) or "first")
    return builder.compile(checkpointer=saver)


def told(call: Call, graph: Any) -> list[str]:
    """All of a history, in which types that compare equal differ."""
    return [repr((s.values, s.next, s.metadata.get("writes"))) for s in call(graph, "get_state_history", thread())]


def both(saver: Any, node: Node, run: Callable[[Any], None], call: Call, change: Change, **more: Any) -> None:
    """The same on a saver whose serializer it knows, and on one to which it is foreign."""
    known, foreign = (
        graph_of(one, node, change, **more)
        for one in (saver.with_allowlist([Rude]), InMemorySaver(serde=Whole(allow=[Rude])))
    )
    for graph in (known, foreign):
        run(graph)
    assert told(call, known) == told(call, foreign)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_node_does_to_a_long_list_every_checkpoint_holds_it_as_it_was(
    saver: Any, call: Call, node: Node, change: str
) -> None:
    def run(graph: Any) -> None:
        call(graph, "invoke", {"said": [message(n) for n in range(80)]}, thread())
        for turn, durability in enumerate(("sync", "exit", "async")):
            call(graph, "invoke", {"said": [f"question {turn}"]}, thread(), durability=durability)

    both(saver, node, run, call, CHANGES[change])


@pytest.mark.parametrize("given", [[], [(1, 2)], [datetime(2026, 1, 1, tzinfo=UTC)], Overwrite(["all"]), Rude()])
def test_whatever_the_input_is(saver: Any, call: Call, node: Node, given: Any) -> None:
    def run(graph: Any) -> None:
        call(graph, "invoke", {"said": [message(n) for n in range(80)]}, thread())
        for _ in range(2):
            call(graph, "invoke", {"said": given}, thread())

    both(saver, node, run, call, CHANGES["adds"])


def test_a_route_from_the_start_may_change_the_state(saver: Any, call: Call, node: Node) -> None:
    def change(items: list[Any]) -> None:
        items[2]["text"] = f"changed on the way, with {len(items)} items"

    def run(graph: Any) -> None:
        for turn in range(3):
            call(graph, "invoke", {"said": [message(n) for n in range(80 if not turn else 1)]}, thread())

    both(saver, node, run, call, CHANGES["adds"], at_start=change)


def test_who_is_shown_a_checkpoint_may_change_it(saver: Any, call: Call, node: Node) -> None:
    def run(graph: Any) -> None:
        call(graph, "invoke", {"said": [message(n) for n in range(80)]}, thread())
        if call.colour == "async":
            return
        for event in graph.stream({"said": ["more"]}, thread(), stream_mode="checkpoints"):
            event["values"]["said"][4]["text"] = f"changed at step {event['metadata']['step']}"

    both(saver, node, run, call, CHANGES["adds"])


def test_a_saver_that_changes_what_it_reads_is_taken_at_its_word(call: Call, node: Node) -> None:
    class Hiding(InMemorySaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            for item in found.checkpoint["channel_values"].get("said", ())[:2] if found else ():
                item["text"] = "hidden"
            return found

        async def aget_tuple(self, config: Any) -> Any:
            return self.get_tuple(config)

    saver = Hiding()
    graph = graph_of(saver, node, CHANGES["adds"])
    call(graph, "invoke", {"said": [message(n) for n in range(80)]}, thread())
    call(graph, "invoke", {"said": ["more"]}, thread())
    kept = [each.checkpoint["channel_values"].get("said", ()) for each in InMemorySaver.list(saver, thread())]
    assert [items[0]["text"] == "hidden" for items in kept if len(items) > 82] == [True] * 3


def test_a_conversation_goes_on_in_another_process(call: Call, node: Node, tmp_path: Any) -> None:
    from threadmark.checkpoint.sqlite import SqliteSaver

    expected: list[Any] = []
    for turn in range(4):
        with SqliteSaver.from_conn_string(str(tmp_path / "talk.db")) as saver:
            graph = graph_of(saver, node, CHANGES["adds"])
            for again in range(2):
                given = [message(n) for n in range(80 if not turn + again else 2)]
                result = call(graph, "invoke", {"said": given}, thread())["said"]
                expected = [*expected, *given, message(again), message(len(expected) + len(given) + 1)]
                assert result == expected
    with SqliteSaver.from_conn_string(str(tmp_path / "talk.db")) as saver:
        graph = graph_of(saver, node, CHANGES["adds"])
        history = [s.values["said"] for s in call(graph, "get_state_history", thread()) if s.values["said"]]
        assert history[0] == expected
        assert all(expected[: len(said)] == said for said in history)
