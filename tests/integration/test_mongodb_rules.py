"""What is special to the MongoDB savers: round trips, large values, names, settings, times to live, damage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import WriteConcern
from pymongo.read_concern import ReadConcern

from tests.services.mongodb import Commands, Mongo, mongodb
from threadmark.checkpoint.base import Step
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, filled
from threadmark.checkpoint.mongodb import AsyncMongoDBSaver, MongoDBSaver
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.records import Ref
from threadmark.checkpoint.transact import look, transact
from threadmark.colour import drive
from threadmark.errors import DamagedRow, ForeignDatabase, SaverError
from threadmark.interop.conformance import report_on

MODES: dict[str, dict[str, Any]] = {"transactions": {}, "published last": {"transactions": False}}
call = Caller("sync", lambda result: result)


@contextmanager
def counted(mongo: Mongo, **options: Any) -> Iterator[tuple[MongoDBSaver, Commands]]:
    commands = Commands()
    with (
        mongo.database() as name,
        MongoDBSaver.from_conn_string(mongo.uri, name, event_listeners=[commands], **options) as saver,
    ):
        saver.setup()
        yield saver, commands


@pytest.fixture
def saver(mongodb: Mongo) -> Iterator[MongoDBSaver]:
    with mongodb.database() as name, MongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
        yield saver


# -- round trips -----------------------------------------------------------------------------------------------------

SUPERSTEP = {
    "transactions": ["aggregate", "update", "commitTransaction"],
    "published last": ["aggregate", "update", "update"],
}


@pytest.mark.parametrize("mode", MODES)
def test_a_superstep_is_three_round_trips(mongodb: Mongo, mode: str) -> None:
    with counted(mongodb, **MODES[mode]) as (saver, commands):
        grown = filled(saver, call, count=2)
        for number in range(3):
            commands.taken()
            made = checkpoint({"rows": ["x" * 900] * number, "n": number}, {"rows": f"{number + 9:032}", "n": "9"})
            tasks = [(f"t{task}", "", [("n", number), ("rows", ["x" * 900])]) for task in range(5)]
            head = grown.config["configurable"]["checkpoint_id"]
            grown.config = saver.put_step(grown.config, made, {}, {"rows": ""}, tasks, expected_head=head)
            assert commands.taken() == SUPERSTEP[mode]
        saver.put_writes(grown.config, [("n", 1)], "task")
        assert commands.taken() == SUPERSTEP[mode]
        writer = saver.open_writer(grown.config)
        for number in range(4):
            made = checkpoint({"n": number}, {"n": f"{number + 20:032}"})
            writer.add(Step(grown.config, made, {}, {"n": ""}))
            grown.config = config(id=made["id"])
        writer.flush()
        assert commands.taken() == SUPERSTEP[mode]


def test_reads_are_a_bounded_number_of_round_trips(mongodb: Mongo) -> None:
    with counted(mongodb) as (saver, commands):
        at = filled(saver, call, count=6).config
        commands.taken()
        for ref, trips in ((config(), 2), (at, 1), (config(), 1)):  # at first, segments are read
            assert saver.get_tuple(ref).pending_writes  # type: ignore[union-attr]
            assert commands.taken() == ["aggregate"] * trips
        name = saver.collection.database.name
        for ref in (config(), at):
            with MongoDBSaver.from_conn_string(mongodb.uri, name, event_listeners=[commands]) as other:
                assert other.get_tuple(ref).pending_writes  # type: ignore[union-attr]
            # Whose collection it is, the thread, the checkpoint, values, and twice segments.
            assert commands.taken() == ["find", "find", *["aggregate"] * 4, "endSessions"]
        assert len(list(saver.list(config(), limit=1))) == 1
        assert len(commands.taken()) <= 5


def test_a_thread_that_is_not_as_it_is_remembered(mongodb: Mongo) -> None:
    with counted(mongodb) as (saver, _):
        first = filled(saver, call, count=2).config
        with MongoDBSaver(mongodb.client, saver.collection.database.name) as other:
            other.delete_thread("t")
            assert saver.get_tuple(config()) is None
            filled(other, call, count=1)
            assert saver.get_tuple(first) is None
            other.delete_thread("t")
            filled(other, call, count=3)
            assert [item.metadata["step"] for item in saver.list(config())] == [1, 0, -1]
            assert saver.get_tuple(config()).metadata["step"] == 1  # type: ignore[union-attr]


def test_a_lineage_is_one_query(mongodb: Mongo) -> None:
    with counted(mongodb) as (saver, commands):
        grown = filled(saver, call, count=6)
        ids = [at["configurable"]["checkpoint_id"] for at in grown.configs]
        thread = drive(look(saver._port, lambda view: view.thread("t")))
        assert thread is not None
        commands.taken()
        for limit in (None, 1, 3, 99):
            rows, tasks = drive(look(saver._port, lambda view: view.lineage(thread, "", ids[4], limit)))  # noqa: B023
            wanted = ids[4::-1][:limit]
            assert [row.id for row in rows] == wanted
            assert sorted(task.id for task in tasks) == sorted(wanted)
        assert commands.taken() == ["aggregate"] * 4
        # The same ids in another thread and in another namespace.
        saver.copy_thread("t", "u")
        for at in grown.configs:
            id = at["configurable"]["checkpoint_id"]
            saver.put(config("t", ns="elsewhere"), checkpoint({"a": 1}, id=id), {}, {})
            saver.put_writes(config("t", id, ns="elsewhere"), [("a", 1)], "task")
        for ns, wanted in (("", ids[4::-1]), ("elsewhere", ids[4:5])):
            rows, tasks = drive(look(saver._port, lambda view: view.lineage(thread, ns, ids[4], None)))  # noqa: B023
            assert [(row.ns, row.id) for row in rows] == [(ns, id) for id in wanted]
            assert sorted((task.ns, task.id) for task in tasks) == sorted((ns, id) for id in wanted)
            newest = saver.get_tuple(config("t", ns=ns))
            assert newest is not None
            assert newest.config == config("t", ids[5], ns=ns)
            assert len({task for task, _, _ in newest.pending_writes or ()}) == 1
        rows, tasks = drive(look(saver._port, lambda view: view.lineage(thread, "", "unknown", None)))
        assert (list(rows), list(tasks)) == ([], [])


# -- large values ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_a_value_of_40_megabytes(mongodb: Mongo, mode: str) -> None:
    big = os.urandom(40 << 20)
    with counted(mongodb, **MODES[mode]) as (saver, _):
        at = saver.put(config(), checkpoint({"big": big, "n": 1}), {}, {})
        saver.put_writes(at, [("big", big[: 1 << 20])], "task")
        saver._caches = Caches(scale=0)
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"big": big, "n": 1}
        assert found.pending_writes == [("task", "big", big[: 1 << 20])]
        assert saver.collection.count_documents({"by": {"$exists": True}}) == 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_is_longer_than_a_document_may_be(mongodb: Mongo, mode: str) -> None:
    """Nothing of the saver's makes such rows yet; a port takes them all the same."""
    body = os.urandom(20 << 20)

    async def store(change: Any) -> Any:
        thread = await change.open_thread("t", b"s" * 16)
        await change.add_values(thread, [(7, body), (8, b"short")])
        assert await change.values(thread, [7]) == {7: body}
        return thread

    async def read(view: Any) -> Any:
        return await view.values(thread, [7, 8]), await view.sizes(thread)

    async def drop(change: Any) -> None:
        await change.sweep(thread, [8], [])
        assert await change.values(thread, [7, 8]) == {8: b"short"}

    with counted(mongodb, **MODES[mode]) as (saver, _):
        thread = drive(transact(saver._port, store))
        values, sizes = drive(look(saver._port, read))
        assert values == {7: body, 8: b"short"}
        assert sizes.values == {7: len(body), 8: 5}
        assert saver.collection.count_documents({"kind": "part"}) == 3
        drive(transact(saver._port, drop))
        assert saver.collection.count_documents({"kind": {"$in": ["part", "value"]}}) == 1


# -- names -----------------------------------------------------------------------------------------------------------

NAMES = ["$where", "a.b", "a\0b", "\0", "é", "\ufffd", "\U0001f9f5", "z"]


def test_names_of_every_kind_are_kept_apart_and_sort_by_bytes(saver: MongoDBSaver) -> None:
    for name in NAMES:
        at = {"configurable": {"thread_id": name, "checkpoint_ns": name}}
        saver.put(at, checkpoint({f"c{name}": name}, id=name), {"source": name, "run_id": name}, {})
        saver.put_writes({"configurable": {**at["configurable"], "checkpoint_id": name}}, [(name, name)], name, name)
        saver.put(config("same"), checkpoint({}, id=name), {}, {})
    for name in NAMES:
        found = saver.get_tuple({"configurable": {"thread_id": name, "checkpoint_ns": name}})
        assert found is not None
        assert found.checkpoint["channel_values"] == {f"c{name}": name}
        assert found.pending_writes == [(name, name, name)]
    falling = sorted(NAMES, key=str.encode, reverse=True)
    assert [item.checkpoint["id"] for item in saver.list(config("same"))] == falling
    assert [item.checkpoint["id"] for item in saver.list(config("same"), limit=3)] == falling[:3]
    assert saver.get_tuple(config("same")).checkpoint["id"] == falling[0]  # type: ignore[union-attr]
    assert saver.thread_ids() == sorted([*NAMES, "same"], key=str.encode)
    saver.delete_for_runs(["$where"])
    assert saver.get_tuple({"configurable": {"thread_id": "$where", "checkpoint_ns": "$where"}}) is None


def test_a_listing_over_all_threads_has_one_order(saver: MongoDBSaver) -> None:
    refs = [Ref(f"t{n % 3}", f"ns{n % 2}", f"{n % 5}") for n in range(60)]
    for ref in refs:
        at = {"configurable": {"thread_id": ref.thread_id, "checkpoint_ns": ref.ns}}
        saver.put(at, checkpoint({}, id=ref.id), {}, {})
    wanted = sorted(set(refs), key=lambda ref: (ref.thread_id, ref.ns))
    wanted.sort(key=lambda ref: ref.id or "", reverse=True)
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    for limit in (None, 1, 7, 30, 99):
        found = [Ref(*(item.config["configurable"][name] for name in names)) for item in saver.list(None, limit=limit)]
        assert found == wanted[:limit]


# -- settings --------------------------------------------------------------------------------------------------------


def test_a_client_of_ones_own_is_left_open(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        with MongoDBSaver(mongodb.client, name, "kept here") as saver:
            saver.put(config(), checkpoint({"a": 1}), {}, {})
            assert saver.client is mongodb.client
            assert saver.collection.full_name == f"{name}.kept here"
        assert mongodb.client.admin.command("ping")["ok"] == 1


def test_concerns_are_what_the_caller_says(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        for given, wanted in ((None, {"w": "majority", "j": True}), (1, {"w": 1, "j": True})):
            with MongoDBSaver.from_conn_string(mongodb.uri, name, write_concern=given) as saver:
                assert saver.collection.write_concern.document == wanted
                saver.put(config(), checkpoint({"a": 1}), {}, {})
        own = WriteConcern("majority", wtimeout=5000)
        with MongoDBSaver.from_conn_string(mongodb.uri, name, write_concern=own, read_concern="majority") as saver:
            assert (saver.collection.write_concern, saver.collection.read_concern) == (own, ReadConcern("majority"))
            assert saver.get(config()) is not None
        with MongoDBSaver.from_conn_string(mongodb.uri + "&w=1", name) as saver:
            assert saver.collection.write_concern.document == {"w": 1}
        with pytest.raises(ValueError, match="w=0"):
            MongoDBSaver.from_conn_string(mongodb.uri, name, write_concern=0)


def test_the_database_may_stand_in_the_uri(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        with open_saver(mongodb.uri.replace("/?", f"/{name}?")) as saver:
            saver.put(config(), checkpoint({"a": 1}), {}, {})
        with open_saver(mongodb.uri.replace("/?", f"/{name}?"), read_only=True) as saver:
            assert saver.get(config())["channel_values"] == {"a": 1}
            with pytest.raises(SaverError, match="read only"):
                saver.put(config(), checkpoint({"a": 2}), {}, {})
    with MongoDBSaver.from_conn_string("mongodb://localhost:1") as saver:
        assert saver.collection.full_name == "threadmark.checkpoints"


def test_setting_up_again_and_elsewhere_changes_nothing(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        for _ in range(2):
            with MongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
                saver.setup()
                saver.setup()
                names = [index["name"] for index in saver.collection.list_indexes()]
        assert sorted(names) == ["_id_", "by", "gone", "last", "newest", "rows", "run_id"]


def test_what_is_not_ours_is_never_written(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        mongodb.client[name]["checkpoints"].insert_one({"thread_id": "1", "checkpoint_ns": ""})
        with MongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
            for operation in (
                saver.setup,
                lambda: saver.put(config(), checkpoint({"a": 1}), {}, {}),
                lambda: saver.get(config()),
            ):
                with pytest.raises(ForeignDatabase, match="nothing was written"):
                    operation()
        assert mongodb.client[name]["checkpoints"].count_documents({}) == 1


def test_a_newer_format_is_left_alone(mongodb: Mongo) -> None:
    with mongodb.database() as name:
        with MongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
            saver.setup()
            saver.collection.update_one({"_id": 0}, {"$set": {"format": 99}})
        with (
            MongoDBSaver.from_conn_string(mongodb.uri, name) as saver,
            pytest.raises(ForeignDatabase, match="format 99"),
        ):
            saver.get(config())


@pytest.mark.timeout(900)
def test_a_standalone_server_has_no_transactions() -> None:
    with mongodb("--standalone") as mongo:
        with MongoDBSaver.from_conn_string(mongo.uri) as saver:
            filled(saver, call)
            saver.prune(["t"])
            assert not saver._port.store.transactions
            assert [item.metadata["step"] for item in saver.list(config())] == [2]
        with (
            MongoDBSaver.from_conn_string(mongo.uri, transactions=True) as saver,
            pytest.raises(SaverError, match="standalone"),
        ):
            saver.setup()


# -- a time to live --------------------------------------------------------------------------------------------------


def expiry(saver: MongoDBSaver) -> tuple[datetime, datetime, int]:
    """When the thread goes, when its first row goes, and how many rows never do."""
    thread = saver.collection.find_one({"kind": "thread"})
    assert thread is not None
    rows = list(saver.collection.find({"thread": thread["thread"], "kind": {"$ne": "thread"}}))
    dates = [row["expires"] for row in rows if "expires" in row]
    return thread["expires"], min(dates), len(rows) - len(dates)


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_goes_before_its_rows_do(mongodb: Mongo, mode: str) -> None:
    with counted(mongodb, ttl=1000, **MODES[mode]) as (saver, _):
        index = saver.collection.index_information()["expires"]
        assert (index["key"], index["expireAfterSeconds"]) == ([("expires", 1)], 0)
        grown = filled(saver, call, count=2)
        thread, row, kept = expiry(saver)
        now = datetime.now(UTC)
        assert thread <= now + timedelta(seconds=1000) < row
        assert kept == 0
        # Time goes by, during which nothing is written.
        past = timedelta(seconds=900)
        for document in list(saver.collection.find({"expires": {"$exists": True}})):
            dates = {field: document[field] - past for field in ("expires", "kept") if field in document}
            saver.collection.update_one({"_id": document["_id"]}, {"$set": dates})
        saver._port.store.standings.clear()
        grown.put({"rows": ["new"], "same": "x"})
        thread, row, kept = expiry(saver)
        assert thread < row
        assert row > now + timedelta(seconds=1900)
        assert kept == 0


def test_savers_of_different_lives_leave_no_thread_without_its_rows(mongodb: Mongo) -> None:
    with counted(mongodb, ttl=100) as (brief, _):
        name = brief.collection.database.name
        with (
            MongoDBSaver.from_conn_string(mongodb.uri, name, ttl=10_000) as long,
            MongoDBSaver.from_conn_string(mongodb.uri, name) as endless,
        ):
            grown = filled(brief, call, count=2)
            for saver in (long, brief, long):
                grown.saver = saver
                grown.put({"rows": [1], "same": "x"})
                thread, row, kept = expiry(saver)
                assert thread < row
                assert kept == 0
            grown.saver = endless
            grown.put({"rows": [2], "same": "x"})
            assert brief.collection.count_documents({"expires": {"$exists": True}}) == 0
            grown.saver = brief
            grown.put({"rows": [3], "same": "x"})
            assert expiry(brief)[2] == 0


@pytest.mark.timeout(900)
def test_a_thread_that_has_expired_is_gone_as_a_whole() -> None:
    """The server looks five times a second here, where MongoDB looks once a minute."""
    with mongodb(hasty=True) as mongo, MongoDBSaver.from_conn_string(mongo.uri, ttl=1000) as saver:
        filled(saver, call, count=2)
        past = datetime.now(UTC) - timedelta(seconds=1)
        saver.collection.update_one({"_id": "t"}, {"$set": {"expires": past}})
        while (found := saver.get_tuple(config())) is not None:
            assert found.checkpoint["channel_values"]["same"] == "x" * 3000
        assert (saver.thread_ids(), list(saver.list(None))) == ([], [])
        left = {"kind": {"$ne": "threadmark"}}
        assert saver.collection.count_documents(left)  # rows go later
        filled(saver, call, count=1)
        assert len(list(saver.list(config()))) == 1
        saver.collection.update_many(left, {"$set": {"expires": past}})
        while saver.collection.count_documents(left):
            saver.get_tuple(config())


def test_a_time_to_live_is_above_nothing() -> None:
    for ttl in (0, -1.5, float("nan")):
        with pytest.raises(ValueError, match="ttl"):
            MongoDBSaver.from_conn_string("mongodb://localhost", ttl=ttl)


# -- others at the same time -----------------------------------------------------------------------------------------


def test_a_view_that_loses_rows_is_opened_again(mongodb: Mongo) -> None:
    """Rows are removed between two queries of one read."""
    with counted(mongodb) as (saver, commands):
        grown = filled(saver, call, count=3)
        with MongoDBSaver(mongodb.client, saver.collection.database.name) as other:
            aggregate, met = saver._port.driver.aggregate, list[int]()

            async def spoilt(stages: Any) -> Any:
                met.append(1)
                if len(met) == 2:
                    other.prune(["t"])
                return await aggregate(stages)

            saver._port.driver.aggregate = spoilt  # type: ignore[method-assign]
            saver._caches = Caches(scale=0)
            found = saver.get_tuple(config())
        assert found is not None
        assert found.config == grown.config
        assert found.parent_config is None
        assert commands.taken().count("find") > 2


def test_marks_that_a_dead_writer_left_are_finished_by_the_next(mongodb: Mongo) -> None:
    """A change that counts, and of which nothing was tidied up."""
    with counted(mongodb, transactions=False) as (saver, _):
        grown = filled(saver, call, count=3)
        mark, collection = ObjectId(), saver.collection
        collection.update_many({"kind": {"$in": ["checkpoint", "task", "value"]}}, {"$set": {"by": mark}})
        oldest = grown.configs[0]["configurable"]["checkpoint_id"]
        collection.update_many({"id": oldest}, {"$set": {"gone": [mark]}})
        thread = collection.find_one({"_id": "t"})
        assert thread is not None
        collection.update_one({"_id": "t"}, {"$set": {"last": mark, "removed": thread["version"]}})
        saver._port.store.standings.clear()
        assert [item.metadata["step"] for item in saver.list(config())] == [1, 0]
        assert [item.metadata["step"] for item in saver.list(None)] == [1, 0]
        assert saver.list_threads()[0].checkpoints == 2
        grown.put({"rows": ["new"], "same": "x"})
        assert collection.count_documents({"$or": [{"by": mark}, {"gone": mark}, {"last": mark}]}) == 0
        assert [item.metadata["step"] for item in saver.list(config())] == [2, 1, 0]


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("checkpoint", {"$set": {"body": "text"}}),
        ("checkpoint", {"$set": {"step": "text"}}),
        ("checkpoint", {"$unset": {"body": ""}}),
        ("task", {"$set": {"path": 7}}),
        ("value", {"$set": {"body": None}}),
        ("segment", {"$set": {"body": 1.5}}),
        ("thread", {"$set": {"salt": "text"}}),
        ("checkpoint", {"$set": {"parts": 2}, "$unset": {"body": ""}}),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:30],
)
def test_documents_that_hold_something_else_are_damaged_rows(mongodb: Mongo, kind: str, change: Any) -> None:
    with counted(mongodb) as (saver, _):
        filled(saver, call, count=1)
        assert saver.collection.update_many({"kind": kind}, change).modified_count
        saver._caches = Caches(scale=0)
        with pytest.raises(DamagedRow, match="backup"):
            saver.get_tuple(config())


def test_the_awaited_saver_says_the_same_of_itself() -> None:
    assert AsyncMongoDBSaver.__mro__[1] is MongoDBSaver.__mro__[1]
    with pytest.raises(TypeError, match="from_conn_string"):
        AsyncMongoDBSaver("mongodb://localhost")
    with pytest.raises(TypeError, match="from_conn_string"):
        MongoDBSaver("mongodb://localhost")


@pytest.mark.filterwarnings("ignore::Warning")
def test_the_peers_own_conformance_package_passes(mongodb: Mongo) -> None:
    """Through the adapter for its graphs; it asks awaited methods only."""

    @asynccontextmanager
    async def fresh() -> AsyncIterator[Any]:
        with mongodb.database() as name:
            async with AsyncMongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
                yield saver

    report = asyncio.run(report_on("mongodb", fresh))
    assert [failure for found in report.results.values() for failure in found.failures] == []
    assert report.conformance_level() == "FULL"


def test_a_grown_thread_is_no_larger_than_it_need_be(saver: MongoDBSaver) -> None:
    """Bytes of documents for each turn of a conversation, the fields that everything has included."""
    grown = Grown(saver, call)
    rows: list[str] = []
    sizes = []
    for number in range(60):
        rows = [*rows, f"turn {number}: {hash_of(number)}"]
        grown.put({"rows": rows}, run_id="r")
        found = saver.collection.aggregate([{"$group": {"_id": None, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}}}])
        sizes.append(next(iter(found))["bytes"])
    assert (sizes[-1] - sizes[29]) / 30 < 1500


def hash_of(number: int) -> str:
    from hashlib import sha256

    return "".join(sha256(f"{number} {part}".encode()).hexdigest() for part in range(5))
