"""When what is on disk: the page's three durabilities, and what a new thread has before its first node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, say, thread
from tests.conftest import Call
from threadmark.checkpoint.base import StepWriter
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import EmptyInputError
from threadmark.graph import START, StateGraph


def steps_of(saver: Any, config: Any) -> list[int]:
    return [one.metadata["step"] for one in saver.list(config)]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_durability_without_a_saver_runs(call: Call, durability: str) -> None:
    graph = chain("a", "b").compile()
    assert call(graph, "stream", {"log": []}, durability=durability) == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]


def test_a_durability_that_does_not_exist_is_refused(saver: Any, call: Call) -> None:
    with pytest.raises(ValueError, match="'sync', 'async' or 'exit'"):
        call(chain("a").compile(checkpointer=saver), "invoke", {}, thread(), durability="often")


@pytest.mark.parametrize(("durability", "stored"), [("sync", [0, -1]), ("exit", [])])
def test_what_a_new_thread_has_before_its_first_node(
    saver: Any, call: Call, node: Callable[[Any], Any], durability: str, stored: list[int]
) -> None:
    seen = []

    def look(state: Log) -> None:
        seen.append(steps_of(saver, thread()))

    graph = chain(("look", node(look))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability=durability)
    assert seen == [stored]


def test_sync_has_everything_before_the_next_superstep(saver: Any, call: Call, node: Callable[[Any], Any]) -> None:
    seen = []

    def look(state: Log) -> dict[str, list[str]]:
        newest = saver.get_tuple(thread())
        tasks = [channel for _, channel, _ in saver.get_tuple(newest.parent_config).pending_writes]
        seen.append((newest.metadata["step"], newest.checkpoint["channel_values"]["log"], "log" in tasks))
        return {"log": ["x"]}

    graph = chain("a", ("b", node(look)), ("c", node(look))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability="sync")
    assert seen == [(1, ["a"], True), (2, ["a", "x"], True)]


def test_sync_tells_of_nothing_that_is_not_on_disk(saver: Any) -> None:
    for name, builder in (("chain", chain("a", "b")), ("fan", fan("a", "b", "c"))):
        graph = builder.compile(checkpointer=saver)
        for update in graph.stream({"log": []}, thread(name), durability="sync"):
            newest = saver.get_tuple(thread(name))
            stored = newest.checkpoint["channel_values"]["log"] + [
                word for _, channel, words in newest.pending_writes if channel == "log" for word in words
            ]
            assert set(update) <= set(stored)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_what_is_on_disk_when_the_run_has_returned(saver: Any, call: Call, durability: str) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability=durability)
    assert steps_of(saver, thread()) == [2, 1, 0, -1]


def test_exit_stores_the_end_alone(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability="exit")
    (only,) = call(graph, "get_state_history", thread())
    assert (only.values, only.next, only.parent_config) == ({"log": ["a", "b"]}, (), None)
    assert only.metadata["step"] == 2
    assert only.metadata["writes"] == {"b": {"log": ["b"]}}


def test_exit_goes_on_from_what_was_stored(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    for _ in range(2):
        call(graph, "invoke", {"log": ["in"]}, thread(), durability="exit")
    newest, first = call(graph, "get_state_history", thread())
    assert newest.parent_config == first.config
    assert (newest.metadata["step"], newest.values["log"]) == (6, ["in", "a", "b", "in", "a", "b"])


def test_a_thread_that_left_no_trace_looks_like_one_that_never_was(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    assert call(saver, "get_tuple", thread()) is None
    with pytest.raises(EmptyInputError):
        call(graph, "invoke", None, thread())


def test_exit_stores_the_end_when_a_node_fails(saver: Any, call: Call, node: Callable[[Any], Any]) -> None:
    def fail(state: Log) -> None:
        if not mended:
            raise ValueError("down")

    mended: list[bool] = []
    graph = chain("a", ("b", node(fail)), "c").compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread(), durability="exit")
    assert steps_of(saver, thread()) == [1]
    assert call(graph, "get_state", thread()).next == ("b",)
    mended.append(True)
    assert call(graph, "invoke", None, thread(), durability="exit") == {"log": ["a", "c"]}


# -- the order in which things reach the saver -------------------------------------------------------------------------


class Recording(InMemorySaver):
    """Keeps a line about each thing that is committed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def note(self, step: Any) -> None:
        for _, path, writes in step.writes:
            self.calls.append(f"writes {path.rpartition(', ')[2]} {','.join(channel for channel, _ in writes)}")
        if step.checkpoint is not None:
            self.calls.append(f"put {step.metadata['source']} {step.metadata['step']}")

    def put_step(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, writes: Any, **more: Any) -> Any:
        from threadmark.checkpoint.base import Step

        self.note(Step(config, checkpoint, metadata, new_versions, writes))
        return super().put_step(config, checkpoint, metadata, new_versions, writes, **more)

    async def aput_step(self, *args: Any, **more: Any) -> Any:
        return self.put_step(*args, **more)

    def open_writer(self, config: Any) -> StepWriter:
        return RecordingWriter(self, super().open_writer(config))


class RecordingWriter(StepWriter):
    def __init__(self, saver: Recording, inner: StepWriter) -> None:
        self.saver, self.inner = saver, inner

    def add(self, step: Any) -> None:
        self.saver.note(step)
        self.inner.add(step)

    def flush(self) -> None:
        self.inner.flush()

    async def aflush(self) -> None:
        await self.inner.aflush()


CHAIN = [
    "put input -1",
    "writes __start__ log,branch:to:a",
    "put loop 0",
    "writes a log,branch:to:b",
    "put loop 1",
    "writes b log",
    "put loop 2",
]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_task_s_writes_never_come_after_the_checkpoint_that_supersedes_them(call: Call, durability: str) -> None:
    saver = Recording()
    call(chain("a", "b").compile(checkpointer=saver), "invoke", {"log": []}, thread(), durability=durability)
    assert saver.calls == CHAIN


def test_exit_stores_one_checkpoint_and_no_writes(call: Call) -> None:
    saver = Recording()
    call(chain("a", "b").compile(checkpointer=saver), "invoke", {"log": []}, thread(), durability="exit")
    assert saver.calls == ["put loop 2"]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_fan_out_stores_each_task_before_the_checkpoint(call: Call, durability: str) -> None:
    saver = Recording()
    builder = StateGraph(Log)
    for name in "cab":
        builder.add_node(name, say(name))
        builder.add_edge(START, name)
    call(builder.compile(checkpointer=saver), "invoke", {"log": []}, thread(), durability=durability)
    assert saver.calls[:2] == [*CHAIN[:1], "writes __start__ log,branch:to:c,branch:to:a,branch:to:b"]
    assert sorted(saver.calls[3:6]) == ["writes a log", "writes b log", "writes c log"]
    assert saver.calls[6:] == ["put loop 1"]


class Broken(InMemorySaver):
    """Fails from the ``limit``-th stored checkpoint on."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.room = ["free"] * limit  # a list, since a compiled graph works with a copy of its saver

    def open_writer(self, config: Any) -> StepWriter:
        return BrokenWriter(self, super().open_writer(config))


class BrokenWriter(StepWriter):
    def __init__(self, saver: Broken, inner: StepWriter) -> None:
        self.saver, self.inner = saver, inner
        self.flush, self.aflush = inner.flush, inner.aflush  # type: ignore[method-assign]

    def add(self, step: Any) -> None:
        if step.checkpoint is not None:
            if not self.saver.room:
                raise OSError("disk full")
            self.saver.room.pop()
        self.inner.add(step)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_saver_that_fails_fails_the_run(call: Call, durability: str) -> None:
    saver = Broken(0 if durability == "exit" else 3)
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    with pytest.raises(OSError, match="disk full"):
        call(graph, "invoke", {"log": []}, thread(), durability=durability)
    stored = steps_of(saver, thread())
    assert stored == ([] if durability == "exit" else [1, 0, -1])
    if stored:
        saver.room.extend(["free"] * 9)
        assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}


def test_an_error_of_the_run_comes_before_one_of_the_saver(call: Call, node: Callable[[Any], Any]) -> None:
    def fail(state: Log) -> None:
        raise ValueError("mine")

    graph = chain(("a", node(fail))).compile(checkpointer=Broken(0))
    with pytest.raises(ValueError, match="mine"):
        call(graph, "invoke", {"log": []}, thread(), durability="exit")


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_value_changed_in_place_later_does_not_change_what_was_stored(
    saver: Any, call: Call, node: Callable[[Any], Any], durability: str
) -> None:
    def mutate(state: Log) -> None:
        state["log"].append("in place")

    graph = chain("a", ("b", node(mutate))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability=durability)
    by_step = {one.metadata["step"]: one.values["log"] for one in call(graph, "get_state_history", thread())}
    assert by_step[1] == ["a"]
