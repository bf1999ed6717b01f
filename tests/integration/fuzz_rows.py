"""Damages whole rows of stored files and reads them: only typed errors, no import, no process, no file, bounded memory.

    python -m tests.integration.fuzz_rows --seconds 3600 [--form plain|encrypted] [--memory]

prints how many damaged files it read and what became of each read. A read of an encrypted file that does not fail must
give what was stored, or nothing.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import random as random_module
import resource
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tests.unit.checkpoint.serde.fuzz import mutated, quiet, seeds, targets, until, watch
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.kit import Grown
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadmarkError

FORMS = ("plain", "encrypted")
MEMORY_FLOOR = 64 << 20
BODIES = {"checkpoint": "body", "task": "body", "value": "body", "segment": "data"}
COLUMNS = {
    "checkpoint": ("ns", "id", "parent", "source", "step", "run_id", "ts", "parents", "flags"),
    "task": ("ns", "id", "task_id", "path"),
    "value": ("id",),
    "segment": ("key",),
    "thread": ("salt", "thread_id"),
}
KEYS = {
    "checkpoint": ("thread", "id"),
    "task": ("thread", "id || task_id"),
    "value": ("thread", "id"),
    "segment": ("thread", "key"),
    "thread": ("id", "id"),
}
ODD = (None, "", "x", "\0", "9" * 40, -1, 0, 3, 1 << 62, 1.5, b"", b"\xff\xfe", '{"a": [', '{"": 3}', "[]")


def serde_of(form: str) -> Any:
    """Default settings, encrypted or not."""
    return EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 16) if form == "encrypted" else None


def file_of(form: str) -> bytes:
    """A database with rows of every kind: whole and bare checkpoints, programs, patches, steps, asides, writes."""
    with SqliteSaver.from_conn_string(":memory:", serde=serde_of(form)) as saver:
        for thread_id, ns in (("chat", ""), ("chat", "child:1"), ("other", "")):
            _fill(saver, thread_id, ns)
        conn: sqlite3.Connection = saver.conn
        return conn.serialize()


def _fill(saver: SqliteSaver, thread_id: str, ns: str) -> None:
    grown = Grown(saver, lambda target, name, *args: getattr(target, name)(*args), thread_id, ns)
    rows, table = list[str](), {f"key {number}": number * 7919 for number in range(200)}
    for turn in range(9):
        rows = [*rows, *(f"{thread_id} {ns} {turn} {line}: {line * turn * 7919 % 1000}" for line in range(40))]
        table = {**table, f"key {turn * 7}": turn}
        values = {"rows": rows, "table": table, "tiny": turn, "image": b"\x93" * 3000, "text": f"{turn} " * 90}
        if turn % 3:
            del values["text"]
        more = {"owner": {"name": "somebody", "notes": rows[:9]}} if turn % 4 == 0 else {"score": turn}
        grown.put(values, changed=["rows", "table", "tiny"], run_id=f"run {turn % 2}", **more)
        saver.put_writes(grown.config, [("rows", rows[-3:]), ("tiny", turn), ("table", table)], f"task {turn}", "~p")
        saver.put_writes(grown.config, [("__interrupt__", ("why?", turn))], "asks")


# -- damage ------------------------------------------------------------------------------------------------------------


Damage = Callable[[sqlite3.Connection, random_module.Random], None]


def _pick(conn: sqlite3.Connection, table: str, column: str, random: random_module.Random) -> tuple[Any, Any, Any]:
    """Keys and content of one row."""
    thread, key = KEYS[table]
    found = conn.execute(f"SELECT {thread}, {key}, {column} FROM {table}").fetchall()
    picked: tuple[Any, Any, Any] = random.choice(found)
    return picked


def _set(conn: sqlite3.Connection, table: str, column: str, keys: tuple[Any, Any], value: Any, new: str = "?") -> None:
    thread, key = KEYS[table]
    conn.execute(f"UPDATE OR IGNORE {table} SET {column} = {new} WHERE {thread} = ? AND {key} = ?", (value, *keys))


def change_bytes(conn: sqlite3.Connection, random: random_module.Random) -> None:
    """Bits flipped, bytes replaced, cut, doubled or moved in one body."""
    table = random.choice(list(BODIES))
    *keys, body = _pick(conn, table, BODIES[table], random)
    _set(conn, table, BODIES[table], (keys[0], keys[1]), mutated(body, random))


def swap_bodies(conn: sqlite3.Connection, random: random_module.Random) -> None:
    """Two bodies change places, of one table or of two."""
    one, two = random.choice(list(BODIES)), random.choice(list(BODIES))
    if random.random() < 0.7:
        two = one
    first, second = (_pick(conn, table, BODIES[table], random) for table in (one, two))
    _set(conn, one, BODIES[one], first[:2], second[2])
    _set(conn, two, BODIES[two], second[:2], first[2])


def splice_bodies(conn: sqlite3.Connection, random: random_module.Random) -> None:
    """The front of one body with the back of another."""
    table = random.choice(list(BODIES))
    first, second = (_pick(conn, table, BODIES[table], random) for _ in range(2))
    made = first[2][: random.randrange(len(first[2]) + 1)] + second[2][random.randrange(len(second[2]) + 1) :]
    _set(conn, table, BODIES[table], first[:2], made)


def change_column(conn: sqlite3.Connection, random: random_module.Random) -> None:
    """Something readable becomes that of another row, or something odd."""
    table = random.choice(list(COLUMNS))
    column = random.choice(COLUMNS[table])
    *keys, _ = _pick(conn, table, column, random)
    value = _pick(conn, table, column, random)[2] if random.random() < 0.6 else random.choice(ODD)
    with suppress(sqlite3.IntegrityError):  # the table itself refuses it
        new = "CAST(CAST(? AS BLOB) AS TEXT)" if random.random() < 0.2 else "?"
        _set(conn, table, column, (keys[0], keys[1]), value, new)


def drop_row(conn: sqlite3.Connection, random: random_module.Random) -> None:
    """A row goes."""
    table = random.choice(list(BODIES))
    keys = _pick(conn, table, BODIES[table], random)[:2]
    thread, key = KEYS[table]
    conn.execute(f"DELETE FROM {table} WHERE {thread} = ? AND {key} = ?", keys)


DAMAGES: tuple[Damage, ...] = (
    change_bytes,
    change_bytes,
    change_bytes,
    swap_bodies,
    splice_bodies,
    change_column,
    drop_row,
)


# -- reading -----------------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A checkpoint as it was read."""

    name: tuple[str, str, str]
    content: Any
    writes: Any
    parent: Any


def _seen(item: Any) -> Seen:
    named = item.config["configurable"]
    name = (named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"])
    return Seen(name, (item.checkpoint, item.metadata), item.pending_writes, item.parent_config)


_NOTHING = Seen(("", "", ""), None, None, None)


def reads(names: Sequence[tuple[str, str, str]]) -> Iterator[Callable[[SqliteSaver], list[Seen]]]:
    """Ways of reading: heads, by id, histories, filtered lists, everything, delta histories."""

    def config(thread_id: str, ns: str, id: str | None = None) -> Any:
        named = {"thread_id": thread_id, "checkpoint_ns": ns, **({"checkpoint_id": id} if id else {})}
        return {"configurable": named}

    def one(where: Any) -> Callable[[SqliteSaver], list[Seen]]:
        return lambda saver: [_seen(item) for item in (saver.get_tuple(where),) if item is not None]

    def deltas(where: Any) -> Callable[[SqliteSaver], list[Seen]]:
        return lambda saver: [
            _NOTHING for _ in saver.get_delta_channel_history(config=where, channels=["rows", "text"])
        ]

    spaces = sorted({name[:2] for name in names})
    yield from (one(config(*space)) for space in spaces)
    yield lambda saver: [_seen(item) for item in saver.list(None)]
    yield lambda saver: [_NOTHING for _ in saver.list_threads()]
    yield lambda saver: [_seen(item) for item in saver.list(config("chat", ""), filter={"score": 5, "source": "loop"})]
    yield from (one(config(*name)) for name in names[::3])
    yield from (deltas(config(*space)) for space in spaces)


def _check(found: list[Seen], stored: dict[tuple[str, str, str], Seen]) -> None:
    """What an encrypted file gives is what was stored; rows can be taken away, and with them writes and parents."""
    for item in found:
        if item is _NOTHING:
            continue
        there = stored[item.name]
        assert item.content == there.content, item.name
        assert all(write in there.writes for write in item.writes), item.name
        assert item.parent in (there.parent, None), item.name


# -- running -----------------------------------------------------------------------------------------------------------


def run(form: str, *, seed: int, enough: Callable[[int], bool], memory: bool = False) -> collections.Counter[str]:
    """Reads damaged files until ``enough(tried)``. AssertionError with the file's number if anything else happens."""
    outcome: collections.Counter[str] = collections.Counter()
    whole, hook = file_of(form), watch()
    with SqliteSaver.from_conn_string(":memory:", serde=serde_of(form)) as saver, quiet():
        saver._caches = Caches(scale=0)
        conn: sqlite3.Connection = saver.conn
        conn.deserialize(whole)
        stored = {item.name: item for item in map(_seen, saver.list(None))}
        ways = list(reads(list(stored)))
        for way in ways:
            way(saver)
        _load_libraries()
        if memory:
            tracemalloc.start()
        while not enough(outcome["tried"]):
            number = seed * 1_000_003 + outcome["tried"]
            random = random_module.Random(number)
            conn.deserialize(whole)
            for _ in range(random.choice((1, 1, 1, 2, 4))):
                with suppress(sqlite3.OperationalError):  # what was damaged before is no text any more
                    random.choice(DAMAGES)(conn, random)
            outcome["tried"] += 1
            for way in ways:
                _feed(saver, way, stored if form == "encrypted" else None, hook, number, outcome)
    return outcome


def _load_libraries() -> None:
    """Load now what the serializer loads when it first meets a value of some kind."""
    importlib.import_module("pandas.core.arrays.arrow._arrow_utils")
    for form in ("ours", "peer"):
        for stored in seeds(form):
            for load in targets(form):
                with suppress(ThreadmarkError):
                    load(stored)


def _feed(saver: SqliteSaver, way: Any, stored: Any, hook: Any, number: int, outcome: collections.Counter[str]) -> None:
    hook.seen.clear()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak() if tracemalloc.is_tracing() else None
    hook.watching = True
    try:
        found: list[Seen] | None = way(saver)
        outcome["read"] += 1
    except ThreadmarkError as error:
        found = None
        outcome[type(error).__name__] += 1
    except Exception as error:
        raise AssertionError(f"file {number}: {type(error).__name__}: {error}") from error
    finally:
        hook.watching = False
    assert not hook.seen, (hook.seen, number)
    if found is not None and stored is not None:
        _check(found, stored)
    if tracemalloc.is_tracing():
        peak = tracemalloc.get_traced_memory()[1] - before
        outcome["peak"] = max(outcome["peak"], peak)
        assert peak < MEMORY_FLOOR, (peak, number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--form", choices=FORMS, default="plain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="watch the peak of Python's memory at each read (slow)")
    options = parser.parse_args()
    outcome = run(options.form, seed=options.seed, enough=until(options.seconds), memory=options.memory)
    print(f"{options.form}: {outcome['tried']} damaged files")
    for name, count in sorted(outcome.items()):
        print(f"  {name}: {count}")
    print(f"  processor time: {time.process_time():.0f} s")
    print(f"  resident memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
