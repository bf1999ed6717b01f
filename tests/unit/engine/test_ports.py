"""The saver as a run sees it, and what waits for the disk (house rules on colours and durabilities)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from threadmark.checkpoint.base import BaseCheckpointSaver, Step
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.colour import drive
from threadmark.engine.port import CopyingWriter, port_of
from threadmark.engine.saving import saving_for
from threadmark.errors import ColourError


def step(id: str, *tasks: str, value: Any = None) -> Step:
    checkpoint: Any = {"id": id, "channel_values": {"log": value}, "channel_versions": {}, "versions_seen": {}}
    return Step(
        config={"configurable": {"checkpoint_id": None}},
        checkpoint=checkpoint,
        metadata={},
        new_versions={"log": id},
        writes=[(task, "path", [("log", value)]) for task in tasks],
    )


class Calls(BaseCheckpointSaver[int]):
    """Notes what it is called with; of the five methods, in one colour or both."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []


class Sync(Calls):
    def get_tuple(self, config: Any) -> None:
        self.calls.append("get")

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.calls.append(f"put {checkpoint['id']}")

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.calls.append(f"writes {task_id} {task_path}")

    def list(self, config: Any, **query: Any) -> Any:
        return iter([1, 2])


class Old(Sync):
    """From a time when ``put_writes`` had no ``task_path``."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.calls.append(f"writes {task_id}")


class Async(Calls):
    async def aget_tuple(self, config: Any) -> None:
        self.calls.append("aget")

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.calls.append(f"aput {checkpoint['id']}")

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.calls.append(f"awrites {task_id} {task_path}")

    async def alist(self, config: Any, **query: Any) -> Any:
        for one in (1, 2):
            yield one


def test_writes_go_before_the_checkpoint_that_supersedes_them() -> None:
    saver = Sync()
    drive(port_of(saver, on_loop=False).put_step(step("1", "t1", "t2")))
    assert saver.calls == ["writes t1 path", "writes t2 path", "put 1"]


def test_an_old_saver_is_not_given_a_path() -> None:
    saver = Old()
    drive(port_of(saver, on_loop=False).put_step(step("1", "t1")))
    assert saver.calls == ["writes t1", "put 1"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Sync, ["writes t1 path", "put 1", "get"]), (Async, ["awrites t1 path", "aput 1", "aget"])],
)
async def test_on_a_loop_every_saver_works(kind: Any, expected: list[str]) -> None:
    saver = kind()
    port = port_of(saver, on_loop=True)
    await port.put_step(step("1", "t1"))
    await port.get_tuple({})
    assert saver.calls == expected
    assert [one async for one in port.list(None)] == [1, 2]


def test_a_blocking_caller_is_told_when_a_saver_needs_a_loop() -> None:
    with pytest.raises(ColourError, match="ainvoke"):
        port_of(Async(), on_loop=False)


async def test_a_thread_under_the_loop_reaches_its_saver() -> None:
    saver, loop = Async(), asyncio.get_running_loop()

    def below() -> list[Any]:
        port = port_of(saver, on_loop=False, loop=loop)

        async def work() -> list[Any]:
            await port.put_step(step("1", "t1"))
            return [one async for one in port.list(None)]

        return drive(work())

    assert await asyncio.to_thread(below) == [1, 2]
    assert saver.calls == ["awrites t1 path", "aput 1"]
    with pytest.raises(ColourError):
        port_of(saver, on_loop=False, loop=loop)


def test_our_own_savers_take_whole_supersteps() -> None:
    assert port_of(InMemorySaver(), on_loop=False).grouped
    assert not port_of(Sync(), on_loop=False).grouped


def test_a_writer_that_cannot_encode_copies_one_level() -> None:
    writer, value, inner = CopyingWriter(), [1], [2]
    value.append(inner)  # type: ignore[arg-type]
    writer.add(step("1", "t", value=value))
    value.append(3)
    (kept,) = writer.take()
    assert kept.checkpoint is not None
    assert kept.checkpoint["channel_values"]["log"] == [1, [2]]
    assert kept.writes[0][2][0][1] == [1, [2]]
    assert writer.take() == []


# -- durabilities


def at_once(job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """A background that runs each job when it is handed in."""
    drive(job())

    async def join() -> None:
        return None

    return join


def held(jobs: list[Callable[[], Awaitable[None]]]) -> Any:
    """A background that runs nothing until it is joined."""

    def spawn(job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        jobs.append(job)

        async def join() -> None:
            if job in jobs:
                jobs.remove(job)
                await job()

        return join

    return spawn


def test_sync_stores_when_it_is_told_to() -> None:
    saver = Sync()
    saving = saving_for("sync", port_of(saver, on_loop=False), at_once)
    drive(saving.superstep(step("1", "t")))
    assert saver.calls == ["writes t path", "put 1"]


def test_async_stores_in_order_and_no_later_than_the_end() -> None:
    saver, jobs = Sync(), []  # type: ignore[var-annotated]
    saving = saving_for("async", port_of(saver, on_loop=False), held(jobs))
    for number in range(3):
        drive(saving.superstep(step(str(number), f"t{number}")))
    assert saver.calls == []
    drive(saving.close(keep=True))
    assert [call for call in saver.calls if call.startswith("put")] == ["put 0", "put 1", "put 2"]
    assert saver.calls[:2] == ["writes t0 path", "put 0"]


def test_async_is_never_far_behind() -> None:
    saver, jobs = Sync(), []  # type: ignore[var-annotated]
    saving = saving_for("async", port_of(saver, on_loop=False), held(jobs))
    for number in range(200):
        drive(saving.superstep(step(str(number))))
        assert number - len(saver.calls) <= 65
    drive(saving.close(keep=True))
    assert saver.calls == [f"put {number}" for number in range(200)]


def test_an_error_in_the_background_surfaces() -> None:
    class Full(Sync):
        def put(self, *args: Any) -> Any:
            raise OSError("disk full")

    saving = saving_for("async", port_of(Full(), on_loop=False), at_once)
    drive(saving.superstep(step("1")))
    with pytest.raises(OSError, match="disk full"):
        drive(saving.superstep(step("2")))
    with pytest.raises(OSError, match="disk full"):
        drive(saving.close(keep=True))


@pytest.mark.parametrize(("keep", "calls"), [(True, ["put 2"]), (False, [])])
def test_exit_stores_the_last_alone_or_nothing(keep: bool, calls: list[str]) -> None:
    saver = Sync()
    saving = saving_for("exit", port_of(saver, on_loop=False), at_once)
    for number in (1, 2):
        drive(saving.superstep(step(str(number), "t")))
    assert saver.calls == []
    drive(saving.close(keep=keep))
    assert saver.calls == calls


def test_exit_stores_the_writes_of_an_unfinished_superstep() -> None:
    saver = Sync()
    saving = saving_for("exit", port_of(saver, on_loop=False), at_once)
    drive(saving.superstep(step("1", "t")))
    config = {"configurable": {"checkpoint_id": "1"}}
    drive(saving.tasks(config, [("u", "path", [("log", 1)])]))
    drive(saving.tasks(config, [("u", "path", [("log", 2)])]))
    drive(saving.close(keep=True))
    assert saver.calls == ["put 1", "writes u path"]


def test_a_durability_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'often'"):
        saving_for("often", port_of(Sync(), on_loop=False), at_once)
