"""Steps stored by a single call, which is a transaction of its own; what became of one whose answer was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threadmark.checkpoint.postgres.call import Believed, values_of
from threadmark.checkpoint.postgres.rows import Change, new_key
from threadmark.checkpoint.postgres.statements import BEGIN_WRITING, COMMIT
from threadmark.checkpoint.postgres.transaction import Lost, Transaction, Writing, settled
from threadmark.checkpoint.postgres.wire import Rows, Sent
from threadmark.checkpoint.records import Bundle, Conflict, Thread

if TYPE_CHECKING:
    from threadmark.checkpoint.postgres.port import PostgresPort


class Calls:
    """Stores bundles. The server compares what is believed of the thread, and stores nothing where it is otherwise."""

    def __init__(self, port: PostgresPort) -> None:
        self._port = port
        self._alone = True
        """Whether one statement may be a transaction: what the server begins by itself sees what others committed."""

    async def store(self, bundle: Bundle) -> Thread | None:
        port, thread_id, thread = self._port, bundle.thread_id, bundle.thread
        if thread_id in port.careful:
            return None
        salt = None
        if thread is None:
            salt = bundle.salt
            thread = Thread(new_key(), salt)
        believed = Believed(thread_id, salt, bundle.heads, bundle.bases)
        parts = bundle.segments, bundle.values, bundle.tasks, bundle.checkpoints
        sent = port.sql.store.sent(values_of(thread.key, believed, *parts))
        try:
            stored = await self._called(sent)
        except Lost as error:
            stored = await self._is_there(bundle, thread, error)
        except Conflict:
            return None
        if stored:
            return thread
        port.careful.add(thread_id)
        return None

    async def _called(self, sent: Sent) -> bool:
        """What the call says. Alone it is a transaction, unless the server begins one of another kind by itself."""
        if self._alone:
            (((stored,),),) = await self._asked(sent)
            if stored is not None:
                return bool(stored)
            self._alone = False
        (((stored,),), _) = await Transaction(self._port, BEGIN_WRITING).end(sent, COMMIT)
        return bool(stored)

    async def _asked(self, sent: Sent) -> list[Rows]:
        port = self._port
        line = await port.take()
        try:
            answers = await port.trip(line, sent)
        except BaseException:
            await port.connections.give(line, keep=line.at_rest)
            raise
        await port.connections.give(line, keep=True)
        return answers

    async def _is_there(self, bundle: Bundle, thread: Thread, error: Lost) -> bool:
        """Whether rows whose commit was lost are stored. Holding the thread waits for the server to be done with it."""

        async def found() -> bool:
            async with Writing(self._port) as change:
                there = await change.thread(bundle.thread_id)
                return there is not None and await _are_stored(change, thread, bundle)

        return await settled(self._port, found, error)


async def _are_stored(change: Change, thread: Thread, bundle: Bundle) -> bool:
    """Whether rows are stored as they were to be: checkpoints if there are any, else what tasks wrote."""
    if bundle.checkpoints:
        rows = await change.checkpoints(thread, [(row.ns, row.id) for row in bundle.checkpoints])
        bodies = {(row.ns, row.id): row.body for row in rows}
        return all(bodies.get((row.ns, row.id)) == row.body for row in bundle.checkpoints)
    tasks = await change.tasks(thread, {(row.ns, row.id) for row in bundle.tasks})
    found = {(row.ns, row.id, row.task_id): row.body for row in tasks}
    return all(found.get((row.ns, row.id, row.task_id)) == row.body for row in bundle.tasks)
