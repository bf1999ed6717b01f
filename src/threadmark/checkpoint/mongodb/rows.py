"""Rows in a collection: ``View`` over queries that each see a thread as it stood at one moment.

No query needs a snapshot of the server's. What a query finds is bounded by the version of the thread that the view
stands at, and the thread's document is read last in the same query: if rows were removed since, the view is spoilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from threadmark.checkpoint.mongodb.documents import (
    CHECKPOINT,
    LENGTHS,
    PART,
    SEGMENT,
    SHOWN,
    TASK,
    THREAD,
    VALUE,
    Document,
    Key,
    Standing,
    Want,
    bodies_of,
    checkpoint_of,
    latest,
    task_of,
)
from threadmark.checkpoint.mongodb.errors import door
from threadmark.checkpoint.mongodb.store import Store
from threadmark.checkpoint.records import (
    CheckpointRow,
    Conflict,
    Pieces,
    Ref,
    Scope,
    Sizes,
    Take,
    TaskRow,
    Thread,
    ThreadInfo,
)
from threadmark.checkpoint.trails import OneByOne
from threadmark.errors import DamagedRow

_BATCH: Final = 50_000
"""Ids in one query: a command may be 48 MB long."""
_MORE: Final = 16
"""How many names more than wanted are asked for: of some there may be two."""


class Rows(OneByOne):
    """The rows of one collection."""

    far: bool = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, Standing | None] = {}
        self._used = set[str]()
        """Threads of which something was told already: a newer standing would not fit to it."""
        self._believed = set[str]()
        """Threads that were told to be there as they are remembered: the next query shows whether that is so."""
        self._tasks: dict[tuple[Key, str, str], list[Document]] = {}
        """Documents of tasks that came with their checkpoint."""

    # -- how threads stand -------------------------------------------------------------------------------------------

    async def _standing(self, thread_id: str) -> Standing | None:
        if thread_id not in self._seen:
            self._seen[thread_id] = await self._store.standing(thread_id)
        return self._seen[thread_id]

    async def _select(self, key: Key, *wants: Want) -> list[Document]:
        """The rows that are wanted, each with its body where that is in parts."""
        thread_id = key.thread_id
        if thread_id not in self._seen:
            remembered = self._store.standings.get(thread_id)
            if remembered is None or remembered.key != key:
                await self._standing(thread_id)
            else:
                self._seen[thread_id] = remembered
        standing = self._seen[thread_id]
        while standing is not None and standing.key == key:
            found, now = await self._asked(standing, wants)
            same = now is not None and now.key == key
            if now is not None and same and now.version == standing.version:
                self._used.add(thread_id)
                return await self._whole(standing, found)
            if thread_id in self._used:
                if now is None or not same or now.removed > standing.version:
                    raise Conflict
                return await self._whole(standing, found)
            if thread_id in self._believed and not same:
                raise Conflict
            standing = self._seen[thread_id] = now
        return []

    async def _asked(self, standing: Standing, wants: Sequence[Want]) -> tuple[list[Document], Standing | None]:
        return await self._store.ask(standing, wants)

    async def _whole(self, standing: Standing, found: list[Document]) -> list[Document]:
        """The documents with their parts put together."""
        owners = {document["_id"]: document for document in found if "parts" in document and "length" not in document}
        if not owners:
            return found
        parts: dict[Any, dict[int, bytes]] = {owner: {} for owner in owners}
        match = {"thread": standing.key.object_id, "kind": PART, "ns": None, "id": {"$in": list(owners)}}
        with door(self._store.settings.place):
            for part in await self._store.driver.find(match):
                parts[part["id"]][part["part"]] = part["body"]
        for owner, document in owners.items():
            if len(parts[owner]) != document["parts"]:
                now = await self._store.standing(standing.key.thread_id)
                if now is None or now.key != standing.key or now.removed > standing.version:
                    raise Conflict
                raise DamagedRow(f"the document {owner} has lost parts of its body; restore it from a backup")
            document["body"] = b"".join(parts[owner][n] for n in range(document["parts"]))
        return found

    # -- one thread --------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: str) -> Thread | None:
        remembered = self._store.standings.get(thread_id)
        if remembered is not None and thread_id not in self._seen and not self.far:
            self._believed.add(thread_id)
            self._seen[thread_id] = remembered
        standing = await self._standing(thread_id)
        return standing.thread if standing is not None else None

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        # Who looks at a checkpoint asks for its tasks next; who changes a thread does not.
        tasks = not self.far
        if id is None:
            want = Want((CHECKPOINT,), (ns,), shown=True, first=1, tasks=tasks)
        else:
            want = Want((CHECKPOINT, TASK) if tasks else (CHECKPOINT,), (ns,), (id,))
        found = latest(await self._select(thread.key, want))
        rows = [document for document in found if document["kind"] == CHECKPOINT]
        if not rows:
            return None
        row = checkpoint_of(max(rows, key=lambda document: document["id"]))
        if tasks:
            self._tasks[thread.key, ns, row.id] = [document for document in found if document["kind"] == TASK]
        return row

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        return [checkpoint_of(document) for document in await self._named(thread, names, CHECKPOINT)]

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        told = [self._tasks.get((thread.key, *name)) for name in names]
        if all(documents is not None for documents in told):
            return [task_of(document) for documents in told for document in documents or ()]
        return [task_of(document) for document in await self._named(thread, names, TASK)]

    async def _named(
        self, thread: Thread, names: Collection[tuple[str, str]], *kinds: str, bodies: bool = True
    ) -> list[Document]:
        asked = set(names)
        found: list[Document] = []
        for some in _batches(list(asked)):
            spaces, ids = ({name[place] for name in some} for place in (0, 1))
            wants = [Want((kind,), spaces, ids, bodies=bodies) for kind in kinds]
            found += await self._select(thread.key, *wants)
        return [document for document in latest(found) if (document["ns"], document["id"]) in asked]

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        if limit == 0:
            return (), ()
        found = await self._select(thread.key, Want((CHECKPOINT, TASK), (ns,), line=(id, limit)))
        rows = {row.id: row for row in map(checkpoint_of, latest(d for d in found if d["kind"] == CHECKPOINT))}
        line, cursor = dict[str, CheckpointRow](), id if rows else None
        while cursor is not None and cursor in rows and cursor not in line:
            line[cursor] = rows[cursor]
            cursor = rows[cursor].columns.parent
        tasks = map(task_of, latest(d for d in found if d["kind"] == TASK and d["id"] in line))
        return list(line.values()), list(tasks)

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        return bodies_of(await self._among(thread, VALUE, ids), int)

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        take(bodies_of(await self._among(thread, SEGMENT, keys), bytes))

    async def pieces(
        self, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        if len(ids) + len(keys) > _BATCH:
            return await super().pieces(thread, ids, keys, bodies)
        wants = [Want((kind,), id=some) for kind, some in ((VALUE, ids), (SEGMENT, keys)) if some]
        found = await self._select(thread.key, *wants) if wants else []
        values, segments = (latest(d for d in found if d["kind"] == kind) for kind in (VALUE, SEGMENT))
        return Pieces(bodies_of(values, int), bodies_of(segments, bytes))

    async def _among(self, thread: Thread, kind: str, ids: Collection[Any]) -> list[Document]:
        found: list[Document] = []
        for some in _batches(list(ids)):
            found += await self._select(thread.key, Want((kind,), id=some))
        return latest(found)

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        return [checkpoint_of(document) for document in await self._every(thread, CHECKPOINT)]

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        return [task_of(document) for document in await self._every(thread, TASK)]

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        return bodies_of(await self._every(thread, VALUE), int)

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        return bodies_of(await self._every(thread, SEGMENT), bytes)

    async def sizes(self, thread: Thread) -> Sizes:
        found = latest(await self._select(thread.key, *(Want((kind,), bodies=False) for kind in (VALUE, SEGMENT))))
        parts: dict[Any, int] = {}
        if any("parts" in document for document in found):
            match = {"thread": thread.key.object_id, "kind": PART, "ns": None}
            with door(self._store.settings.place):
                for part in await self._store.driver.aggregate([{"$match": match}, {"$project": LENGTHS}]):
                    parts[part["id"]] = parts.get(part["id"], 0) + part["length"]
        lengths: dict[str, dict[Any, int]] = {VALUE: {}, SEGMENT: {}}
        for document in found:
            if "length" in document or "parts" in document:
                length = parts.get(document["_id"], 0) if "parts" in document else document["length"]
            else:
                length = len(document["body"])
            lengths[document["kind"]][document["id"]] = length
        return Sizes(lengths[VALUE], lengths[SEGMENT])

    async def _every(self, thread: Thread, kind: str) -> list[Document]:
        return latest(await self._select(thread.key, Want((kind,))))

    # -- all threads -------------------------------------------------------------------------------------------------

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        if scope.thread_id is not None:
            return await self._keys_of(scope.thread_id, scope, limit)
        match: Document = {"kind": CHECKPOINT, "flags": SHOWN}
        bounds = {"$eq": scope.id, "$lt": scope.before}
        if any(bound is not None for bound in bounds.values()):
            match["id"] = {name: bound for name, bound in bounds.items() if bound is not None}
        if scope.ns is not None:
            match["ns"] = scope.ns
        match, asked = await self._visible(match), 0 if limit is None else limit + _MORE
        while True:
            found = await self._find(match, ("thread", "ns", "id"), asked)
            names = await self._names({document["thread"] for document in found})
            refs = _ordered(
                Ref(names[document["thread"]], document["ns"], document["id"])
                for document in found
                if document["thread"] in names
            )
            if not asked or len(found) < asked:
                return refs[:limit]
            # Those with the last id may not be complete, and their order is not that of the index.
            refs = [ref for ref in refs if (ref.id or "") > found[-1]["id"]]
            if limit is not None and len(refs) >= limit:
                return refs[:limit]
            asked *= 4

    async def _keys_of(self, thread_id: str, scope: Scope, limit: int | None) -> Sequence[Ref]:
        standing = await self._standing(thread_id)
        if standing is None:
            return []
        spaces, ids = (None if name is None else (name,) for name in (scope.ns, scope.id))
        want = Want((CHECKPOINT,), spaces, ids, shown=True, before=scope.before, bodies=False)
        first = 0 if limit is None else limit + _MORE
        found = await self._select(standing.key, want._replace(first=first))
        if first and len(found) == first:
            ids_met = {document["id"] for document in found}
            if len(ids_met) <= (limit or 0):  # many of one name, or of one id in many namespaces
                found = await self._select(standing.key, want)
        return _ordered(Ref(thread_id, document["ns"], document["id"]) for document in found)[:limit]

    async def _visible(self, match: Document) -> Document:
        """The query for rows of any thread, without those that are not published (yet) or are gone."""
        lasts = [document["last"] for document in await self._find({"last": {"$exists": True}}, ("last",))]
        return match | ({"by": {"$in": [None, *lasts]}, "gone": {"$nin": lasts}} if lasts else {"by": None})

    async def _find(self, match: Document, fields: Sequence[str], limit: int = 0) -> list[Document]:
        """Documents by falling id where there is a limit."""
        with door(self._store.settings.place):
            return await self._store.driver.find(
                match, fields=dict.fromkeys(fields, 1), sort=[("id", -1)] if limit else None, limit=limit
            )

    async def _names(self, keys: Collection[Any]) -> dict[Any, str]:
        """Thread ids by the keys of their rows; threads that are gone have none."""
        found = dict[Any, str]()
        for some in _batches(list(keys)):
            match = {"thread": {"$in": some}, "kind": THREAD, "ns": None, "id": None}
            found |= {document["thread"]: document["_id"] for document in await self._find(match, ("thread",))}
        return found

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        found = set[Any]()
        for some in _batches(list(run_ids)):
            match = await self._visible({"run_id": {"$in": some}})
            found |= {document["thread"] for document in await self._find(match, ("thread",))}
        return sorted((await self._names(found)).values())

    async def threads(self) -> Sequence[ThreadInfo]:
        match = await self._visible({"kind": CHECKPOINT, "flags": SHOWN})
        group = {
            "_id": "$thread",
            "names": {"$addToSet": {"ns": "$ns", "id": "$id"}},
            "spaces": {"$addToSet": "$ns"},
            "last": {"$max": {"id": "$id", "born": "$born", "ts": "$ts"}},
        }
        counted = {"last": 1, "spaces": 1, "checkpoints": {"$size": "$names"}}
        with door(self._store.settings.place):
            found = await self._store.driver.aggregate([{"$match": match}, {"$group": group}, {"$project": counted}])
        names = await self._names({document["_id"] for document in found})
        lines = [
            ThreadInfo(
                names[document["_id"]],
                document["checkpoints"],
                document["last"]["id"],
                document["last"].get("ts", ""),
                tuple(sorted(document["spaces"])),
            )
            for document in found
            if document["_id"] in names
        ]
        return sorted(lines, key=lambda line: line.last_id, reverse=True)

    async def thread_ids(self) -> Sequence[str]:
        found = await self._find({"_id": {"$gte": ""}}, ("_id",))
        return sorted(document["_id"] for document in found)


def _ordered(refs: Iterable[Ref]) -> list[Ref]:
    """Each of them once, greatest id first, then by thread and namespace."""
    ordered = sorted(set(refs), key=lambda ref: (ref.thread_id, ref.ns))
    ordered.sort(key=lambda ref: ref.id or "", reverse=True)
    return ordered


def _batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    left = iter(items)
    return list(iter(lambda: list(islice(left, _BATCH)), []))
