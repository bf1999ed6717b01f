"""A store of ours as the source or the target of a migration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.names import config_of, without_secrets
from threadmark.checkpoint.records import HIDDEN
from threadmark.interop.carried import carrying
from threadmark.interop.rows import StoredCheckpoint, StoredWrite, ThreadRows, calls, same
from threadmark.interop.weights import weigh

__all__ = ["OwnSource", "OwnTarget", "steps"]

_NOTHING: Final = object()


class OwnSource:
    """A saver of ours, read with a serializer that carries what it cannot make."""

    def __init__(self, name: str, saver: Any) -> None:
        self.name = without_secrets(name)
        self._saver = saver.with_serde(carrying(saver.serde))
        self.serde = self._saver.serde

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        return sorted(self._saver.thread_ids())

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread."""
        rows = ThreadRows(thread_id)
        paths, hidden = self._saver._drive(_tasks(self._saver._port, thread_id))
        if hidden:
            rows.problems.append(
                f"{hidden} checkpoints are kept unseen for delta channels after pruning; go on from the newest one, "
                f"which can be copied once it holds them whole"
            )
        for found in self._saver.list({"configurable": {"thread_id": thread_id}}):
            place = found.config["configurable"]
            ns, id = place["checkpoint_ns"], place["checkpoint_id"]
            parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
            made: Any = {**found.checkpoint}
            rows.checkpoints.append(
                StoredCheckpoint(ns, id, parent, made, dict(found.metadata), {}, False, found.shown_writes)
            )
            for number, (task_id, channel, value) in enumerate(found.pending_writes or ()):
                path = paths.get((ns, id, task_id), "")
                rows.writes.append(StoredWrite(ns, id, task_id, path, number, channel, value, 0))
        rows.checkpoints.sort(key=lambda one: (one.id, one.ns))
        return rows

    def size(self) -> int | None:
        """Not known."""
        return None

    def close(self) -> None:
        """Let go of the store."""
        self._saver.close()


async def _tasks(port: Any, thread_id: str) -> tuple[Mapping[tuple[str, str, str], str], int]:
    """The path of each task that has stored anything, and how many checkpoints nobody sees."""
    async with port.read() as view:
        thread = await view.thread(thread_id)
        if thread is None:
            return {}, 0
        tasks = await view.every_task(thread)
        hidden = sum(1 for row in await view.every_checkpoint(thread) if row.flags & HIDDEN)
    return {(task.ns, task.id, task.task_id): task.path for task in tasks}, hidden


class OwnTarget(OwnSource):
    """A saver of ours that takes threads in, each in one go."""

    def has(self, thread_id: str) -> bool:
        """Whether anything of a thread is there."""
        return thread_id in self._saver.thread_ids()

    def write(self, rows: ThreadRows) -> None:
        """Store a thread: in one transaction where the store has them."""
        writer = self._saver.open_writer(config_of(rows.thread_id, "", ""))
        for step in steps(rows):
            writer.add(step)
        writer.flush()

    def delete(self, thread_id: str) -> None:
        """Remove a thread."""
        self._saver.delete_thread(thread_id)

    def weights(self, thread_id: str) -> dict[str, int]:
        """The bytes that a thread's rows take here, by channel; those of its checkpoints themselves under ``""``."""
        saver = self._saver
        return dict(saver._drive(weigh(saver._port, saver._codec, saver._caches, thread_id)))


def steps(rows: ThreadRows) -> Iterator[Step]:
    """The supersteps of a thread, as its engine stored them: writes with the checkpoint that takes them in."""
    writes = rows.by_place()
    there = {(one.ns, one.id): one for one in rows.checkpoints}
    for one in rows.checkpoints:
        parent = there.get((one.ns, one.parent or ""))
        mine: Sequence[Any] = calls(writes.pop((one.ns, one.parent or ""), ())) if parent is not None else ()
        before = parent.checkpoint if parent is not None else None
        made: Any = one.checkpoint
        yield Step(
            _config(rows.thread_id, one.ns, one.parent),
            made,
            one.metadata,  # type: ignore[arg-type]
            _moved(made, before),
            mine,
            one.shown_writes,
        )
    for (ns, id), left in writes.items():
        if (ns, id) in there:
            yield Step(config_of(rows.thread_id, ns, id), writes=calls(left))


def _config(thread_id: str, ns: str, id: str | None) -> Any:
    config = config_of(thread_id, ns, id or "")
    if id is None:
        del config["configurable"]["checkpoint_id"]
    return config


def _moved(checkpoint: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Channels whose version moved, or whose value is another one although it did not.

    LangGraph stores some values late: a join may be stored as it stood a superstep later.
    """
    versions = checkpoint["channel_versions"]
    if before is None:
        return dict(versions)
    old, now, then = before["channel_versions"], checkpoint["channel_values"], before["channel_values"]
    return {
        channel: version
        for channel, version in versions.items()
        if old.get(channel) != version or not same(now.get(channel, _NOTHING), then.get(channel, _NOTHING))
    }
