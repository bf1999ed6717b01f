"""What goes wrong on the way to Cosmos DB, and who else is there: throttling, lost answers, other writers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.services.cosmosdb import ROOT, Account
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, content, filled
from threadmark.checkpoint.cosmosdb import CosmosDBSaver, CosmosDBSaverSync
from threadmark.errors import HeadMoved, Unavailable


def call(saver: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    found = getattr(saver, name)(*args, **kwargs)
    return list(found) if name == "list" else found


def savers(fake: Account, count: int = 2) -> list[CosmosDBSaverSync]:
    """Savers on one container that know nothing of each other."""
    text = fake.conn_string()
    return [CosmosDBSaverSync.from_conn_string(text) for _ in range(count)]


@pytest.fixture
def saver(fake: Account) -> Any:
    with CosmosDBSaverSync(**fake.names()) as saver:
        saver.setup()
        yield saver


# -- the service -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["batch", "read"])
def test_a_storm_of_throttling_is_waited_for(fake: Account, saver: Any, on: str) -> None:
    grown = Grown(saver, call)
    for number in range(10):
        fake.arrange(on=on, status=429, times=number % 4, retry_after_ms=2)
        grown.put({"a": number})
        assert grown.values() == {"a": number}
    assert len(call(saver, "list", config())) == 10


def test_a_storm_in_which_many_write(fake: Account, saver: Any) -> None:
    fake.arrange(on="batch", status=429, times=20, retry_after_ms=1)
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            filled(saver, call, f"t{number}", count=3)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [len(content(saver, call, f"t{number}")) for number in range(6)] == [3] * 6


def test_throttling_without_end_is_unavailable(fake: Account) -> None:
    options = {"retry_throttle_total": 2}
    with CosmosDBSaverSync(**fake.names(), cosmos_client_kwargs=options) as saver:
        grown = Grown(saver, call)
        first = grown.put({"a": 1})
        fake.arrange(on="batch", status=429, times=3, retry_after_ms=1)
        with pytest.raises(Unavailable, match="429"):
            grown.put({"a": 2})
        assert call(saver, "get_tuple", config()).config == first
        grown.put({"a": 3})
        assert grown.values() == {"a": 3}


def test_a_conflict_inside_the_service_is_tried_again(fake: Account, saver: Any) -> None:
    fake.arrange(on="batch", status=449, times=3)
    grown = Grown(saver, call)
    grown.put({"a": 1})
    assert len(call(saver, "list", config())) == 1


@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_is_asked_for_again(fake: Account, saver: Any, lost: int) -> None:
    grown = Grown(saver, call)
    for number in range(3):
        fake.arrange(on="batch", drop=True, times=lost)
        grown.put({"a": number})
        call(saver, "put_writes", grown.config, [("a", number)], "task")
    assert [item.checkpoint["channel_values"] for item in call(saver, "list", config())] == [
        {"a": 2}, {"a": 1}, {"a": 0},
    ]  # fmt: skip
    assert [item.pending_writes for item in call(saver, "list", config())] == [
        [("task", "a", number)] for number in (2, 1, 0)
    ]


def test_a_lost_answer_about_a_part(fake: Account, saver: Any) -> None:
    import os

    value = os.urandom(5_000_000)
    at = Grown(saver, call).put({"a": 1})
    for after in range(3):
        fake.arrange(on="batch", drop=True, after=after)
        made = checkpoint({"a": value}, {"a": f"{after + 7:032}"})
        call(saver, "put", at, made, {}, made["channel_versions"])
        assert call(saver, "get_tuple", config()).checkpoint == made


@pytest.mark.parametrize("after", range(2))
@pytest.mark.parametrize("command", ["prune", "delete_thread"])
def test_a_lost_answer_about_upkeep(fake: Account, saver: Any, command: str, after: int) -> None:
    grown = filled(saver, call, count=4)
    fake.arrange(on="batch", drop=True, after=after)
    call(saver, command, ["t"] if command == "prune" else "t")
    assert [item.config for item in call(saver, "list", config())] == grown.configs[-1:] * (command == "prune")
    left = list(saver._items._container.query_items("SELECT * FROM c", partition_key="t"))
    assert len(left) == 2 * (command == "prune")


def test_answers_that_never_come_are_unavailable(fake: Account, saver: Any) -> None:
    grown = Grown(saver, call)
    first = grown.put({"a": 1})
    fake.arrange(on="batch", drop=True, times=4)
    with pytest.raises(Unavailable, match="did not answer"):
        grown.put({"a": 2})
    # Nobody can know whether it was stored; doing it again is right either way.
    assert len(call(saver, "list", config())) in (1, 2)
    made = checkpoint({"a": 3}, {"a": f"{9:032}"})
    call(saver, "put", first, made, {}, made["channel_versions"])
    assert call(saver, "get_tuple", config()).checkpoint == made


def test_a_lost_answer_while_another_goes_on(fake: Account) -> None:
    saver, other = savers(fake)
    with saver, other:
        first = Grown(saver, call).put({"a": 1})
        batch = saver._items.batch

        async def overtaken(partition: str, operations: Any) -> Any:
            from threadmark.checkpoint.cosmosdb.errors import Unheard

            saver._items.batch = batch  # type: ignore[method-assign]
            await batch(partition, operations)
            second = call(other, "get_tuple", config()).config
            call(other, "put", second, checkpoint({"a": 3}), {"step": 3}, {"a": 3})
            raise Unheard("the answer is lost")

        saver._items.batch = overtaken  # type: ignore[method-assign]
        expected = first["configurable"]["checkpoint_id"]
        call(saver, "put", first, checkpoint({"a": 2}), {"step": 2}, {"a": 2}, expected_head=expected)
        assert [item.metadata["step"] for item in call(saver, "list", config())] == [3, 2, -1]


def test_a_step_that_is_sent_again_is_not_put_over_another_s(fake: Account) -> None:
    saver, other = savers(fake)
    with saver, other:
        first = Grown(saver, call).put({"a": 1})
        fake.arrange(on="batch", status=500)
        pause = saver._items.pause

        async def overtaken(seconds: float) -> None:
            saver._items.pause = pause  # type: ignore[method-assign]
            call(other, "put", first, checkpoint({"a": 2}), {"step": 2}, {"a": 2})

        saver._items.pause = overtaken  # type: ignore[method-assign]
        expected = first["configurable"]["checkpoint_id"]
        with pytest.raises(HeadMoved):
            call(saver, "put", first, checkpoint({"a": 3}), {"step": 3}, {"a": 3}, expected_head=expected)
        assert [item.metadata["step"] for item in call(saver, "list", config())] == [2, -1]


def test_nobody_is_there() -> None:
    options = {"retry_total": 0, "retry_connect": 0, "connection_timeout": 1}
    saver = CosmosDBSaverSync("d", "c", endpoint="http://127.0.0.1:9/", key="aHVzaA==", cosmos_client_kwargs=options)
    with saver, pytest.raises(Unavailable, match=r"127\.0\.0\.1:9") as caught:
        saver.get_tuple(config())
    assert "aHVzaA" not in str(caught.value)


# -- requests --------------------------------------------------------------------------------------------------------


def test_a_step_is_one_request_and_so_is_reading_it(fake: Account, saver: Any) -> None:
    grown = Grown(saver, call)
    grown.put({"a": 1})
    for number in range(3):
        fake.told()
        at, made = grown.config, checkpoint({"a": number}, {"a": f"{number + 5:032}"})
        expected = at["configurable"]["checkpoint_id"]
        tasks = [("task", "~", [("a", number)])]
        grown.config = call(saver, "put_step", at, made, {}, {"a": 5}, tasks, expected_head=expected)
        told = fake.told()
        assert told["asked"] == {"batch": 1}
        assert told["units"] < 17
        assert call(saver, "get_tuple", config()).checkpoint == made
        assert fake.told() | {"stored": 0} == {"asked": {"read": 1}, "units": 1.0, "stored": 0}


def test_a_list_with_a_limit_reads_no_more_than_it_must(fake: Account, saver: Any) -> None:
    grown = filled(saver, call, count=100)
    fake.told()
    (found,) = call(saver, "list", config(), limit=1)
    assert found.config == grown.config
    assert fake.told()["asked"]["query"] <= 4
    before = grown.configs[50]
    found = call(saver, "list", config(), limit=3, before=before)
    assert [item.config for item in found] == grown.configs[49:46:-1]


# -- other writers ---------------------------------------------------------------------------------------------------


def test_what_another_has_stored_is_seen(fake: Account) -> None:
    one, two = savers(fake)
    with one, two:
        grown = Grown(one, call)
        for number in range(6):
            grown.saver = (one, two)[number % 2]
            grown.put({"a": number})
            call(grown.saver, "put_writes", grown.config, [("a", number)], "task")
            for saver in (one, two):
                found = call(saver, "get_tuple", config())
                assert found.config == grown.config
                assert found.pending_writes == [("task", "a", number)]


def test_of_two_that_expect_the_same_head_one_wins(fake: Account) -> None:
    one, two = savers(fake)
    with one, two:
        grown = Grown(one, call)
        first = grown.put({"a": 1})
        call(two, "get_tuple", config())
        second = grown.put({"a": 2})
        ids = [at["configurable"]["checkpoint_id"] for at in (first, second)]
        with pytest.raises(HeadMoved) as caught:
            call(two, "put", first, checkpoint({"a": 3}), {}, {"a": 3}, expected_head=ids[0])
        assert caught.value.found == ids[1]
        # The other way round: what one remembers is older than what two expects, and rightly so.
        third = call(two, "put", second, checkpoint({"a": 4}), {}, {"a": 4}, expected_head=ids[1])
        at = third["configurable"]["checkpoint_id"]
        fourth = call(one, "put", third, checkpoint({"a": 5}), {}, {"a": 5}, expected_head=at)
        at = fourth["configurable"]["checkpoint_id"]
        call(two, "put", config(), checkpoint({"a": 6}), {}, {"a": 6}, expected_head=at)
        assert len(call(one, "list", config())) == 5


def test_a_thread_that_another_deleted_and_began_anew(fake: Account) -> None:
    one, two = savers(fake)
    with one, two:
        grown = filled(one, call, count=3)
        call(two, "delete_thread", "t")
        assert call(one, "get_tuple", config()) is None
        call(one, "put_writes", grown.config, [("rows", "x" * 5000)], "task")
        other = Grown(two, call).put({"b": "new"})
        made = checkpoint({"rows": ["after"]}, {"rows": "9"})
        at = call(one, "put", grown.config, made, {}, {"rows": "9"})
        assert call(two, "get_tuple", at).checkpoint == made
        assert call(two, "get_tuple", other).checkpoint["channel_values"] == {"b": "new"}
        assert call(two, "get_tuple", grown.config) is None
        call(two, "put", config("t", ns=""), checkpoint({}, id=grown.config["configurable"]["checkpoint_id"]), {}, {})
        assert call(one, "get_tuple", grown.config).pending_writes == [("task", "rows", "x" * 5000)]


def test_writes_that_came_before_their_checkpoint(fake: Account) -> None:
    one, two = savers(fake)
    with one, two:
        grown = Grown(one, call)
        first = grown.put({"a": 1})
        made = [checkpoint({"a": number}, {"a": number + 2}) for number in range(70)]
        call(two, "put_writes", config("t", made[0]["id"]), [("a", "early")], "task")
        call(one, "put", first, made[0], {}, {"a": 2})
        assert call(one, "get_tuple", config()).pending_writes == [("task", "a", "early")]
        call(one, "put_writes", config("t", made[0]["id"]), [("a", "again"), ("b", 1)], "task")
        found = call(two, "get_tuple", config())
        assert found.pending_writes == [("task", "a", "early"), ("task", "b", 1)]
        for later in made[1:]:  # more of them than a head names
            call(two, "put_writes", config("t", later["id"]), [("a", later["id"])], "task")
        for later in (made[1], made[69]):
            call(one, "put", first, later, {}, {"a": later["channel_versions"]["a"]})
            assert call(one, "get_tuple", config()).pending_writes == [("task", "a", later["id"])]


def interrupted(saver: Any, at: int, work: Callable[[], Any]) -> None:
    """Have ``work`` done just before the ``at``-th query that a saver makes from now on."""
    query, asked = saver._items.query, 0

    async def overtaken(text: str, params: Any, partition: Any) -> Any:
        nonlocal asked
        if asked == at:
            work()
        asked += 1
        async for item in query(text, params, partition):
            yield item

    saver._items.query = overtaken


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("command", ["prune", "delete_thread"])
def test_a_reader_sees_what_was_before_or_after(fake: Account, at: int, command: str) -> None:
    one, two = savers(fake)
    with one, two:
        grown = filled(one, call, count=6)
        whole = call(one, "get_tuple", grown.config)
        interrupted(two, at, lambda: call(one, command, ["t"] if command == "prune" else "t"))
        found = call(two, "get_tuple", grown.config)
        if found is None:
            assert command == "delete_thread"
            return
        assert (found.checkpoint, found.pending_writes) == (whole.checkpoint, whole.pending_writes)


@pytest.mark.parametrize("at", range(4))
def test_a_copy_is_of_one_time(fake: Account, at: int) -> None:
    one, two = savers(fake)
    with one, two:
        filled(one, call, count=6)
        before = content(one, call, "t")
        interrupted(two, at, lambda: call(one, "prune", ["t"]))
        call(two, "copy_thread", "t", "copy")
        assert content(two, call, "copy") in (before, content(one, call, "t"))


WRITER = """
    import sys
    sys.path.insert(0, {root!r})
    from threadmark.checkpoint.conformance.kit import checkpoint, config
    from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync
    from threadmark.errors import HeadMoved

    saver, name = CosmosDBSaverSync.from_conn_string(sys.argv[1]), sys.argv[2]
    saver.setup()
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while done < 10:
        head = saver.get_tuple(config())
        count = 0 if head is None else head.checkpoint["channel_values"]["count"]
        log = [] if head is None else head.checkpoint["channel_values"]["log"]
        at = config() if head is None else head.config
        made = checkpoint(dict(count=count + 1, log=[*log, name]), dict(count=f"{{count:032}}", log=f"{{count:032}}"))
        try:
            saver.put(at, made, {{}}, made["channel_versions"], expected_head=at["configurable"].get("checkpoint_id"))
            done += 1
        except HeadMoved:
            pass
    """


def test_several_processes_lose_no_update(fake: Account) -> None:
    text = fake.conn_string()
    code = textwrap.dedent(WRITER).format(root=str(ROOT))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, text, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"  # each has made the container, or found it made
    for process in running:
        process.communicate("go\n")
        assert process.returncode == 0
    with CosmosDBSaverSync.from_conn_string(text) as saver:
        found = call(saver, "get_tuple", config())
        assert found.checkpoint["channel_values"]["count"] == 30
        assert sorted(found.checkpoint["channel_values"]["log"]) == [*"a" * 10, *"b" * 10, *"c" * 10]
        assert len(call(saver, "list", config())) == 30


def test_tasks_of_one_loop_write_one_thread(fake: Account) -> None:
    async def main() -> None:
        async with CosmosDBSaver(**fake.names()) as saver:
            at = await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
            writes = [saver.aput_writes(at, [("a", number)], f"{number:02}", f"~{number:02}") for number in range(25)]
            await asyncio.gather(*writes)
            found = await saver.aget_tuple(at)
            assert found is not None
            assert [write[2] for write in found.pending_writes or ()] == list(range(25))

    asyncio.run(main())
