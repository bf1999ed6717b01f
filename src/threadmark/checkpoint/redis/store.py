"""What rows ask of a server: looks at threads, changes of one, indexes. Written once for both colours."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from threadmark.checkpoint.records import Thread
from threadmark.checkpoint.redis import scripts
from threadmark.checkpoint.redis.errors import is_lost, translated
from threadmark.checkpoint.redis.keys import Keys, ThreadKey
from threadmark.checkpoint.redis.scripts import Command, in_full
from threadmark.checkpoint.redis.wire import Wire
from threadmark.errors import SaverError, Unavailable

ENTERED_AGAIN: Final = 600.0
"""Seconds after which a thread that is written to is entered into its indexes again, in case they lost it."""
_ENTRIES: Final = 20_000
"""Entries of indexes, and threads, that are remembered."""
_BATCH: Final = 128
_AOF_PATIENCE: Final = 4.0
"""Seconds that WAITAOF waits: less than the driver waits for an answer, 5 unless it is told otherwise."""
_GUARD: Final = 3_600_000
"""Milliseconds: longer than any transaction is under way."""


class Settings(NamedTuple):
    """What a saver was told. Times to live in milliseconds."""

    ttl: int | None = None
    refresh_on_read: bool = False
    wait_aof: bool = False
    read_only: bool = False

    @property
    def lists_runs(self) -> bool:
        """Whether there are indexes of runs. Where threads expire there are none, for nobody would clean them."""
        return self.ttl is None


class Entry(NamedTuple):
    """A thread in an index."""

    key: bytes
    member: bytes


class Listed(NamedTuple):
    """An entry as it was found."""

    entry: Entry
    entered: bytes
    settled: bool
    """Whether it was entered longer ago than any transaction is under way."""


class Store:
    """Threads behind a wire."""

    def __init__(self, wire: Wire, keys: Keys, settings: Settings) -> None:
        self.wire, self.keys, self.settings = wire, keys, settings
        self._entered: dict[tuple[Entry, bytes], float] = {}
        self._renewal: Any = settings.ttl if settings.refresh_on_read and settings.ttl else b""
        self._flushes = False
        self._removals: dict[ThreadKey, bytes] = {}
        self._doubted: set[str] = set()

    # -- threads -----------------------------------------------------------------------------------------------------

    async def look(self, thread_id: str, questions: Sequence[Any]) -> list[Any]:
        """The answers about one thread; see ``look.lua``."""
        found: list[Any] = await self._one(self._look(thread_id, questions, self._renewal))
        return found

    async def everything(self, thread_id: str) -> dict[bytes, bytes]:
        """All fields of a thread: of one moment too, and without a script, which would copy them."""
        found: dict[bytes, bytes] = await self._one(("HGETALL", self.keys.thread(thread_id)[0]))
        return found

    async def look_all(self, thread_ids: Sequence[str], questions: Sequence[Any]) -> list[list[Any]]:
        """The answers to the same questions about many threads. None of them counts as read."""
        found: list[list[Any]] = []
        for at in range(0, len(thread_ids), _BATCH):
            found += await self._many([self._look(each, questions, b"") for each in thread_ids[at : at + _BATCH]])
        return found

    def _look(self, thread_id: str, questions: Sequence[Any], renewal: Any) -> Command:
        return scripts.LOOK.on(self.keys.thread(thread_id), (renewal, *questions))

    async def change(
        self, thread_id: str, stamp: bytes, expected: Sequence[Any], acts: Sequence[Any], entries: Mapping[Entry, bytes]
    ) -> bytes:
        """Change a thread once it is in these indexes; what ``change.lua`` answers.

        ``expected`` begins with their number. The change is known by its stamp: sent twice, it is done once.
        """
        ttl = self.settings.ttl
        command = scripts.CHANGE.on(self.keys.thread(thread_id), (stamp, b"" if ttl is None else ttl, *expected, *acts))
        before = self._entering(entries)
        if self.settings.wait_aof and not self._flushes:
            await self._expect_aof()
        after: list[Command] = [("WAITAOF", 1, 0, int(_AOF_PATIENCE * 1000))] if self.settings.wait_aof else []
        if before and self.wire.is_cluster:
            await self._many(before)
            before = []
        if before or after:
            replies = await self._together([*before, command, *after])
            answer = replies[len(before)]
            if after and answer == b"stored" and not replies[-1][0]:
                raise Unavailable(
                    f"{self.wire.server} has stored it, but had not flushed it to its disk after {_AOF_PATIENCE:.0f} s"
                )
        else:
            answer = await self._one(command)
        self._note(entries)
        return bytes(answer)

    async def _expect_aof(self) -> None:
        """``SaverError`` unless the server can say that a change is on its disk."""
        try:
            await self._together([("EVAL", "return 1", 1, self.keys.threads()[0]), ("WAITAOF", 1, 0, 1)])
        except SaverError as error:
            raise SaverError(
                f"{self.wire.server} cannot do what wait_aof=True asks for: it needs Redis 7.2, or Valkey, with "
                f"appendonly yes; leave wait_aof out, or change the server ({error})"
            ) from error.__cause__
        self._flushes = True

    def removal(self, thread_id: str, thread: Thread | None) -> bytes | None:
        """The stamp of a thread's last removal as far as is known; None when it is better to ask."""
        if thread_id in self._doubted:
            self._doubted.discard(thread_id)
            return None
        return b"" if thread is None else self._removals.get(thread.key)

    def note_removal(self, thread: ThreadKey, stamp: bytes) -> None:
        """Remember a thread's last removal."""
        if len(self._removals) >= _ENTRIES:
            self._removals = {}
        self._removals[thread] = stamp

    def doubt(self, thread_id: str) -> None:
        """Ask the next time that something is foreseen of a thread."""
        self._doubted.add(thread_id)

    # -- indexes -----------------------------------------------------------------------------------------------------

    def _entering(self, entries: Mapping[Entry, bytes]) -> list[Command]:
        """What enters those threads that were not entered lately, at this removal."""
        now = time.monotonic()
        due = [each for each in entries.items() if self._entered.get(each, -ENTERED_AGAIN) + ENTERED_AGAIN <= now]
        return [scripts.ENLIST.on((entry.key,), (entry.member,)) for entry, _ in due]

    def _note(self, entries: Mapping[Entry, bytes]) -> None:
        now = time.monotonic()
        if len(self._entered) > _ENTRIES:
            known = list(self._entered.items())  # other threads may be at it
            self._entered = {key: at for key, at in known if at + ENTERED_AGAIN > now}
            if len(self._entered) > _ENTRIES:
                self._entered = {}
        for each in entries.items():
            if self._entered.get(each, -ENTERED_AGAIN) + ENTERED_AGAIN <= now:
                self._entered[each] = now

    async def listed(self, indexes: Sequence[bytes]) -> list[Listed]:
        """Everything that these indexes hold."""
        found: list[Listed] = []
        pages = [(index, b"0") for index in indexes]
        while pages:
            replies = await self._many([scripts.LISTED.on((index,), (cursor,)) for index, cursor in pages])
            more = []
            for (index, _), (cursor, entries) in zip(pages, replies, strict=True):
                found += [Listed(Entry(index, member), at, bool(old)) for member, at, old in entries]
                if int(cursor):
                    more.append((index, cursor))
            pages = more
        return found

    async def entered(self, entries: Collection[Entry]) -> list[Listed]:
        """Those entries that are there."""
        asked = list(entries)
        found = await self._many([scripts.ENTERED.on((entry.key,), (entry.member,)) for entry in asked])
        return [Listed(entry, at, False) for entry, (at,) in zip(asked, found, strict=True) if at is not None]

    async def strike(self, entries: Sequence[Listed | Entry]) -> None:
        """Take entries off their indexes; one that was found stays if it was entered anew since."""
        if self.settings.read_only:
            return
        commands = []
        for each in entries:
            entry, entered = (each.entry, each.entered) if isinstance(each, Listed) else (each, b"")
            commands.append(scripts.STRIKE.on((entry.key,), (entry.member, entered)))
        for at in range(0, len(commands), _BATCH):
            await self._many(commands[at : at + _BATCH])

    async def oldest(self, index: bytes, count: int) -> list[Entry]:
        """Entries that nobody looked at for longest, and for longer than a thread lives untouched."""
        found = await self._one(scripts.OLDEST.on((index,), (count, (self.settings.ttl or 0) + _GUARD)))
        return [Entry(index, member) for member in found]

    # -- sending -----------------------------------------------------------------------------------------------------

    async def _one(self, command: Command) -> Any:
        return (await self._send((command,), self._single))[0]

    async def _many(self, commands: Sequence[Command]) -> list[Any]:
        return await self._send(commands, self.wire.many) if commands else []

    async def _together(self, commands: Sequence[Command]) -> list[Any]:
        return await self._send(commands, self.wire.together)

    async def _single(self, commands: Sequence[Command]) -> list[Any]:
        return [await self.wire.one(commands[0])]

    async def _send(self, commands: Sequence[Command], how: Any) -> list[Any]:
        """The replies; every command may be sent twice, so one whose answer was lost is."""
        lost = 0
        while True:
            try:
                replies: list[Any] = await how(commands)
                failed = next((each for each in replies if isinstance(each, Exception)), None)
                if failed is None:
                    return replies
                raise failed
            except NoScriptError:
                commands = [in_full(command) for command in commands]
            except (RedisError, RedisClusterException, OSError) as error:
                lost += is_lost(error)
                if not is_lost(error) or lost > self.wire.resends:
                    raise translated(error, self.wire.server) from error
                await self.wire.pause(0.05)
