"""When and in what order things reach the saver: the three durabilities (spec 9, house 6)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from threadmark.checkpoint.base import Step, TaskWrites
from threadmark.engine.port import SaverPort

BACKLOG = 64
"""Steps that may wait for the disk before an ``async`` run waits for them: a crash loses no more than these."""

Spawn = Callable[[Callable[[], Awaitable[None]]], Callable[[], Awaitable[None]]]
"""Starts a background job and gives back how to wait for it."""


class Saving:
    """``sync``: everything is on disk when the call returns."""

    def __init__(self, port: SaverPort) -> None:
        self.port = port

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        """Store what finished tasks wrote, while others of their superstep still run."""
        await self.port.put_step(Step(config=config, writes=writes))

    async def superstep(self, step: Step) -> None:
        """Store a checkpoint, with the writes of its parent's tasks that are not stored yet."""
        await self.port.put_step(step)

    async def settle(self) -> None:
        """Wait until all that was handed over is on disk; raises what went wrong with it."""

    async def close(self, *, keep: bool) -> None:
        """The run is over. ``keep``: whether what was put off is to be stored."""


class Background(Saving):
    """``async``: encoded at once, written in order by one job that groups what has gathered meanwhile."""

    def __init__(self, port: SaverPort, spawn: Spawn) -> None:
        super().__init__(port)
        self._spawn = spawn
        self._writer: Any = None
        self._lock = threading.Lock()
        self._adding = threading.Lock()
        self._behind = 0
        self._join: Callable[[], Awaitable[None]] | None = None
        self._running = False
        self._error: BaseException | None = None

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        await self._add(Step(config=config, writes=writes))

    async def superstep(self, step: Step) -> None:
        await self._add(step)

    async def _add(self, step: Step) -> None:
        self._raise()
        with self._adding:  # called tasks hand over from threads of their own
            if self._writer is None:
                self._writer = self.port.open_writer(step.config)
            self._writer.add(step)
        with self._lock:
            self._behind += 1
            start, full = not self._running, self._behind > BACKLOG
            self._running = True
        if start:
            self._join = self._spawn(self._drain)
        if full and self._join is not None:
            await self._join()
            self._raise()

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._behind or self._error is not None:
                    self._running = False
                    return
                self._behind = 0
            try:
                await self.port.flush(self._writer)
            except BaseException as error:
                with self._lock:
                    self._error = error

    async def settle(self) -> None:
        while self._join is not None and self._running:
            await self._join()
        self._raise()

    async def close(self, *, keep: bool) -> None:
        await self.settle()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


class AtExit(Saving):
    """``exit``: the newest checkpoint and the writes of an unfinished superstep, when the run ends."""

    def __init__(self, port: SaverPort) -> None:
        super().__init__(port)
        self._last: Step | None = None
        self._parent: Any = None
        self._moved: dict[str, Any] = {}
        self._writes: dict[str, TaskWrites] = {}
        self._at: Any = None

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        self._at = config
        for task_writes in writes:
            self._writes[task_writes[0]] = task_writes

    async def superstep(self, step: Step) -> None:
        if self._parent is None:
            self._parent = step.config  # what is stored already stays the parent
        self._moved.update(step.new_versions)
        self._writes.clear()
        self._last = step

    async def close(self, *, keep: bool) -> None:
        if not keep:
            return
        steps = []
        if self._last is not None:
            steps.append(self._last._replace(config=self._parent, writes=(), new_versions=self._moved))
        if self._writes:
            steps.append(Step(config=self._at, writes=list(self._writes.values())))
        if not steps:
            return
        writer = self.port.open_writer(steps[0].config)
        for step in steps:
            writer.add(step)
        await self.port.flush(writer)


def saving_for(durability: str, port: SaverPort, spawn: Spawn) -> Saving:
    """The way of saving that a durability names; raises ``ValueError`` for one that does not exist."""
    if durability == "sync":
        return Saving(port)
    if durability == "async":
        return Background(port, spawn)
    if durability == "exit":
        return AtExit(port)
    raise ValueError(f"durability must be 'sync', 'async' or 'exit', not {durability!r}")


__all__ = ["Saving", "saving_for"]
