"""What does not fit into one batch of Cosmos DB, and what becomes of writers that die between two."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

from benchmarks.words import message
from tests.integration.dying import Processes, large_step
from tests.services.cosmosdb import Account
from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync
from threadmark.checkpoint.cosmosdb.commit import BYTES, OPERATIONS
from threadmark.checkpoint.records import Foreseen
from threadmark.colour import drive
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph
from threadmark.types import Send


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.close()


def pieces(count: int, size: int) -> list[bytes]:
    """Values that share nothing and do not compress."""
    return [os.urandom(size) for _ in range(count)]


def opened(cosmos: Account) -> tuple[CosmosDBSaverSync, str]:
    text = cosmos.conn_string()
    return CosmosDBSaverSync.from_conn_string(text), text


def items(saver: CosmosDBSaverSync) -> list[Any]:
    """Everything in the container."""
    container = saver._items._container
    return list(container.query_items("SELECT * FROM c", enable_cross_partition_query=True))


def test_a_fan_out_of_a_thousand(cosmos: Account) -> None:
    saver, _ = opened(cosmos)
    with saver:
        at = saver.put(config(), checkpoint({"n": 0}), {}, {"n": 1})
        large_step(saver, at, count=1000, size=3000)
        found = saver.get_tuple(at)
        assert found is not None
        assert len(found.pending_writes or ()) == 1000
        assert [write[0] for write in found.pending_writes or ()] == [f"task {n:04}" for n in range(1000)]
        assert {len(write[2]) for write in found.pending_writes or ()} == {3000}


def test_a_replaced_write_never_comes_back(cosmos: Account) -> None:
    """The pack with the earlier row of the task is read again for a segment that it holds as well."""
    saver, _ = opened(cosmos)
    with saver:
        first = saver.put(config(), checkpoint({"n": 1}), {}, {"n": 1})
        at = saver.put(first, checkpoint({"n": 2}, {"n": 2}), {}, {"n": 2})
        saver.put_writes(at, [("__interrupt__", "one"), ("n", "y" * 3000)], "task")
        saver.put_writes(at, [("__interrupt__", "two")], "task")
        for _ in range(3):
            saver._caches.clear()
            for item in (saver.get_tuple(at), saver.get_tuple(config()), next(saver.list(config()))):
                assert item is not None
                assert item.pending_writes == [("task", "__interrupt__", "two"), ("task", "n", "y" * 3000)]


class State(TypedDict):
    """What tasks add up to."""

    out: Annotated[list[Any], operator.add]


CONFIG: Any = {"configurable": {"thread_id": "run"}}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_graph_that_fans_out_to_a_thousand(cosmos: Account, durability: Any) -> None:
    builder = StateGraph(State)
    builder.add_node("plan", lambda state: {})
    builder.add_node("work", lambda number: {"out": [f"result {number} of a task"]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", number) for number in range(1000)])
    saver, text = opened(cosmos)
    with saver, CosmosDBSaverSync.from_conn_string(text) as other:
        builder.compile(checkpointer=saver).invoke({"out": []}, CONFIG, durability=durability)
        state = builder.compile(checkpointer=other).get_state(CONFIG)
        assert state.values["out"] == [f"result {number} of a task" for number in range(1000)]
        assert state.next == ()


def test_a_conversation_stays_small(fake: Account) -> None:
    builder, turns = StateGraph(State), 60
    builder.add_node("answer", lambda state: {"out": [message(len(state["out"]))]})
    builder.add_edge(START, "answer")
    with opened(fake)[0] as saver:
        graph = builder.compile(checkpointer=saver)
        before = fake.told()["stored"]
        for turn in range(turns):
            graph.invoke({"out": [message(2 * turn)]}, CONFIG)
        told = fake.told()
    assert told["stored"] - before < 6000 * turns
    assert told["units"] < 26 * turns
    assert told["asked"]["batch"] < 3 * turns


def test_tasks_that_end_one_by_one(cosmos: Account) -> None:
    saver, _ = opened(cosmos)
    with saver:
        at = saver.put(config(), checkpoint({"n": 0}), {}, {"n": 1})
        saver.get_tuple(at)
        if cosmos.fake:
            cosmos.told()
        for number in range(30):
            saver.put_writes(at, [("out", number)], f"{number:02}", f"~{number:02}")
        if cosmos.fake:
            assert cosmos.told()["asked"] == {"batch": 30}
        found = saver.get_tuple(at)
        assert found is not None
        assert [write[2] for write in found.pending_writes or ()] == list(range(30))


@pytest.mark.parametrize("size", [1_400_000, 5_000_000])
def test_a_value_that_is_longer_than_an_item(cosmos: Account, size: int) -> None:
    saver, text = opened(cosmos)
    (value,) = pieces(1, size)
    with saver:
        at = saver.put(config(), checkpoint({"v": value}), {}, {"v": 1})
        saver.put_writes(at, [("v", value[::-1])], "task")
        with CosmosDBSaverSync.from_conn_string(text) as other:
            found = other.get_tuple(config())
            assert found is not None
            assert found.checkpoint["channel_values"]["v"] == value
            assert (found.pending_writes or ())[0][2] == value[::-1]


def test_a_row_that_is_longer_than_an_item(cosmos: Account) -> None:
    saver, text = opened(cosmos)
    (body,) = pieces(1, 3_000_000)
    with saver:
        saver.put(config(), checkpoint({"n": 0}), {}, {"n": 1})
        port = saver._port

        async def write() -> None:
            async with port.write() as change:
                await change.foresee("t", Foreseen({}, {}, (), None))
                thread = await change.thread("t")
                assert thread is not None
                await change.add_values(thread, [(7, body), (8, b"small")])

        async def read() -> Any:
            async with other._port.read() as view:
                thread = await view.thread("t")
                assert thread is not None
                return await view.values(thread, (7, 8, 9)), await view.every_value(thread)

        drive(write())
        with CosmosDBSaverSync.from_conn_string(text) as other:
            some, every = drive(read())
        assert some == {7: body, 8: b"small"}
        assert every[7] == body


def test_many_steps_in_one_flush(cosmos: Account) -> None:
    saver, _ = opened(cosmos)
    with saver:
        writer, at = saver.open_writer(config()), config()
        for number in range(40):
            made = checkpoint({"n": pieces(1, 100_000)[0]}, {"n": number + 1})
            writer.add(Step(at, made, {"step": number}, {"n": number + 1}))
            at = config("t", made["id"])
        writer.flush()
        assert [item.metadata["step"] for item in saver.list(config())] == list(range(39, -1, -1))


def test_a_writer_that_dies_between_two_batches_leaves_nothing_that_is_seen(
    cosmos: Account, processes: Processes
) -> None:
    saver, text = opened(cosmos)
    with saver:
        at = saver.put(config(), checkpoint({"n": 0}), {"step": 0}, {"n": 1})
        before = len(items(saver))
        deaths = 0
        while processes.killed(text, deaths, "large_step", at):
            deaths += 1
            found = saver.get_tuple(config())
            assert found is not None
            assert (found.config, found.pending_writes) == (at, [(f"p{n}", "n", n) for n in range(deaths - 1)])
            saver.put_writes(at, [("n", deaths - 1)], f"p{deaths - 1}", f"{deaths:02}")  # others go on
            assert len(list(saver.list(config()))) == 1
        assert deaths >= 3
        found = saver.get_tuple(at)
        assert found is not None
        assert len(found.pending_writes or ()) == 90 + deaths
        stray = len(items(saver)) - before
        saver.prune(["t"])
        left = items(saver)
        assert len(left) < before + 10 < stray
        live = saver.get_tuple(config())
        assert live is not None
        assert live.checkpoint["channel_values"] == {"n": 90}


def test_a_thread_that_was_to_begin_with_a_large_step(cosmos: Account, processes: Processes) -> None:
    saver, text = opened(cosmos)
    with saver:
        saver.setup()
        for at in range(3):
            assert processes.killed(text, at, "begin")
            assert saver.get_tuple(config()) is None
            assert list(saver.list(None)) == []
        saver.put(config(), checkpoint({"v": pieces(1, 5_000_000)[0]}), {}, {"v": 1})
        assert len(list(saver.list(None))) == 1


def test_what_a_dead_writer_left_goes_with_the_thread(cosmos: Account, processes: Processes) -> None:
    saver, text = opened(cosmos)
    with saver:
        at = saver.put(config(), checkpoint({"n": 0}), {}, {"n": 1})
        assert processes.killed(text, 2, "large_step", at)
        saver.delete_thread("t")
        assert items(saver) == []


@pytest.mark.parametrize("command", ["prune", "delete"])
def test_upkeep_that_dies_is_done_or_not(cosmos: Account, processes: Processes, command: str) -> None:
    saver, text = opened(cosmos)
    with saver:
        at, wanted = config(), []
        for number in range(120):
            at = saver.put(at, checkpoint({"n": number}, {"n": number + 1}), {"step": number}, {"n": number + 1})
            wanted.append(number)
        deaths = 0
        while processes.killed(text, deaths, command):
            deaths += 1
            steps = [item.metadata["step"] for item in saver.list(config())][::-1]
            assert steps in (wanted, wanted[-1:] if command == "prune" else [])
        assert deaths >= 2
        assert len(items(saver)) == (2 if command == "prune" else 0)


def test_a_large_step_that_comes_too_late_leaves_no_trace(cosmos: Account) -> None:
    saver, text = opened(cosmos)
    with saver, CosmosDBSaverSync.from_conn_string(text) as other:
        at = saver.put(config(), checkpoint({"n": 0}), {}, {"n": 1})
        batch = saver._items.batch

        async def overtaken(partition: str, operations: Any) -> Any:
            if operations[0][0] == "create":  # the parts are under way
                saver._items.batch = batch  # type: ignore[method-assign]
                other.put(at, checkpoint({"n": 9}), {"step": 9}, {"n": 2})
            return await batch(partition, operations)

        saver._items.batch = overtaken  # type: ignore[method-assign]
        tasks = [(f"{number}", "", [("out", data)]) for number, data in enumerate(pieces(200, 20_000))]
        expected = at["configurable"]["checkpoint_id"]
        with pytest.raises(HeadMoved):
            saver.put_step(at, checkpoint({"n": 1}), {}, {"n": 1}, tasks, expected_head=expected)
        found = saver.get_tuple(at)
        assert found is not None
        assert found.pending_writes == []
        assert [item.metadata.get("step") for item in saver.list(config())] == [9, None]


def test_limits_are_those_of_the_service() -> None:
    assert OPERATIONS == 100
    assert BYTES < 2 * 1024 * 1024
