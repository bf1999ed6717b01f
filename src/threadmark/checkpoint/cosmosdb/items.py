"""What stands in a container: one head item for each thread, and packs, items that hold many rows each. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import ormsgpack

from threadmark.checkpoint.records import HIDDEN, CheckpointRow, Columns, TaskRow
from threadmark.errors import DamagedRow, ForeignDatabase

Name: TypeAlias = tuple[str, str]
"""Namespace and id of a checkpoint."""
Item: TypeAlias = dict[str, Any]

PATH: Final = "thread"
"""The field that partitions a container: one partition a thread."""
HEAD: Final = "thread"
"""The id of a thread's head item."""
FORMAT: Final = 1
_NAMES: Final = 8
"""Namespaces whose newest checkpoint a head names, those that were written last."""
_EARLY: Final = 64
_ANY: Final = "*"
"""Stands for more than so many task keys."""
_KEY_BYTES: Final = 255
"""Longer thread ids are cut and told apart by their hash: a partition key has at most 2,048 bytes."""
_PACK: Final = 48 * 1024
"""Bytes of rows at which a pack is full. A reader fetches packs whole."""
_CHUNK: Final = 1024 * 1024
"""Bytes of a row above which it is cut over several items; base64 makes a third more of them."""


class Place(NamedTuple):
    """Where a thread is: its partition, and the key that tells it from others that had its id before."""

    partition: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A thread: every transaction replaces it on the condition that nobody else has, and so becomes visible."""

    thread_id: str
    key: str
    salt: bytes
    number: int = 0
    """Transactions so far. What has a higher number is not there yet."""
    base: int = 0
    """What has a lower number is not there any more: a later transaction stored all that is left anew."""
    last: str = ""
    """The name of the last transaction."""
    newest: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By namespace the newest checkpoint that is not hidden, and its pack. Written last, standing last."""
    more: bool = False
    """Whether there are namespaces that ``newest`` does not name."""
    early: tuple[str, ...] = ()
    """Task keys of checkpoints that were not there when writes of their tasks were stored; all others had none."""
    etag: str | None = None
    """None while it is not stored."""

    def knows_early(self, key: str) -> bool:
        """Whether this task key may be among ``early``, which is cut short when there are too many."""
        return key in self.early or _ANY in self.early

    def item(self) -> Item:
        """As it is stored, without the partition."""
        return {
            "id": HEAD,
            "kind": "head",
            "format": FORMAT,
            "thread_id": self.thread_id,
            "key": self.key,
            "salt": _text(self.salt),
            "number": self.number,
            "base": self.base,
            "last_transaction": self.last,
            "newest": [[ns, id, pack] for ns, (id, pack) in self.newest.items()],
            "more": self.more,
            "early": list(self.early),
        }


def head_of(item: Item) -> Head:
    """A head from its item."""
    if item.get("kind") != "head" or item.get("format") != FORMAT:
        raise ForeignDatabase(
            f"the container holds an item that is no thread of this version's ({str(item.get('format'))[:20]!r}); "
            f"nothing was written to it. Name another container"
        )
    try:
        return Head(
            thread_id=item["thread_id"],
            key=item["key"],
            salt=_bytes(item["salt"]),
            number=item["number"],
            base=item["base"],
            last=item["last_transaction"],
            newest={ns: (id, pack) for ns, id, pack in item["newest"]},
            more=item["more"],
            early=tuple(item["early"]),
            etag=item["_etag"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged("a thread's head item") from error


def with_newest(
    newest: Mapping[str, tuple[str, str]], ns: str, id: str, pack: str
) -> tuple[dict[str, tuple[str, str]], bool]:
    """``newest`` with one more, and whether a namespace had to give way; the graph's own, ``""``, never does."""
    found = {other: named for other, named in newest.items() if other != ns}
    found[ns] = (id, pack)
    oldest = next((other for other in found if other), None)
    if len(found) > _NAMES and oldest is not None:
        del found[oldest]
        return found, True
    return found, False


def early_of(keys: Iterable[str]) -> tuple[str, ...]:
    """Task keys as a head names them."""
    found = tuple(dict.fromkeys(keys))
    return found if len(found) <= _EARLY else (_ANY,)


def new_key() -> str:
    """A name that nobody else has: of a thread, or of a transaction."""
    return base64.urlsafe_b64encode(os.urandom(9)).decode()


def partition_of(thread_id: str) -> str:
    """The partition key of a thread: its id, unless that is too long."""
    data = thread_id.encode()
    if len(data) <= _KEY_BYTES:
        return thread_id
    # Longer than any id that is taken as it is, so the two never meet.
    return thread_id[:_KEY_BYTES] + "#" + hashlib.sha256(data).hexdigest()


# -- rows in packs ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rows:
    """Rows of one thread. A later one takes the place of an earlier one with the same name."""

    checkpoints: dict[Name, CheckpointRow] = field(default_factory=dict)
    tasks: dict[Name, dict[str, TaskRow]] = field(default_factory=dict)
    values: dict[int, bytes] = field(default_factory=dict)
    segments: dict[bytes, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.values or self.segments or any(self.tasks.values()))

    def put_task(self, row: TaskRow) -> None:
        """Add a task row, or put it in the place of the one there is."""
        self.tasks.setdefault((row.ns, row.id), {})[row.task_id] = row

    def update(self, later: Rows) -> None:
        """Add rows that are later than these."""
        self.checkpoints.update(later.checkpoints)
        for name, tasks in later.tasks.items():
            self.tasks.setdefault(name, {}).update(tasks)
        self.values.update(later.values)
        self.segments.update(later.segments)

    def every_task(self) -> Iterator[TaskRow]:
        """All task rows."""
        for tasks in self.tasks.values():
            yield from tasks.values()


class Listed(NamedTuple):
    """What is readable of a checkpoint in its pack's item, for listings."""

    ns: str
    id: str
    parent: str | None
    flags: int
    ts: str


class Pack(NamedTuple):
    """An item with rows, and where it belongs in a thread's history."""

    id: str
    key: str
    number: int
    publisher: str | None
    """The pack without which this one does not count, when they were too much for one batch."""
    rows: Rows


def checkpoint_key(name: Name) -> str:
    """What a pack with this checkpoint is found by."""
    return "c" + _digest(*name)


def task_key(name: Name) -> str:
    """What a pack with writes of this checkpoint's tasks is found by."""
    return "t" + _digest(*name)


def namespace_key(ns: str) -> str:
    """What packs with checkpoints of a namespace are found by."""
    return "n" + _digest(ns)


def run_key(run_id: str) -> str:
    """What packs with checkpoints of a run are found by."""
    return "r" + _digest(run_id)


def value_key(id: int) -> str:
    """What a pack with this value row is found by."""
    return "v" + _text(id.to_bytes(8, "big")).rstrip("=")


def segment_key(key: bytes) -> str:
    """What a pack with this segment is found by."""
    return "s" + _text(key).rstrip("=")


def _digest(*texts: str) -> str:
    sizes = ",".join(str(len(text)) for text in texts)
    data = "\n".join((sizes, *texts)).encode()
    return _text(hashlib.blake2b(data, digest_size=12).digest())


def packed(rows: Rows, key: str, number: int, transaction: str) -> list[Item]:
    """Rows as items that are not yet published: packs, each followed by the pieces of a row too long for it.

    No item is longer than a request may be.
    """
    made = list[Item]()
    for draft in _drafts(rows):
        pieces = list[Item]()
        id = f"{number}-{transaction}-{len(made)}"
        stored = [[_cut(row, f"{id}-", key, pieces) for row in kind] for kind in draft.kinds]
        item: Item = {"id": id, "kind": "pack", "key": key, "number": number, "keys": sorted(draft.keys)}
        if draft.listed:
            item["listed"] = [list(each) for each in draft.listed]
            item["first"] = min(each.id for each in draft.listed)
            item["last"] = max(each.id for each in draft.listed)
        item["rows"] = _text(ormsgpack.packb(stored))
        made += (item, *pieces)
    return made


class _Draft:
    """A pack in the making: rows of each kind as lists whose last element is the body."""

    def __init__(self) -> None:
        self.kinds: tuple[list[list[Any]], ...] = ([], [], [], [])
        self.keys: set[str] = set()
        self.listed: list[Listed] = []
        self.size = 0


def _drafts(rows: Rows) -> Iterator[_Draft]:
    draft = _Draft()
    for kind, fields, keys, listed in _every(rows):
        size = len(fields[-1])
        if draft.size and draft.size + size > _PACK:
            yield draft
            draft = _Draft()
        draft.kinds[kind].append(fields)
        draft.keys.update(keys)
        draft.size += size + 64
        if listed is not None:
            draft.listed.append(listed)
    if draft.size:
        yield draft


def _every(rows: Rows) -> Iterator[tuple[int, list[Any], Sequence[str], Listed | None]]:
    """Every row: its kind, its fields, the keys it is found by. What publishes the others comes last."""
    for segment, data in rows.segments.items():
        yield 3, [segment, data], (segment_key(segment),), None
    for value, body in rows.values.items():
        yield 2, [value, body], (value_key(value),), None
    for task in rows.every_task():
        yield 1, list(task), (task_key((task.ns, task.id)),), None
    for name, row in rows.checkpoints.items():
        columns = row.columns
        keys = [checkpoint_key(name), namespace_key(row.ns)]
        if columns.run_id is not None:
            keys.append(run_key(columns.run_id))
        listed = Listed(row.ns, row.id, columns.parent, row.flags, columns.ts)
        yield 0, [row.ns, row.id, *columns, row.flags, row.body], keys, listed


def _cut(row: list[Any], prefix: str, key: str, pieces: list[Item]) -> list[Any]:
    """The row, with the ids of pieces in the place of a body that is too long."""
    body: bytes = row[-1]
    if len(body) <= _CHUNK:
        return row
    ids = []
    for at in range(0, len(body), _CHUNK):
        ids.append(f"{prefix}{len(pieces)}")
        pieces.append({"id": ids[-1], "kind": "piece", "key": key, "rows": _text(body[at : at + _CHUNK])})
    return [*row[:-1], ids]


def pieces_wanted(item: Item) -> list[str]:
    """Ids of the pieces of a pack's long rows."""
    return [id for kind in _unpacked(item) for row in kind if isinstance(row[-1], list) for id in row[-1]]


def pack_of(item: Item, pieces: Mapping[str, bytes]) -> Pack:
    """A pack from its item and the pieces that it wants."""
    found = Rows()
    try:
        checkpoints, tasks, values, segments = ([_whole(row, pieces) for row in kind] for kind in _unpacked(item))
        for ns, id, *columns, flags, body in checkpoints:
            found.checkpoints[ns, id] = CheckpointRow(ns, id, Columns(*columns), flags, body)
        for fields in tasks:
            found.put_task(TaskRow(*fields))
        found.values = dict(values)
        found.segments = dict(segments)
        return Pack(item["id"], item["key"], item["number"], item.get("publisher"), found)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"item {str(item.get('id'))[:80]}") from error


def _whole(row: list[Any], pieces: Mapping[str, bytes]) -> list[Any]:
    body = row[-1]
    return [*row[:-1], b"".join(pieces[id] for id in body)] if isinstance(body, list) else row


def _unpacked(item: Item) -> list[list[list[Any]]]:
    try:
        found: list[list[list[Any]]] = ormsgpack.unpackb(_bytes(item["rows"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"item {str(item.get('id'))[:80]}") from error
    return found


def piece_of(item: Item) -> bytes:
    """The bytes of a piece."""
    return _bytes(item["rows"])


def listed_in(item: Item) -> list[Listed]:
    """The checkpoints that an item lists."""
    try:
        return [Listed(*each) for each in item.get("listed", ())]
    except TypeError as error:
        raise _damaged("a list of checkpoints") from error


def newest_of(listed: Iterable[Listed]) -> Listed | None:
    """The one with the greatest id that is not hidden."""
    return max((each for each in listed if not each.flags & HIDDEN), key=lambda each: each.id, default=None)


def size_of(item: Item) -> int:
    """Bytes of an item as the SDK sends it."""
    return len(json.dumps(item, separators=(",", ":")))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, b"-_", validate=True)


def _damaged(what: str) -> DamagedRow:
    return DamagedRow(f"{what} in the container is not what was written; restore the account from a backup")
