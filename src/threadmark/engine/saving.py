"""When and in what order things reach the saver: the three durabilities (spec 9, house 6)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import deepcopy
from typing import Any

from threadmark import ids
from threadmark.checkpoint.base import UNSET, NextStep, Step, TaskWrites, empty_checkpoint
from threadmark.engine.deltas import COUNTERS, exit_path, exit_task_id
from threadmark.engine.port import SaverPort

BACKLOG = 64
"""Steps that may wait for the disk before an ``async`` run waits for them: a crash loses no more than these."""

Spawn = Callable[[Callable[[], Awaitable[None]]], Callable[[], Awaitable[None]]]
"""Starts a background job and gives back how to wait for it."""


class Later:
    """A step's ``shown_writes`` for ``exit``: made once it is known that the step is stored."""

    __slots__ = ("made",)

    def __init__(self, made: Callable[[], Any]) -> None:
        self.made = made


class Saving:
    """``sync``: everything is on disk when the call returns."""

    takes_writes = True
    """Whether it stores task writes that come with their checkpoint."""
    ends_whole = True
    """Whether a cancelled ``close`` leaves nothing undone."""
    brief = False
    """Whether supersteps may be noted in a journal."""
    ends_in_one = False
    """Whether it stores the last checkpoint only."""

    def __init__(self, port: SaverPort) -> None:
        self.port = port
        self._writer: Any = None

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        """Store what finished tasks wrote, while others of their superstep still run."""
        await self.port.put_step(Step(config=config, writes=writes))

    async def superstep(self, step: Step) -> None:
        """Store a checkpoint, with the writes of its parent's tasks that are not stored yet."""
        writer = self._writer
        if writer is None:
            # One for all supersteps of the run: it knows the last one, on which the next one builds.
            writer = self._writer = self.port.open_writer(step.config)
        writer.add(step)
        await self.port.flush(writer)

    def follow(self, about: Any, parent: str, step: NextStep) -> bool:
        """Hand in what is to be stored behind the last superstep, if the saver takes it so; see its writer."""
        follow = getattr(self._writer, "follow", None)
        return follow is not None and follow(about, parent, step)

    async def followed(self) -> None:
        """Store what was handed in."""
        await self.port.flush(self._writer)

    def journal(self, about: Any, name: Callable[..., str], *, guarded: bool) -> Any:
        """What takes the run's next supersteps said briefly, if the saver has use for that; see its writer."""
        opened = getattr(self._writer, "journal", None)
        return None if opened is None else opened(about, name, guarded=guarded)

    def put_off(self, make: Callable[[], Step], moved: Collection[str]) -> bool:
        """Whether it is enough to know how the superstep is made, if it is the last one; these channels have moved."""
        return False

    def hold(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        """The writes of the next superstep as they are now: reducers are about to get them in their hands."""
        if self._writer is None:
            self._writer = self.port.open_writer(config)
        hold = getattr(self._writer, "hold", None)
        if hold is not None:
            hold(writes)

    async def settle(self) -> None:
        """Wait until all that was handed over is on disk; raises what went wrong with it."""

    async def close(self, *, keep: bool) -> None:
        """The run is over. ``keep``: whether what was put off is to be stored."""


class Background(Saving):
    """``async``: encoded at once, written in order by one job that groups what has gathered meanwhile."""

    def __init__(self, port: SaverPort, spawn: Spawn) -> None:
        super().__init__(port)
        self._spawn = spawn
        self._first: Any = None
        """The writer that was opened first: whatever others of this run and its children are given, it stores."""
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

    def open(self, config: Any) -> Any:
        """A writer for one run, whose steps are stored in the order in which all of them are given theirs."""
        with self._adding:
            writer = self.port.open_writer(config) if self._first is None else self._first.beside(config)
            self._first = self._first or writer
            return writer

    async def _add(self, step: Step) -> None:
        if self._writer is None:
            self._writer = self.open(step.config)
        await self.add(self._writer, step)

    async def add(self, writer: Any, step: Step) -> None:
        """Store a step that came to this writer."""
        self._raise()
        with self._adding:  # called tasks hand over from threads of their own
            writer.add(step)
        await self.followed()

    def follow(self, about: Any, parent: str, step: NextStep) -> bool:
        self._raise()
        with self._adding:
            return super().follow(about, parent, step)

    async def followed(self) -> None:
        """Store in the background what was handed in, by this run or a child of it."""
        with self._lock:
            self._behind += 1
            start, full = not self._running, self._behind > BACKLOG
            self._running = True
        if start:
            self._join = self._spawn(self._drain)
        if full and self._join is not None:
            await self._join()
            self._raise()

    def hold(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        if self._writer is None:
            self._writer = self.open(config)
        with self._adding:
            super().hold(config, writes)

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._behind or self._error is not None:
                    self._running = False
                    return
                self._behind = 0
            try:
                await self.port.flush(self._first)
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


class Beside(Saving):
    """``async`` for a child: what its parent's run saves in the background, and in the same order.

    A child of three supersteps on SQLite takes two thirds of the time that it takes with a commit of its own. Whoever
    reads its thread while its parent runs on waits first (``settle``).
    """

    def __init__(self, port: SaverPort, around: Background) -> None:
        super().__init__(port)
        self.around = around

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        await self.superstep(Step(config=config, writes=writes))

    async def superstep(self, step: Step) -> None:
        if self._writer is None:
            self._writer = self.around.open(step.config)
        await self.around.add(self._writer, step)

    def follow(self, about: Any, parent: str, step: NextStep) -> bool:
        self.around._raise()
        with self.around._adding:
            return super().follow(about, parent, step)

    async def followed(self) -> None:
        await self.around.followed()

    def hold(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        if self._writer is None:
            self._writer = self.around.open(config)
        super().hold(config, writes)

    async def settle(self) -> None:
        await self.around.settle()


class AtExit(Saving):
    """``exit``: the newest checkpoint and the writes of an unfinished superstep, when the run ends.

    What the run wrote to delta channels goes with it: as writes of the checkpoint that the last one hangs on, which
    on a new thread is an empty stub (spec 8.7).
    """

    ends_whole = False

    def __init__(self, port: SaverPort, deltas: Sequence[str]) -> None:
        super().__init__(port)
        self._deltas = frozenset(deltas)
        self.takes_writes = bool(deltas)
        self.ends_in_one = not deltas
        # Made now, so that it is older than every checkpoint of the run.
        self._stub_id = ids.checkpoint_id(-2) if deltas else None
        self._last: Step | None = None
        self._make: Callable[[], Step] | None = None
        """What makes it, if it is newer than that."""
        self._parent: Any = None
        self._expected_head: Any = UNSET
        self._moved: dict[str, Any] = {}
        self._writes: dict[str, TaskWrites] = {}
        self._held: Sequence[TaskWrites] = ()
        self._at: Any = None
        self._delta_writes: list[tuple[int, TaskWrites]] = []
        self._whole: dict[str, Any] = {}
        self._cadence: Any = None
        self._next_version: Callable[[Any, None], Any] | None = None

    async def tasks(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        self._at = config
        for task_writes in writes:
            self._writes[task_writes[0]] = task_writes

    def hold(self, config: Any, writes: Sequence[TaskWrites]) -> None:
        # Nothing is encoded before the end, so that only a copy stays as it is.
        self._held = [
            (id, path, deepcopy([one for one in pairs if one[0] in self._deltas])) for id, path, pairs in writes
        ]

    async def superstep(self, step: Step) -> None:
        if self._parent is None:
            self._parent = step.config  # what is stored already stays the parent
            self._expected_head = step.expected_head
        if self._deltas:
            self._gather(step)
        self._moved.update(step.new_versions)
        self._writes.clear()
        self._last, self._make = step, None

    def put_off(self, make: Callable[[], Step], moved: Collection[str]) -> bool:
        if self._last is None:  # from which it learns what is stored
            return False
        self._moved.update(dict.fromkeys(moved))
        self._writes.clear()
        self._make = make
        return True

    def note_deltas(self, cadence: Any, state: Any, next_version: Callable[[Any, None], Any]) -> None:
        """What the run's last checkpoint is to hold whole, should it be the one that is made now."""
        self._cadence, self._next_version = cadence, next_version
        self._whole = cadence.due(state)

    def _gather(self, step: Step) -> None:
        number = int((step.metadata or {}).get("step", 0))
        writes, self._held = self._held or step.writes, ()
        merged = {**self._writes, **{task_id: (task_id, path, pairs) for task_id, path, pairs in writes}}
        for task_id, path, pairs in merged.values():
            kept = [pair for pair in pairs if pair[0] in self._deltas]
            if kept and task_id != ids.NULL_TASK_ID:
                self._delta_writes.append((number, (task_id, path, kept)))

    async def close(self, *, keep: bool) -> None:
        make, self._make = self._make, None
        if not keep:
            return
        last = self._last if make is None else make()
        steps = [] if last is None else self._final(last)
        if self._writes:
            steps.append(Step(config=self._at, writes=list(self._writes.values())))
        if not steps:
            return
        writer = self.port.open_writer(steps[0].config)
        for step in steps:
            writer.add(step)
        await self.port.flush(writer)

    def _final(self, last: Step) -> list[Step]:
        """The last checkpoint under its parent, and what rebuilds its delta channels before it."""
        shown, checkpoint = last.shown_writes, last.checkpoint
        assert checkpoint is not None
        versions = checkpoint["channel_versions"]
        last = last._replace(
            config=self._parent,
            shown_writes=shown.made() if isinstance(shown, Later) else shown,
            writes=(),
            new_versions={name: versions.get(name, version) for name, version in self._moved.items()},
            expected_head=self._expected_head,
            looked=None,
            lengthened={},
        )
        if not self._deltas:
            return [last]
        last = self._with_snapshots(last)
        writes = self._anchored()
        if not writes:
            return [last]
        steps = []
        configurable = self._parent["configurable"]
        if configurable.get("checkpoint_id") is None:
            stub: Any = {**empty_checkpoint(), "id": self._stub_id}
            steps.append(
                Step(config=self._parent, checkpoint=stub, metadata={"step": -2}, expected_head=self._expected_head)
            )
            anchor: Any = {**self._parent, "configurable": {**configurable, "checkpoint_id": self._stub_id}}
            last = last._replace(config=anchor, expected_head=UNSET if self._expected_head is UNSET else self._stub_id)
        return [*steps, Step(config=last.config, writes=writes), last]

    def _with_snapshots(self, last: Step) -> Step:
        checkpoint: Any = dict(last.checkpoint or {})
        checkpoint["channel_values"] = {**checkpoint["channel_values"], **self._whole}
        versions = checkpoint["channel_versions"] = dict(checkpoint["channel_versions"])
        moved = dict(last.new_versions)
        for name in self._whole:
            if name not in moved and self._next_version is not None:
                versions[name] = moved[name] = self._next_version(max(versions.values()), None)
        self._cadence.held(self._whole)
        metadata: Any = {key: value for key, value in (last.metadata or {}).items() if key != COUNTERS}
        if counts := self._cadence.metadata():
            metadata[COUNTERS] = counts
        return last._replace(checkpoint=checkpoint, metadata=metadata, new_versions=moved)

    def _anchored(self) -> list[TaskWrites]:
        first = min((number for number, _ in self._delta_writes), default=0)
        out: list[TaskWrites] = []
        for number, (task_id, path, pairs) in self._delta_writes:
            kept = [pair for pair in pairs if pair[0] not in self._whole]
            if kept:
                early = number == first
                out.append((exit_task_id(number, task_id, first=early), exit_path(number, path, first=early), kept))
        return out


def saving_for(
    durability: str, port: SaverPort, spawn: Spawn, deltas: Sequence[str] = (), around: Saving | None = None
) -> Saving:
    """The way of saving that a durability names; raises ``ValueError`` for one that does not exist.

    ``around`` is how the run saves that this one is called in, if it is of the same colour and has the same saver.
    """
    if durability == "sync" or (durability == "async" and port.instant):
        saving = Saving(port)
        saving.brief = port.instant
        return saving
    if durability == "async":
        around = around.around if isinstance(around, Beside) else around
        return Beside(port, around) if isinstance(around, Background) and port.shares else Background(port, spawn)
    if durability == "exit":
        return AtExit(port, deltas)
    raise ValueError(f"durability must be 'sync', 'async' or 'exit', not {durability!r}")


__all__ = ["Later", "Saving", "saving_for"]
