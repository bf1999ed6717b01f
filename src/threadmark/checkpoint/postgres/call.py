"""The call of the server's function ``store``, which stores rows of one thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from threadmark.checkpoint.postgres.wire import (
    BLOB,
    BLOBS,
    BOOL,
    INT,
    INTS,
    TEXT,
    TEXTS,
    Kind,
    begin_of_one,
    length,
    one_null,
    put_number,
    put_text,
)
from threadmark.checkpoint.records import CheckpointRow, TaskRow

__all__ = ["PARAMETERS", "Believed", "values_of"]

_HEADS: Final = (TEXTS, TEXTS)
_BASES: Final = (TEXTS, TEXTS, BLOBS)
_SEGMENTS: Final = (BLOBS, BLOBS)
_VALUES: Final = (INTS, BLOBS)
_TASKS: Final = (TEXTS, TEXTS, TEXTS, TEXTS, BLOBS)
_CHECKPOINTS: Final = (TEXTS, TEXTS, TEXTS, TEXTS, INTS, TEXTS, TEXTS, TEXTS, INTS, BLOBS)
PARAMETERS: Final = (
    BOOL, TEXT, INT, BLOB, *_HEADS, *_BASES, *_SEGMENTS, *_VALUES, *_TASKS, *_CHECKPOINTS,
)  # fmt: skip

_ONE_TEXT: Final = begin_of_one(TEXTS)
_ONE_BLOB: Final = begin_of_one(BLOBS)
_ONE_INT: Final = begin_of_one(INTS) + length(8)

Columns: TypeAlias = Sequence["bytes | None"]


class Believed(NamedTuple):
    """What has to be as it is said here, or else nothing is stored."""

    thread_id: str
    salt: bytes | None
    """Of a thread that is not there; None for one that is."""
    heads: Mapping[str, str | None]
    bases: Mapping[tuple[str, str], bytes]


def values_of(
    key: int,
    believed: Believed | None,
    segments: Collection[tuple[bytes, bytes]],
    values: Collection[tuple[int, bytes]],
    tasks: Collection[TaskRow],
    checkpoints: Collection[CheckpointRow],
) -> list[bytes | None]:
    """The values of the parameters; ``believed`` is None when the writer has looked itself and has the thread."""
    if believed is None:
        first: Columns = (b"\1", None, put_number(key), None, *_columns(_HEADS, ()), *_columns(_BASES, ()))
    else:
        thread_id, salt, heads, bases = believed
        first = (b"\0", put_text(thread_id), put_number(key), salt, *_heads(heads), *_bases(bases))
    return [*first, *_columns(_SEGMENTS, segments), *_values(values), *_tasks(tasks), *_checkpoints(checkpoints)]


def _columns(kinds: Sequence[Kind], rows: Collection[Sequence[Any]]) -> Columns:
    if not rows:
        return _empty(kinds)
    return [kind.put(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


@lru_cache(maxsize=8)
def _empty(kinds: Sequence[Kind]) -> Columns:
    return [kind.put(()) for kind in kinds]


# A step has one row of each kind as a rule, and most of its texts came before: its namespace, the checkpoint that it
# follows, its run, the name of a node. With the general way alone the call took
# 1,600 interpreter steps, a sixth of a superstep's; so it takes 420.


def _heads(heads: Mapping[str, str | None]) -> Columns:
    if len(heads) == 1:
        ((ns, id),) = heads.items()
        return _text(ns), _text(id)
    return _columns(_HEADS, heads.items())


def _bases(bases: Mapping[tuple[str, str], bytes]) -> Columns:
    if len(bases) == 1:
        (((ns, id), body),) = bases.items()
        return _text(ns), _text(id), _ONE_BLOB + length(len(body)) + body
    return _columns(_BASES, [(*name, body) for name, body in bases.items()])


def _values(values: Collection[tuple[int, bytes]]) -> Columns:
    if len(values) == 1:
        ((id, body),) = values
        return _ONE_INT + put_number(id), _ONE_BLOB + length(len(body)) + body
    return _columns(_VALUES, values)


def _tasks(tasks: Collection[TaskRow]) -> Columns:
    if len(tasks) == 1:
        ((ns, id, task_id, path, body),) = tasks
        return _text(ns), _text(id), _text(task_id), _text(path), _ONE_BLOB + length(len(body)) + body
    return _columns(_TASKS, tasks)


def _checkpoints(checkpoints: Collection[CheckpointRow]) -> Columns:
    if len(checkpoints) == 1:
        ((ns, id, (parent, source, step, run_id, ts, parents), flags, body),) = checkpoints
        return (
            _text(ns), _text(id), _text(parent), _text(source), _number(step), _text(run_id), _text(ts),
            _text(parents), _number(flags), _ONE_BLOB + length(len(body)) + body,
        )  # fmt: skip
    return _columns(_CHECKPOINTS, [(row.ns, row.id, *row.columns, row.flags, row.body) for row in checkpoints])


@lru_cache(maxsize=1024)
def _text(text: str | None) -> bytes:
    if text is None:
        return one_null(TEXTS)
    data = put_text(text)
    return _ONE_TEXT + length(len(data)) + data


@lru_cache(maxsize=1024)
def _number(number: int | None) -> bytes:
    return one_null(INTS) if number is None else _ONE_INT + put_number(number)
