"""Changing rows: ``Change``. What is read is remembered; the writes go with one script that finds it unchanged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from threadmark.checkpoint.records import CheckpointRow, Columns, Conflict, Foreseen, TaskRow, Thread
from threadmark.checkpoint.redis.keys import (
    CHECKPOINT,
    SEGMENT,
    STAMP,
    TASK,
    TOKEN,
    VALUE,
    ThreadKey,
    decoded,
    encoded,
    identity_of,
    listed,
    listed_as,
    name_of,
    task_field,
    token_of,
    value_field,
)
from threadmark.checkpoint.redis.packing import pack_checkpoint, pack_task, split_name, unpack_checkpoint, unpack_task
from threadmark.checkpoint.redis.rows import Rows, Sheet, is_seen, thread_of
from threadmark.checkpoint.redis.store import Entry, Store
from threadmark.errors import SaverError


class Plan:
    """What a change wants of one thread: what has to be as it was read, what to do, which indexes to enter it into."""

    __slots__ = (
        "acts", "bodies", "dropped", "fields", "found", "heads", "made", "put", "removes", "runs", "still", "struck",
        "unsure",
    )  # fmt: skip

    def __init__(self, found: bytes) -> None:
        self.found = found
        """The identity that the thread must have; empty for no thread."""
        self.made = False
        self.heads: dict[str, bytes] = {}
        """Names of the newest checkpoints that were read, by namespace; empty for none."""
        self.fields: dict[bytes, bytes | None] = {}
        """Fields of checkpoints and tasks that were read."""
        self.bodies: dict[bytes, bytes] = {}
        """Bodies of checkpoints that the writer believes in, by their names."""
        self.still = False
        """Whether everything was read, so that nothing at all may have changed."""
        self.acts: list[Any] = []
        self.put: dict[str, bytes] = {}
        """Names of the newest checkpoints that the change stores, by namespace."""
        self.unsure = set[str]()
        """Namespaces whose newest checkpoint the change may have removed."""
        self.runs = set[str]()
        """Runs of the checkpoints that it stores."""
        self.dropped = False
        """Whether it removes checkpoints."""
        self.removes = False
        """Whether it removes anything."""
        self.struck: list[Entry] = []

    def expectations(self, sheet: Sheet) -> list[Any]:
        """What ``change.lua`` is to find, their number first."""
        told: list[tuple[Any, ...]] = [("thread", self.found)]
        if self.found and self.acts != ["drop_thread"]:
            told.append(("removal", sheet.removal))
        if self.still:
            told.append(("last", sheet.last))
        else:
            told += [("newest", encoded(ns), name) for ns, name in self.heads.items()]
            told += [("body", name, _digest(body)) for name, body in self.bodies.items()]
            told += [("field", field, _digest(data)) for field, data in self.fields.items()]
        return [len(told), *(part for each in told for part in each)]


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha1(data, usedforsecurity=False).hexdigest()


class Writing(Rows):
    """A view in which rows can be changed; ``commit`` sends the changes of each thread in one script."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._plans: dict[str, Plan] = {}

    def _plan(self, thread_id: str) -> Plan:
        plan = self._plans.get(thread_id)
        if plan is None:
            plan = self._plans[thread_id] = Plan(self._sheets[thread_id].identity or b"")
        return plan

    # -- reading, remembered -----------------------------------------------------------------------------------------

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        """Take the writer's word for all of this, to be compared at the end; or ask for it at once.

        The word counts unless it was wrong just before, or says nothing of a head but its id, or nothing is known of
        the thread's last removal.
        """
        removal = self._store.removal(thread_id, needs.thread)
        heads = [(ns, id) for ns, id in needs.heads.items() if id is not None]
        if removal is not None and all(name in needs.checkpoints for name in heads):
            self._believe(thread_id, needs, removal)
            return
        fields = [CHECKPOINT + name_of(*name) for name in needs.checkpoints]
        fields += [task_field(*name) for name in needs.tasks]
        questions: list[Any] = [part for ns in needs.heads for part in ("newest", encoded(ns))]
        sheet, answers = await self._ask(thread_id, *questions, "fields", len(fields), *fields)
        if answers is None:
            return
        plan = self._plan(thread_id)
        plan.heads.update((ns, name or b"") for ns, name in zip(needs.heads, answers[:-1], strict=True))
        sheet.fields.update(zip(fields, answers[-1], strict=True))
        plan.fields.update(zip(fields, answers[-1], strict=True))

    def _believe(self, thread_id: str, needs: Foreseen, removal: bytes) -> None:
        thread = needs.thread
        identity = None if thread is None else identity_of(thread.key.token, thread.salt)
        sheet = self._sheets[thread_id] = Sheet(identity, removal, b"")
        if identity is None:
            return
        plan = self._plan(thread_id)
        plan.heads.update((ns, b"" if id is None else name_of(ns, id)) for ns, id in needs.heads.items())
        plan.bodies.update((name_of(*name), body) for name, body in needs.checkpoints.items())
        plan.fields.update(dict.fromkeys((task_field(*name) for name in needs.tasks), None))
        sheet.fields.update(plan.fields)

    def doubt(self) -> None:
        """Something was not as it was believed to be: ask the next time."""
        for thread_id in self._sheets:
            self._store.doubt(thread_id)

    async def _fields(self, thread: Thread, wanted: Collection[bytes]) -> dict[bytes, bytes]:
        thread_id = thread.key.thread_id
        sheet = self._sheets.get(thread_id)
        fresh = [field for field in wanted if field[:1] in (CHECKPOINT, TASK) and not (sheet and sheet.knows(field))]
        found = await super()._fields(thread, wanted)
        sheet = self._sheets.get(thread_id)
        if sheet is not None and sheet.is_of(thread):
            self._plan(thread_id).fields.update((field, sheet.fields.get(field)) for field in fresh)
        return found

    async def _everything(self, thread: Thread) -> Sheet | None:
        known = self._sheets.get(thread.key.thread_id)
        fresh = known is None or not known.whole
        sheet = await super()._everything(thread)
        if sheet is not None:
            plan = self._plan(thread.key.thread_id)
            plan.still = not plan.made
            if fresh and not plan.heads and not plan.fields:  # nothing was read before that might be otherwise now
                sheet.last = sheet.latest
        return sheet

    async def thread(self, thread_id: str) -> Thread | None:
        return thread_of(thread_id, await self._known(thread_id))

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        """The row; of one that the writer believes in, the body alone."""
        await self._known(thread.key.thread_id)
        name = name_of(ns, id) if id is not None else await self._head(thread, ns)
        if not name:
            return None
        believed = self._plan(thread.key.thread_id).bodies.get(name)
        if believed is not None:
            return CheckpointRow(*split_name(name), Columns(), 0, believed)
        data = (await self._fields(thread, (CHECKPOINT + name,))).get(CHECKPOINT + name)
        return None if data is None else unpack_checkpoint(name, data)

    async def _head(self, thread: Thread, ns: str) -> bytes:
        """The name of a namespace's newest checkpoint as this change leaves it; empty for none."""
        sheet = await self._known(thread.key.thread_id)
        if not sheet.is_of(thread):
            return b""
        plan = self._plan(thread.key.thread_id)
        if ns in plan.unsure:
            rows = [row for row in await self.every_checkpoint(thread) if row.ns == ns and is_seen(row)]
            return max((name_of(row.ns, row.id) for row in rows), default=b"")
        if ns not in plan.heads and not plan.made:
            _, answers = await self._ask(thread.key.thread_id, "newest", encoded(ns))
            plan.heads[ns] = (answers[0] if answers is not None else None) or b""
        return max(plan.heads.get(ns, b""), plan.put.get(ns, b""))

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        found = await super().tasks(thread, names)
        plan = self._plan(thread.key.thread_id)
        plan.still = not plan.made
        return found

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        row = await self.checkpoint(thread, ns, id)
        return row.body if row is not None else None

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        field = task_field(ns, id, task_id)
        data = (await self._fields(thread, (field,))).get(field)
        return None if data is None else unpack_task(field[1:], data)

    # -- changing ----------------------------------------------------------------------------------------------------

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        found = await self.thread(thread_id)
        if found is not None:
            return found
        made = Thread(ThreadKey(thread_id, os.urandom(TOKEN)), salt)
        dropped = self._plans.get(thread_id)
        plan = self._plans[thread_id] = Plan(b"" if dropped is None else dropped.found)
        plan.made, identity = True, identity_of(made.key.token, salt)
        plan.acts += ("make", identity)
        sheet = self._sheets[thread_id] = Sheet(identity, b"", b"")
        sheet.whole = True  # nothing of it is stored
        return made

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        plan, name, data = self._plan(thread.key.thread_id), name_of(row.ns, row.id), pack_checkpoint(row)
        self._sheets[thread.key.thread_id].changed[CHECKPOINT + name] = data
        plan.acts += ("checkpoint", name, data, int(is_seen(row)))
        if is_seen(row):
            plan.put[row.ns] = max(name, plan.put.get(row.ns, b""))
        else:
            plan.unsure.add(row.ns)
        if row.columns.run_id is not None:
            plan.runs.add(row.columns.run_id)

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        if await self.task(thread, row.ns, row.id, row.task_id) is not None:
            return False
        await self.put_task(thread, row)
        return True

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        data = pack_task(row)
        self._sheets[thread.key.thread_id].changed[task_field(row.ns, row.id, row.task_id)] = data
        self._plan(thread.key.thread_id).acts += ("task", name_of(row.ns, row.id), encoded(row.task_id), data)

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        self._set(thread, "set", {value_field(id): body for id, body in rows})

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        self._set(thread, "add", {SEGMENT + key: data for key, data in rows})

    def _set(self, thread: Thread, how: str, fields: Mapping[bytes, bytes]) -> None:
        if fields:
            self._sheets[thread.key.thread_id].changed.update(fields)
            self._plan(thread.key.thread_id).acts += (
                how,
                len(fields),
                *(part for item in fields.items() for part in item),
            )

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        row = await self.checkpoint(thread, ns, id)
        if row is not None:
            await self.put_checkpoint(thread, row._replace(flags=flags))

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        sheet = await self._everything(thread)
        if sheet is None:
            return
        plan = self._plan(thread.key.thread_id)
        for ns, id in names:
            name = name_of(ns, id)
            for task in self._tasks_of(sheet, name):
                sheet.changed[task_field(ns, id, task.task_id)] = None
            sheet.changed[CHECKPOINT + name] = None
            plan.acts += ("drop", name)
            plan.unsure.add(ns)
            plan.dropped = plan.removes = True

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        self._sheets[thread.key.thread_id].changed[task_field(row.ns, row.id, row.task_id)] = None
        plan = self._plan(thread.key.thread_id)
        plan.acts += ("drop_task", name_of(row.ns, row.id), encoded(row.task_id))
        plan.removes = True

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        sheet = await self._everything(thread)
        if sheet is None:
            return
        kept = {value_field(id) for id in values} | {SEGMENT + key for key in segments}
        stored = [kind + rest for kind in (VALUE, SEGMENT) for rest in sheet.starting(kind)]
        gone = [field for field in stored if field not in kept]
        if gone:
            sheet.changed.update(dict.fromkeys(gone))
            plan = self._plan(thread.key.thread_id)
            plan.acts += ("unset", len(gone), *gone)
            plan.removes = True

    async def drop_thread(self, thread_id: str) -> None:
        sheet, answers = await self._ask(thread_id, "runs")
        if answers is None or sheet.identity is None:
            return
        plan = self._plans[thread_id] = Plan(sheet.identity)
        plan.acts = ["drop_thread"]
        member = listed_as(ThreadKey(thread_id, token_of(sheet.identity)))
        indexes = [self._store.keys.run(decoded(run)) for run in answers[0]]
        plan.struck = [Entry(index, member) for index in (*indexes, self._store.keys.threads_of(thread_id))]
        self._sheets[thread_id] = Sheet(None, b"", b"")

    # -- storing -----------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Store what was changed; ``Conflict`` when something was not as it was read, and nothing was stored."""
        changed = [thread_id for thread_id, plan in self._plans.items() if plan.acts]
        if len(changed) > 1:
            raise SaverError("a transaction in Redis changes one thread; store these one by one")
        for thread_id in changed:
            plan, sheet = self._plans[thread_id], self._sheets[thread_id]
            if plan.acts == ["drop_thread"]:
                await self._send(thread_id, plan, sheet, {})
                await self._store.strike(plan.struck)
                continue
            thread = thread_of(thread_id, sheet)
            assert thread is not None
            leaving = await self._store.entered(self._left(thread, sheet)) if plan.dropped else []
            stamp = await self._send(thread_id, plan, sheet, self._entries(thread, plan, sheet))
            self._store.note_removal(thread.key, stamp if plan.removes else sheet.removal)
            await self._store.strike(leaving)
            if plan.made:
                await self._tidy(thread_id)

    async def _send(self, thread_id: str, plan: Plan, sheet: Sheet, entries: Mapping[Entry, bytes]) -> bytes:
        stamp = os.urandom(STAMP)
        answer = await self._store.change(thread_id, stamp, plan.expectations(sheet), plan.acts, entries)
        if answer != b"stored":
            raise Conflict(decoded(answer))
        return stamp

    def _entries(self, thread: Thread, plan: Plan, sheet: Sheet) -> dict[Entry, bytes]:
        """The indexes that the thread must be in before it is stored, and the removal that this is after.

        A removal takes a thread off the indexes of runs, so after one it is entered again.
        """
        keys, member = self._store.keys, listed_as(thread.key)
        found = {Entry(keys.threads_of(thread.key.thread_id), member): b""}
        if self._store.settings.lists_runs:
            found |= {Entry(keys.run(run_id), member): sheet.removal for run_id in plan.runs}
        return found

    def _left(self, thread: Thread, sheet: Sheet) -> list[Entry]:
        """Indexes of runs that no checkpoint is left of."""
        before = {name: data for field, data in sheet.fields.items() if field[:1] == CHECKPOINT and (name := field[1:])}
        runs = [{_run(*item) for item in rows.items() if item[1]} for rows in (before, sheet.starting(CHECKPOINT))]
        member = listed_as(thread.key)
        return [Entry(self._store.keys.run(run), member) for run in runs[0] - runs[1] if run is not None]

    async def _tidy(self, thread_id: str) -> None:
        """Where threads expire, one that is made cleans up after two that may have gone."""
        store = self._store
        if store.settings.ttl is None:
            return
        old = await store.oldest(store.keys.threads_of(thread_id), 2)
        looks = await store.look_all([listed(entry.member).thread_id for entry in old], ())
        await store.strike(
            [
                entry
                for entry, reply in zip(old, looks, strict=True)
                if not reply or token_of(reply[0]) != listed(entry.member).token
            ]
        )


def _run(name: bytes, data: bytes | None) -> str | None:
    return unpack_checkpoint(name, data or b"").columns.run_id
