"""Rows as documents, and documents as rows. Pure.

Everything of a saver is in one collection, so that one command can write all of a change. A row belongs to a thread by
the thread's key and is never changed: one that takes its place is a document of its own, born later. docs/reference/
savers.md says what the fields mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bson import ObjectId

from threadmark.checkpoint.records import HIDDEN, CheckpointRow, Columns, TaskRow, Thread
from threadmark.errors import DamagedRow

Document: TypeAlias = dict[str, Any]
Name: TypeAlias = tuple[str, "str | None", Any, "str | None"]
"""Kind, namespace, id and task id: what a row is called in its thread."""

THREAD, CHECKPOINT, TASK, VALUE, SEGMENT = "thread", "checkpoint", "task", "value", "segment"
PART, GRAVE = "part", "grave"

PART_BYTES: Final = 8 << 20
"""A longer body is kept in documents of its own: no document of MongoDB may be longer than 16 MiB."""
LENGTHS: Final = dict.fromkeys(("kind", "ns", "id", "task", "born", "part", "parts"), 1) | {
    "length": {"$binarySize": "$body"}
}
"""What documents are called, with the length of their bodies."""
_COLUMNS: Final = tuple(name for name in Columns._fields if name != "ts")
SHOWN: Final = {"$in": [None, *(flags for flags in range(4) if not flags & HIDDEN)]}
"""The flags of checkpoints that are not hidden."""


class Key(NamedTuple):
    """What a thread's rows belong to; ``object_id`` is made with the thread and never again."""

    thread_id: str
    object_id: ObjectId


class Standing(NamedTuple):
    """How a thread stood when its document was read."""

    key: Key
    salt: bytes
    version: int
    """Changes that it has seen."""
    removed: int = 0
    """The version at which rows were removed last."""
    last: ObjectId | None = None
    """The change that made the version, as long as its rows carry its mark."""
    expires: Any = None
    kept: Any = None
    """Every row stays until then at least; None for ever."""

    @property
    def thread(self) -> Thread:
        """The thread as operations know it."""
        return Thread(self.key, self.salt)

    def unmoved(self) -> Document:
        """The query for the thread's document as long as it stands so."""
        return {"_id": self.key.thread_id, "thread": self.key.object_id, "version": self.version}

    def visible(self) -> Document:
        """What the rows of this standing have in common."""
        match: Document = {"born": {"$lte": self.version}, "by": None}
        if self.last is not None:
            match |= {"by": {"$in": [None, self.last]}, "gone": {"$ne": self.last}}
        return match

    def sees(self, document: Document) -> bool:
        """The same, asked of a document."""
        return bool(
            document.get("thread") == self.key.object_id
            and document["born"] <= self.version
            and document.get("by") in (None, self.last)
            and (self.last is None or self.last not in document.get("gone", ()))
        )


class Want(NamedTuple):
    """Some rows of a thread: of one kind, or two, with one of these names; None for any."""

    kind: Sequence[str]
    ns: Collection[str] | None = None
    id: Collection[Any] | None = None
    task: Collection[str] | None = None
    shown: bool = False
    """Only those that are not hidden."""
    before: str | None = None
    """Only those with a smaller id."""
    first: int = 0
    """Only so many, by falling id; 0 for all in any order."""
    tasks: bool = False
    """The tasks of those too."""
    line: tuple[str, int | None] | None = None
    """Only those with this id or an ancestor's, and so many generations at most."""
    bodies: bool = True
    """Whether bodies are wanted, else their ``length`` in bytes; None for one that is in parts."""

    def match(self, standing: Standing) -> Document:
        """The query for them."""
        found: Document = {"thread": standing.key.object_id, "kind": _one_of(self.kind)}
        if self.ns is not None:
            found["ns"] = _one_of(self.ns)
        elif VALUE in self.kind or SEGMENT in self.kind:
            found["ns"] = None
        if self.id is not None:
            found["id"] = _one_of(self.id)
        if self.task is not None:
            found["task"] = _one_of(self.task)
        if self.before is not None:
            found["id"] = {"$lt": self.before} | ({"$in": list(self.id)} if self.id is not None else {})
        if self.shown:
            found["flags"] = SHOWN
        return found | standing.visible()

    def stages(self, collection: str, standing: Standing, without: Collection[ObjectId]) -> list[Document]:
        """The query as stages of a pipeline; ``without`` are documents that are to be passed over."""
        match = self.match(standing)
        if without:
            match["_id"] = {"$nin": list(without)}
        stages: list[Document] = [{"$match": match}]
        if self.line is not None:
            stages = _ancestors(collection, standing, match, *self.line)
        if self.first:
            stages += [{"$sort": {"id": -1, "born": -1}}, {"$limit": self.first}]
        if self.tasks:
            same = {**match, "kind": {"$in": [CHECKPOINT, TASK]}}
            stages += _unwound({"from": collection, "startWith": "$id", "maxDepth": 0, "restrictSearchWithMatch": same})
        if not self.bodies:
            stages.append({"$project": LENGTHS})
        return stages

    def takes(self, document: Document) -> bool:
        """Whether a document of this thread is one of them, or may be."""
        return (
            (document["kind"] in self.kind or (self.tasks and document["kind"] == TASK))
            and (self.ns is None or document.get("ns") in self.ns)
            and (self.id is None or document.get("id") in self.id)
            and (self.task is None or document.get("task") in self.task)
            and (self.before is None or document["id"] < self.before)
            and not (self.shown and document.get("flags", 0) & HIDDEN)
        )


def _ancestors(
    collection: str, standing: Standing, match: Document, id: str, generations: int | None
) -> list[Document]:
    """A checkpoint and its ancestors, and whatever else matches and has the id of one of them."""
    search: Document = {"from": collection, "startWith": {"$literal": id}, "restrictSearchWithMatch": match}
    if generations is not None:
        search["maxDepth"] = generations - 1
    return [{"$match": {"_id": standing.key.thread_id}}, *_unwound(search)]


def _unwound(search: Document) -> list[Document]:
    """What a search along parents finds, one by one: together it may be longer than a document."""
    whole = {**search, "connectFromField": "parent", "connectToField": "id", "as": "found"}
    return [{"$graphLookup": whole}, {"$unwind": "$found"}, {"$replaceRoot": {"newRoot": "$found"}}]


def _one_of(values: Collection[Any]) -> Any:
    listed = list(values)
    return listed[0] if len(listed) == 1 else {"$in": listed}


def name_of(document: Mapping[str, Any]) -> Name:
    """What a row is called in its thread."""
    return document["kind"], document.get("ns"), document.get("id"), document.get("task")


def latest(documents: Iterable[Document]) -> list[Document]:
    """Of rows with the same name the one that was born last."""
    found: dict[Name, Document] = {}
    for document in documents:
        name = name_of(document)
        other = found.get(name)
        if other is None or other["born"] < document["born"]:
            found[name] = document
    return list(found.values())


# -- from rows to documents ------------------------------------------------------------------------------------------


def checkpoint_document(row: CheckpointRow) -> Document:
    """A checkpoint; what is None or empty is left out."""
    document: Document = {"kind": CHECKPOINT, "ns": row.ns, "id": row.id}
    document |= {name: value for name in _COLUMNS if (value := getattr(row.columns, name)) is not None}
    if row.columns.ts:
        document["ts"] = row.columns.ts
    if row.flags:
        document["flags"] = row.flags
    document["body"] = row.body
    return document


def task_document(row: TaskRow) -> Document:
    """What one task wrote."""
    return {"kind": TASK, "ns": row.ns, "id": row.id, "task": row.task_id, "path": row.path, "body": row.body}


def body_document(kind: str, id: int | bytes, body: bytes) -> Document:
    """A value or a segment."""
    return {"kind": kind, "id": id, "body": body}


def cut(document: Document) -> list[Document]:
    """A document as it is stored: in parts, which come first, when its body is long."""
    body = document["body"]
    if len(body) <= PART_BYTES:
        return [document]
    owner = document["_id"]
    places = range(0, len(body), PART_BYTES)
    head = {name: value for name, value in document.items() if name != "body"} | {"parts": len(places)}
    shared = {name: document[name] for name in ("thread", "born", "by", "expires") if name in document}
    return [
        *(
            {"_id": ObjectId(), "kind": PART, "id": owner, "part": n, **shared, "body": body[at : at + PART_BYTES]}
            for n, at in enumerate(places)
        ),
        head,
    ]


# -- from documents to rows ------------------------------------------------------------------------------------------


def standing_of(document: Mapping[str, Any] | None) -> Standing | None:
    """How a thread stands, from its document."""
    if document is None:
        return None
    _expect(document, _id=str, thread=ObjectId, salt=bytes, version=int)
    return Standing(
        Key(document["_id"], document["thread"]),
        document["salt"],
        document["version"],
        document.get("removed", 0),
        document.get("last"),
        document.get("expires"),
        document.get("kept"),
    )


def checkpoint_of(document: Mapping[str, Any]) -> CheckpointRow:
    """A checkpoint row."""
    _expect(document, ns=str, id=str, body=bytes)
    columns = Columns(ts=document.get("ts", ""), **{name: document.get(name) for name in _COLUMNS})
    for value, kind in zip(columns, (str, str, int, str, str, str), strict=True):
        if value is not None and not isinstance(value, kind):
            raise _damaged(document, value)
    return CheckpointRow(document["ns"], document["id"], columns, document.get("flags", 0), document["body"])


def task_of(document: Mapping[str, Any]) -> TaskRow:
    """A task row."""
    _expect(document, ns=str, id=str, task=str, path=str, body=bytes)
    return TaskRow(document["ns"], document["id"], document["task"], document["path"], document["body"])


def bodies_of(documents: Iterable[Mapping[str, Any]], kind: type) -> dict[Any, bytes]:
    """Bodies of values or segments by their ids."""
    found = {}
    for document in documents:
        _expect(document, id=kind, body=bytes)
        found[document["id"]] = document["body"]
    return found


def _expect(document: Mapping[str, Any], **fields: type) -> None:
    for name, kind in fields.items():
        if not isinstance(document.get(name), kind):
            raise _damaged(document, document.get(name))


def _damaged(document: Mapping[str, Any], value: Any) -> DamagedRow:
    return DamagedRow(
        f"the document {document.get('_id')!s:.60} has {value!r:.40} in a field for something else; restore it from a "
        f"backup"
    )
