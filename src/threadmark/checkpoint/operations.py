"""What a saver does, each operation written once for both colours over a port (house rule 5)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from threadmark.checkpoint.base import CheckpointTuple, Step, get_checkpoint_id, get_thread_id
from threadmark.checkpoint.codec import Codec, Draft, Name, Opened, ValueIds
from threadmark.checkpoint.records import Change, Port, Ref, Scope, TaskRow, View
from threadmark.errors import DamagedRow

_IDS = ValueIds()


class Recent:
    """What the newest checkpoints that were read or written hold, so that the next one can refer to it."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[Ref, dict[str, tuple[Any, Name]]] = OrderedDict()

    def get(self, ref: Ref) -> dict[str, tuple[Any, Name]] | None:
        return self._known.get(ref)

    def set(self, ref: Ref, names: dict[str, tuple[Any, Name]]) -> None:
        with self._lock:
            self._known[ref] = names
            while len(self._known) > self._size:
                self._known.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


class Encoded:
    """One step as bytes: what ``StepWriter.add`` makes."""

    __slots__ = ("draft", "tasks", "thread_id")

    def __init__(self, codec: Codec, step: Step) -> None:
        self.thread_id = get_thread_id(step.config)
        self.draft: Draft | None = codec.draft(step) if step.checkpoint is not None else None
        self.tasks: list[TaskRow] = []
        if step.writes:
            ns = str(step.config["configurable"].get("checkpoint_ns") or "")
            at = Ref(self.thread_id, ns, get_checkpoint_id(step.config))
            self.tasks = [codec.task_row(at, task_id, path, writes) for task_id, path, writes in step.writes]


async def store(port: Port, codec: Codec, recent: Recent, steps: Sequence[Encoded]) -> None:
    """Store steps in order, all of them or none."""
    fresh: dict[Ref, dict[str, tuple[Any, Name]]] = {}
    async with port.write() as change:
        for step in steps:
            for task in step.tasks:
                old = await change.add_task(step.thread_id, task)
                if old is not None:
                    await change.set_task(step.thread_id, codec.merge(old, task))
            if step.draft is not None:
                await _store_checkpoint(change, codec, recent, fresh, step.draft)
    for ref, names in fresh.items():
        recent.set(ref, names)


async def _store_checkpoint(
    change: Change, codec: Codec, recent: Recent, fresh: dict[Ref, dict[str, tuple[Any, Name]]], draft: Draft
) -> None:
    before: dict[str, tuple[Any, Name]] = {}
    if draft.parent:
        at = Ref(draft.ref.thread_id, draft.ref.ns, draft.parent)
        known = fresh.get(at) or recent.get(at)
        if known is None and (row := await change.checkpoint(at)) is not None:
            known = codec.open(row).before()
        before = known or {}
    names, rows = codec.place(draft, before, _IDS)
    if rows:
        await change.add_values(draft.ref.thread_id, rows)
    await change.put_checkpoint(codec.row(draft, names))
    versions = draft.skeleton["channel_versions"]
    fresh[draft.ref] = {channel: (versions[channel], name) for channel, name in names.items()}


async def find(port: Port, codec: Codec, recent: Recent, ref: Ref) -> CheckpointTuple | None:
    async with port.read() as view:
        row = await view.checkpoint(ref)
        if row is None:
            return None
        opened = codec.open(row)
        found = await _complete(view, codec, opened)
    recent.set(Ref(row.thread_id, row.ns, row.id), opened.before())
    return found


async def _complete(view: View, codec: Codec, opened: Opened) -> CheckpointTuple:
    row = opened.row
    wanted = [name for name in opened.names.values() if isinstance(name, int)]
    values = await view.values(row.thread_id, wanted) if wanted else {}
    if len(values) < len(wanted):
        raise DamagedRow(f"checkpoint {row.id} of thread {row.thread_id!r} lacks some of its values")
    return codec.tuple(opened, values, await view.tasks(Ref(row.thread_id, row.ns, row.id)))


async def scan(
    port: Port, codec: Codec, scope: Scope, keep: Callable[[Any], bool] | None, limit: int | None
) -> AsyncIterator[CheckpointTuple]:
    """Checkpoints in scope, one by one; what is deleted meanwhile is left out."""
    async with port.read() as view:
        keys = await view.keys(scope)
    left = limit
    for ref in keys:
        if left == 0:
            return
        async with port.read() as view:
            row = await view.checkpoint(ref)
            if row is None:
                continue
            opened = codec.open(row)
            if keep is not None and not keep(codec.metadata(opened)):
                continue
            found = await _complete(view, codec, opened)
        yield found
        left = None if left is None else left - 1


async def delete_thread(port: Port, recent: Recent, thread_id: str) -> None:
    async with port.write() as change:
        await change.drop_thread(thread_id)
    recent.clear()
