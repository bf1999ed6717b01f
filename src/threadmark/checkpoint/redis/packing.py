"""Rows as bytes, and back. Pure; ``DamagedRow`` for bytes that are no row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from threadmark.checkpoint.records import CheckpointRow, Columns, TaskRow
from threadmark.checkpoint.redis.keys import BETWEEN, NOTHING, decoded, encoded
from threadmark.errors import DamagedRow

_COLUMNS: Final = 7
"""Texts before the body of a checkpoint's row. Scripts know that the parent is first, and the run fourth."""


def pack_checkpoint(row: CheckpointRow) -> bytes:
    """Columns, flags and body of a checkpoint; its name stands elsewhere."""
    parent, source, step, run_id, ts, parents = row.columns
    told = (parent, source, None if step is None else str(step), run_id, ts, parents, str(row.flags))
    return BETWEEN.join([*(NOTHING if each is None else encoded(each) for each in told), row.body])


def unpack_checkpoint(name: bytes, data: bytes) -> CheckpointRow:
    """The row of the checkpoint with this name."""
    ns, id = _texts(name, 2)
    *told, body = data.split(BETWEEN, _COLUMNS)
    if len(told) != _COLUMNS:
        raise _damaged(name)
    try:
        parent, source, step, run_id, ts, parents, flags = (None if each == NOTHING else decoded(each) for each in told)
        columns = Columns(parent, source, None if step is None else int(step), run_id, ts or "", parents)
        return CheckpointRow(ns, id, columns, int(flags or ""), body)
    except ValueError:
        raise _damaged(name) from None


def pack_task(row: TaskRow) -> bytes:
    """Path and body of a task's row."""
    return encoded(row.path) + BETWEEN + row.body


def unpack_task(name: bytes, data: bytes) -> TaskRow:
    """The row of a task; its name is its checkpoint's and its own id."""
    ns, id, task_id = _texts(name, 3)
    path, between, body = data.partition(BETWEEN)
    if not between:
        raise _damaged(name)
    try:
        return TaskRow(ns, id, task_id, decoded(path), body)
    except ValueError:
        raise _damaged(name) from None


def unpack_line(found: Sequence[Any]) -> tuple[list[CheckpointRow], list[TaskRow]]:
    """Rows of checkpoints and of their tasks, from names, rows and tasks."""
    rows, tasks = list[CheckpointRow](), list[TaskRow]()
    for name, data, flat in found:
        rows.append(unpack_checkpoint(name, data))
        tasks += [unpack_task(name + BETWEEN + task_id, body) for task_id, body in pairs(flat).items()]
    return rows, tasks


def segments_of(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Segments by key, from a list of fields and data."""
    return {field[1:]: data for field, data in zip(flat[::2], flat[1::2], strict=True)}


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Task rows by task id, from a list of both."""
    return {id: ordered(id, data) for id, data in zip(flat[::2], flat[1::2], strict=True)}


def ordered(name: bytes, data: bytes | None) -> bytes:
    """The row that the order of a thread, or a checkpoint's list of tasks, names."""
    if data is None:
        raise DamagedRow(f"the row {name[:80]!r} is named but not there; restore the thread from a backup")
    return data


def split_name(name: bytes) -> tuple[str, str]:
    """Namespace and id of a checkpoint."""
    ns, id = _texts(name, 2)
    return ns, id


def _texts(name: bytes, count: int) -> list[str]:
    parts = name.split(BETWEEN)
    try:
        if len(parts) == count:
            return [decoded(part) for part in parts]
    except ValueError:
        pass
    raise _damaged(name)


def _damaged(name: bytes) -> DamagedRow:
    return DamagedRow(f"the row {name[:80]!r} holds what was never written there; restore it from a backup")
