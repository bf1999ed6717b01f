"""What the savers for each kind of store can do and promise, and what their operations cost in round trips.

``python -m benchmarks.backends`` starts a server of each kind, counts, and prints a table of Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.services.cosmosdb import Account, account
from tests.services.mongodb import Commands, Mongo, any_mongodb
from tests.services.postgres import Postgres, postgres
from tests.services.proxy import proxy
from tests.services.redis import RedisServer, redis_binary, running
from threadmark.checkpoint.base import Step
from threadmark.checkpoint.capabilities import CAPABILITIES, capabilities_of
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, filled

Opener = Callable[[], Any]
"""Opens a saver on the place that is looked at; every call opens another one, which remembers nothing."""
Trips = Callable[[], int]
"""How many requests were sent and waited for since the last time."""


@dataclass(frozen=True, slots=True)
class Servers:
    """What the savers talk to."""

    postgres: Postgres
    redis: RedisServer
    mongodb: Mongo
    cosmosdb: Account


@contextmanager
def on_memory(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """One saver, whoever asks: nobody else can see it."""
    from threadmark.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    yield lambda: saver, lambda: 0


@contextmanager
def on_sqlite(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """A file."""
    from threadmark.checkpoint.sqlite import SqliteSaver

    with TemporaryDirectory() as folder:
        yield lambda: SqliteSaver.from_conn_string(f"{folder}/file.db"), lambda: 0


@contextmanager
def on_postgres(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """A database of its own."""
    from threadmark.checkpoint.postgres import PostgresSaver

    database = servers.postgres.database()
    with proxy(servers.postgres.port) as between:
        url = servers.postgres.url(database, port=between.port)
        yield lambda: PostgresSaver.from_conn_string(url), since(lambda: between.asked)
    servers.postgres.drop(database)


@contextmanager
def on_redis(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """A prefix of its own."""
    from threadmark.checkpoint.redis import RedisSaver

    with proxy(servers.redis.port) as between:
        url = f"redis://127.0.0.1:{between.port}"
        yield lambda: RedisSaver.from_conn_string(url, prefix="backends"), since(lambda: between.asked)


@contextmanager
def on_mongodb(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """A database of its own; the driver tells its commands."""
    from threadmark.checkpoint.mongodb import MongoDBSaver

    commands = Commands()
    with servers.mongodb.database() as name:
        uri = servers.mongodb.uri
        yield (
            lambda: MongoDBSaver.from_conn_string(uri, name, event_listeners=[commands]),
            lambda: len(commands.taken()),
        )


@contextmanager
def on_cosmosdb(servers: Servers) -> Iterator[tuple[Opener, Trips]]:
    """A container of its own; our fake tells what it was asked."""
    from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync

    text = servers.cosmosdb.conn_string()
    yield (
        lambda: CosmosDBSaverSync.from_conn_string(text),
        lambda: sum(servers.cosmosdb.told()["asked"].values()),
    )


def since(total: Callable[[], int]) -> Trips:
    """How much more it is than when it was asked the last time."""
    last = total()

    def more() -> int:
        nonlocal last
        now, last = total(), last
        now, last = now - last, now
        return now

    return more


STORES: Final = {
    "memory": on_memory,
    "SQLite": on_sqlite,
    "PostgreSQL": on_postgres,
    "Redis": on_redis,
    "MongoDB": on_mongodb,
    "Cosmos DB": on_cosmosdb,
}

# -- what is counted ---------------------------------------------------------------------------------------------------

_call = Caller("sync", lambda result: result)


def counted(opened: Opener, trips: Trips) -> dict[str, int]:
    """Round trips of the operations that a program does all the time, on a thread of a dozen checkpoints."""
    with ExitStack() as stack:
        one, other, third = (stack.enter_context(opened()) for _ in range(3))
        grown = filled(one, _call, count=9)
        filled(other, _call, thread_id="other", count=2)
        third.get_tuple(config("none"))  # it is connected, and remembers nothing of the thread
        found = {}

        def count(name: str, work: Callable[[], object]) -> None:
            trips()
            work()
            found[name] = trips()

        count("a superstep", lambda: superstep(one, grown))
        count("ten supersteps that are stored together (`async`)", lambda: many(one, grown))
        count("the writes of one task", lambda: one.put_writes(grown.config, [("n", 1)], "task"))
        count("the newest checkpoint", lambda: one.get_tuple(config()))
        superstep(other, grown)
        count("a superstep after one of another process, which is read first", lambda: superstep(one, grown))
        count("the newest checkpoint, for a saver that remembers nothing", lambda: third.get_tuple(config()))
    return found


def superstep(saver: Any, grown: Grown) -> None:
    """A step of the thread: what a task wrote, and the checkpoint that takes it in."""
    head = grown.config["configurable"].get("checkpoint_id")
    number = grown.step = grown.step + 1
    made = checkpoint({"rows": ["x" * 90] * number, "n": number}, dict.fromkeys(("rows", "n"), f"{number + 50:032}"))
    tasks = [("task", "~p", [("n", number)])]
    grown.config = saver.put_step(
        grown.config, made, {"step": number}, made["channel_versions"], tasks, expected_head=head
    )


def many(saver: Any, grown: Grown) -> None:
    """What a run with ``durability="async"`` hands over at once when the store is slower than the graph."""
    writer = saver.open_writer(grown.config)
    for _ in range(10):
        number = grown.step = grown.step + 1
        made = checkpoint({"n": number}, {"n": f"{number + 50:032}"})
        writer.add(Step(grown.config, made, {"step": number}, {"n": made["channel_versions"]["n"]}))
        grown.config = config(id=made["id"])
    writer.flush()


# -- what is known -----------------------------------------------------------------------------------------------------

FACTS: Final[Mapping[str, Mapping[str, str]]] = {
    "what is acknowledged is": {
        "memory": "in this process",
        "SQLite": "on the disk (`synchronous=FULL`)",
        "PostgreSQL": "on the server's disk, unless `synchronous_commit=off`",
        "Redis": "in the server's memory; on its disk with `wait_aof=True` or `appendfsync always`",
        "MongoDB": "in the journals of a majority, unless `write_concern` says less",
        "Cosmos DB": "on a quorum of replicas",
    },
    "what makes a superstep whole": {
        "memory": "a lock",
        "SQLite": "one transaction",
        "PostgreSQL": "one transaction",
        "Redis": "one script",
        "MongoDB": "one transaction; above 8 MiB, or without transactions, one document that is written last",
        "Cosmos DB": "one batch; above 2 MB the one that is sent last",
    },
    "who may use it at once": {
        "memory": "the threads of a process",
        "SQLite": "the processes of a machine",
        "PostgreSQL": "everybody",
        "Redis": "everybody",
        "MongoDB": "everybody",
        "Cosmos DB": "everybody; one region writes",
    },
    "the largest thread": {
        "memory": "memory",
        "SQLite": "the disk",
        "PostgreSQL": "the disk",
        "Redis": "the memory of one server",
        "MongoDB": "the disk of one shard",
        "Cosmos DB": "20 GB",
    },
    "the largest superstep": {
        "memory": "memory",
        "SQLite": "memory",
        "PostgreSQL": "1 GB, what one message may have",
        "Redis": "1 GB (`client-query-buffer-limit`)",
        "MongoDB": "memory",
        "Cosmos DB": "memory",
    },
    "the longest id and namespace": {
        "memory": "any",
        "SQLite": "any",
        "PostgreSQL": "about 2,500 bytes",
        "Redis": "any",
        "MongoDB": "any",
        "Cosmos DB": "any",
    },
    "threads that expire": {
        "memory": "-",
        "SQLite": "-",
        "PostgreSQL": "-",
        "Redis": "`ttl`",
        "MongoDB": "`ttl`",
        "Cosmos DB": "-",
    },
}


def table(servers: Servers) -> str:
    """The table: a column for each kind of store."""
    rows: dict[str, list[str]] = {}
    for name, on in STORES.items():
        with on(servers) as (opened, trips):
            with opened() as saver:
                offers = capabilities_of(saver)
                reads = hasattr(saver, "open_read_only")
            for each in CAPABILITIES:
                colours = offers.offers[each.name] if offers.has(each.name) else ()
                shown = "both" if len(colours) == 2 else "".join(colours) or "-"
                rows.setdefault(f"`{each.name}`", []).append(shown)
            rows.setdefault("`open_read_only`", []).append("yes" if reads else "-")
            for fact, told in FACTS.items():
                rows.setdefault(fact, []).append(told[name])
            for what, number in counted(opened, trips).items():
                rows.setdefault(f"round trips: {what}", []).append(str(number))
    head = ["", *STORES]
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows.items())]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> None:
    """Print it."""
    with (
        postgres() as postgres_server,
        running(redis_binary) as redis_server,
        any_mongodb() as mongo,
        account(real=False) as cosmos,
    ):
        print(table(Servers(postgres_server, redis_server, mongo, cosmos)))


if __name__ == "__main__":
    main()
