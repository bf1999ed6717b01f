"""What a transaction changes, kept until it ends: ``Change`` over documents that are not stored yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bson import ObjectId

from threadmark.checkpoint.mongodb.documents import (
    CHECKPOINT,
    SEGMENT,
    TASK,
    VALUE,
    Document,
    Key,
    Name,
    Standing,
    Want,
    body_document,
    checkpoint_document,
    checkpoint_of,
    name_of,
    task_document,
    task_of,
)
from threadmark.checkpoint.mongodb.publish import Removal, Revision
from threadmark.checkpoint.mongodb.rows import Rows
from threadmark.checkpoint.mongodb.store import Store
from threadmark.checkpoint.records import HIDDEN, CheckpointRow, Conflict, Foreseen, TaskRow, Thread


class Change(Rows):
    """Rows, and over them what this transaction puts and takes away."""

    far = True

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.turn: Any = None
        """Held while the thread is changed, so that writers of one process do not get into each other's way."""
        self._revisions: dict[str, Revision] = {}
        self._removals: dict[str, Removal] = {}
        self._stored: dict[tuple[Key, Name], list[Document]] = {}
        """Documents that were read, by what they are called: those that give way when one is put in their place."""
        self._foreseen: dict[tuple[Key, Name], Document | None] = {}

    def outcome(self) -> tuple[list[Revision], list[Removal]]:
        """What is to be done when the transaction ends."""
        changed = [revision for revision in self._revisions.values() if revision.is_change()]
        return changed, list(self._removals.values())

    # -- reading -----------------------------------------------------------------------------------------------------

    async def _asked(self, standing: Standing, wants: Sequence[Want]) -> tuple[list[Document], Standing | None]:
        key = standing.key
        revision = self._revisions.get(key.thread_id)
        if standing.version == 0:  # made by this transaction
            found, now = list[Document](), standing
        else:
            gone = revision.gone if revision is not None else {}
            first = any(want.first for want in wants)
            found, now = await self._store.ask(standing, wants, gone if first else ())  # type: ignore[assignment]
            found = [document for document in found if document["_id"] not in gone]
        for document in found:
            self._stored.setdefault((key, name_of(document)), []).append(document)
        if revision is not None:
            found = [document for document in found if name_of(document) not in revision.documents]
            found += [
                {**document, "born": standing.version + 1}
                for document in revision.documents.values()
                if any(want.takes(document) for want in wants)
            ]
        return found, now

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        if self.turn is None:
            self.turn = await self._store.driver.take_turn(thread_id)
        self._seen[thread_id] = self._store.standings.get(thread_id)
        if self._seen[thread_id] is None:
            del self._seen[thread_id]
        standing = await self._standing(thread_id)
        while standing is not None:
            found = await self._select(standing.key, *_wants(needs))
            now = self._seen[thread_id]
            if now is not None and now.key == standing.key:
                self._foresaw(standing.key, needs, found)
                return
            standing = now

    def _foresaw(self, key: Key, needs: Foreseen, found: Iterable[Document]) -> None:
        asked: dict[Name, Document | None] = {(CHECKPOINT, ns, id, None): None for ns, id in needs.checkpoints}
        asked |= {(TASK, ns, id, task): None for ns, id, task in needs.tasks}
        asked |= {(CHECKPOINT, ns, None, None): None for ns in needs.heads}
        for document in sorted(found, key=lambda each: (each["id"], each["born"])):
            name = name_of(document)
            for place in (name, *(() if document.get("flags", 0) & HIDDEN else (_head(name),))):
                if place in asked:
                    asked[place] = document
        self._foreseen |= {(key, name): document for name, document in asked.items()}

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        place = thread.key, (CHECKPOINT, ns, id, None)
        if place in self._foreseen:
            document = self._foreseen[place]
            return checkpoint_of(document) if document is not None else None
        return await super().checkpoint(thread, ns, id)

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        row = await self.checkpoint(thread, ns, id)
        return row.body if row is not None else None

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        place = thread.key, (TASK, ns, id, task_id)
        if place in self._foreseen:
            document = self._foreseen[place]
        else:
            found = await self._select(thread.key, Want((TASK,), (ns,), (id,), (task_id,)))
            document = max(found, key=lambda each: each["born"]) if found else None
        return task_of(document) if document is not None else None

    # -- changing ----------------------------------------------------------------------------------------------------

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        standing = await self._standing(thread_id)
        if standing is None:
            standing = self._seen[thread_id] = Standing(Key(thread_id, ObjectId()), salt, 0)
            self._revisions[thread_id] = Revision(standing)
        return standing.thread

    async def _revision(self, key: Key) -> Revision:
        """What becomes of a thread."""
        found = self._revisions.get(key.thread_id)
        if found is None:
            standing = await self._standing(key.thread_id)
            if standing is None or standing.key != key:  # deleted meanwhile
                raise Conflict
            found = self._revisions[key.thread_id] = Revision(standing)
        return found

    async def _put(self, thread: Thread, documents: Iterable[Document]) -> None:
        revision = await self._revision(thread.key)
        for document in documents:
            name = name_of(document)
            self._foreseen.pop((thread.key, name), None)
            self._foreseen.pop((thread.key, _head(name)), None)
            revision.put(document, self._stored.get((thread.key, name), ()))

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        await self._put(thread, (checkpoint_document(row),))

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        if await self.task(thread, row.ns, row.id, row.task_id) is not None:
            return False
        await self.put_task(thread, row)
        return True

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        await self._put(thread, (task_document(row),))

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        await self._put(thread, [body_document(VALUE, id, body) for id, body in rows])

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        # A segment of the same key may be there: then there are two, equal and both good.
        revision = await self._revision(thread.key)
        for key, data in rows:
            document = body_document(SEGMENT, key, data)
            revision.documents.setdefault(name_of(document), document)

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        row = await self.checkpoint(thread, ns, id)
        if row is not None:
            await self.put_checkpoint(thread, row._replace(flags=flags))

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        await self._take(thread, await self._named(thread, names, CHECKPOINT, TASK, bodies=False))

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        want = Want((TASK,), (row.ns,), (row.id,), (row.task_id,), bodies=False)
        await self._take(thread, await self._select(thread.key, want))

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        kept = {VALUE: set[Any](values), SEGMENT: set[Any](segments)}
        found = await self._select(thread.key, *(Want((kind,), bodies=False) for kind in kept))
        await self._take(thread, [document for document in found if document["id"] not in kept[document["kind"]]])

    async def _take(self, thread: Thread, documents: Iterable[Document]) -> None:
        revision = await self._revision(thread.key)
        for document in documents:
            name = name_of(document)
            self._foreseen.pop((thread.key, name), None)
            self._foreseen.pop((thread.key, _head(name)), None)
            revision.take(name, self._stored.get((thread.key, name), ()))

    async def drop_thread(self, thread_id: str) -> None:
        standing = await self._standing(thread_id)
        if standing is not None:
            self._removals[thread_id] = Removal(standing.key)
            self._revisions.pop(thread_id, None)
            self._seen[thread_id] = None


def _head(name: Name) -> Name:
    """What the newest row of a row's namespace is called here."""
    return name[0], name[1], None, None


def _wants(needs: Foreseen) -> list[Want]:
    wants = [Want((CHECKPOINT,), (ns,), shown=True, first=1) for ns in needs.heads]
    if needs.checkpoints:
        spaces, ids = map(set, zip(*needs.checkpoints, strict=True))
        wants.append(Want((CHECKPOINT,), spaces, ids))
    if needs.tasks:
        spaces, ids, tasks = map(set, zip(*needs.tasks, strict=True))
        wants.append(Want((TASK,), spaces, ids, tasks))
    return wants
