"""The fake of Cosmos DB refuses what the service refuses, and everything that it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from tests.services.cosmos_fake import PAGE
from tests.services.cosmos_sql import NotUnderstood, parsed
from tests.services.cosmos_store import BATCH_LIMIT, ITEM_LIMIT, Container, Refused
from tests.services.cosmosdb import Account

INDEXES = {"indexingMode": "consistent", "includedPaths": [{"path": "/n/?"}], "excludedPaths": [{"path": "/*"}]}


@pytest.fixture(scope="module")
def client(fake: Account) -> Iterator[Any]:
    with CosmosClient(fake.endpoint, fake.key) as client:
        yield client


@pytest.fixture(scope="module")
def database(client: Any) -> Any:
    return client.create_database(f"fake-{uuid4().hex[:8]}")


@pytest.fixture
def container(database: Any) -> Any:
    return database.create_container(uuid4().hex, PartitionKey("/thread"), indexing_policy=INDEXES)


def item(id: str, thread: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id, "thread": thread, **more}


def created(*ids: str) -> list[Any]:
    return [("create", (item(id),)) for id in ids]


def refused(call: Any, status: int) -> Any:
    with pytest.raises((CosmosHttpResponseError, CosmosBatchOperationError)) as caught:
        call()
    assert caught.value.status_code == status
    return caught.value


# -- items -----------------------------------------------------------------------------------------------------------


def test_an_item_is_read_where_it_was_made(container: Any) -> None:
    container.create_item(item("a", n=1))
    assert container.read_item("a", partition_key="t")["n"] == 1
    refused(lambda: container.read_item("a", partition_key="other"), 404)
    refused(lambda: container.create_item(item("a")), 409)


@pytest.mark.parametrize("id", ["a/b", "a\\b", "a?b", "a#b", "x" * 256, "a "])
def test_ids_that_the_service_refuses(container: Any, id: str) -> None:
    refused(lambda: container.execute_item_batch(created(id), partition_key="t"), 400)


def test_a_partition_key_is_the_item_s_own(container: Any) -> None:
    refused(lambda: container.execute_item_batch([("create", (item("a", "u"),))], partition_key="t"), 400)
    long = "x" * 2050
    refused(lambda: container.create_item(item("a", long)), 400)


def test_an_item_has_at_most_two_megabytes(container: Any) -> None:
    small = "x" * (ITEM_LIMIT - 100)
    container.create_item(item("a", text=small))
    refused(lambda: container.create_item(item("b", text=small + "x" * 200)), 413)


def test_an_etag_is_compared(container: Any) -> None:
    made = container.create_item(item("a"))

    def matching(name: str, *args: Any) -> Any:
        operation = (name, args, {"if_match_etag": made["_etag"]})
        return container.execute_item_batch([operation], partition_key="t")

    matching("replace", "a", item("a", n=2))
    refused(lambda: matching("replace", "a", item("a", n=3)), 412)
    refused(lambda: matching("delete", "a"), 412)
    assert container.read_item("a", partition_key="t")["n"] == 2


# -- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_done_whole_or_not_at_all(container: Any) -> None:
    container.create_item(item("there", n=1))
    operations = [*created("a"), ("delete", ("there",)), *created("a", "b")]
    error = refused(lambda: container.execute_item_batch(operations, partition_key="t"), 409)
    assert error.error_index == 2
    assert [each["statusCode"] for each in error.operation_responses] == [424, 424, 409, 424]
    assert found(container, "SELECT VALUE c.id FROM c") == ["there"]


def test_a_batch_has_a_hundred_operations(container: Any) -> None:
    container.execute_item_batch(created(*map(str, range(100))), partition_key="t")
    refused(lambda: container.execute_item_batch(created(*map(str, range(200, 301))), partition_key="t"), 400)


def test_a_batch_has_two_megabytes(container: Any) -> None:
    half = "x" * (BATCH_LIMIT // 2)
    operations = [("create", (item(id, text=half),)) for id in ("a", "b")]
    refused(lambda: container.execute_item_batch(operations, partition_key="t"), 413)
    assert found(container, "SELECT * FROM c") == []


def test_an_operation_that_nobody_taught_it_is_refused(container: Any) -> None:
    patch = ("patch", ("a", [{"op": "set", "path": "/n", "value": 1}]))
    refused(lambda: container.execute_item_batch([patch], partition_key="t"), 400)
    refused(lambda: container.patch_item("a", "t", [{"op": "set", "path": "/n", "value": 1}]), 501)


def test_answers_are_short_if_that_is_asked_for(container: Any) -> None:
    (result,) = container.execute_item_batch(created("a"), partition_key="t", no_response=True)
    assert result["eTag"] == container.read_item("a", partition_key="t")["_etag"]
    assert "resourceBody" not in result
    (result,) = container.execute_item_batch(created("b"), partition_key="t")
    assert result["resourceBody"]["id"] == "b"


# -- queries ---------------------------------------------------------------------------------------------------------


def found(container: Any, query: str, partition: str | None = "t", **params: Any) -> list[Any]:
    where: dict[str, Any] = {"enable_cross_partition_query": True}
    if partition is not None:
        where = {"partition_key": partition}
    given = [{"name": f"@{name}", "value": value} for name, value in params.items()]
    return list(container.query_items(query, parameters=given, **where))


def test_a_query_sees_its_partition(container: Any) -> None:
    for thread in ("t", "u"):
        container.create_item(item("a", thread, n=1))
    assert [each["thread"] for each in found(container, "SELECT * FROM c")] == ["t"]
    assert len(found(container, "SELECT * FROM c", None)) == 2
    with pytest.raises(CosmosHttpResponseError):
        list(container.query_items("SELECT * FROM c", enable_cross_partition_query=False))


def test_results_come_in_pages(container: Any) -> None:
    names = [f"{number:03}" for number in range(3 * PAGE + 1)]
    for at in range(0, len(names), 100):
        operations = [("create", (item(id, n=id),)) for id in names[at : at + 100]]
        container.execute_item_batch(operations, partition_key="t")
    assert found(container, "SELECT VALUE c.id FROM c") == names
    assert found(container, "SELECT VALUE c.id FROM c ORDER BY c.n DESC") == names[::-1]
    pages = container.query_items(
        "SELECT VALUE c.id FROM c ORDER BY c.n", partition_key="t", max_item_count=3
    ).by_page()
    first = list(next(pages))
    assert first == names[:3]
    container.delete_item("002", partition_key="t")
    assert list(next(pages)) == names[3:6]


def test_what_is_compared_must_be_of_one_type(container: Any) -> None:
    container.create_item(item("text", n="1", keys=["a"]))
    container.create_item(item("number", n=1))
    container.create_item(item("nothing"))
    assert found(container, "SELECT c.id FROM c WHERE c.n >= @n", n=1) == [{"id": "number"}]
    assert found(container, "SELECT VALUE c.id FROM c WHERE c.n > '' OR ARRAY_CONTAINS(c.keys, 'a')") == ["text"]
    assert found(container, "SELECT VALUE c.id FROM c WHERE (c.n = 1 OR c.n = '1') AND c.n != 2") == ["number"]


def test_order_needs_an_index(container: Any) -> None:
    refused(lambda: found(container, "SELECT * FROM c ORDER BY c.other"), 400)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT",
        "SELECT TOP 1 * FROM c",
        "SELECT DISTINCT c.id FROM c",
        "SELECT * FROM root r",
        "SELECT COUNT(1) FROM c",
        "SELECT * FROM c WHERE c.a.b = 1",
        "SELECT * FROM c WHERE c.a LIKE 'x'",
        "SELECT * FROM c WHERE NOT c.a = 1",
        "SELECT * FROM c WHERE c.a IN (1)",
        "SELECT * FROM c JOIN k IN c.keys",
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        "SELECT * FROM c WHERE c.a = @missing",
        "select * from c",
        "DELETE FROM c",
        "SELECT * FROM c; SELECT * FROM c",
    ],
)
def test_sql_that_nobody_taught_it_is_an_error(container: Any, query: str) -> None:
    with pytest.raises(NotUnderstood):
        parsed(query, {})
    refused(lambda: found(container, query), 400)


def test_a_parameter_that_is_not_used_is_an_error() -> None:
    with pytest.raises(NotUnderstood, match="@b"):
        parsed("SELECT * FROM c WHERE c.a = @a", {"@a": 1, "@b": 2})


# -- the rest --------------------------------------------------------------------------------------------------------


def test_another_key_is_not_let_in(fake: Account) -> None:
    refused(lambda: CosmosClient(fake.endpoint, "d3Jvbmc="), 401)


def test_names_are_taken_once(client: Any, database: Any, container: Any) -> None:
    refused(lambda: client.create_database(database.id), 409)
    refused(lambda: database.create_container(container.id, PartitionKey("/thread")), 409)
    missing = database.get_container_client("missing")
    assert refused(missing.read, 404).sub_status == 1003


def test_a_route_that_there_is_not_is_an_error(container: Any) -> None:
    refused(lambda: container.scripts.create_stored_procedure({"id": "a", "body": "x"}), 501)


def test_a_whole_partition_can_be_removed(container: Any) -> None:
    for thread in ("t", "u"):
        container.create_item(item("a", thread))
    container.delete_all_items_by_partition_key("t")
    assert found(container, "SELECT VALUE c.thread FROM c", None) == ["u"]


def test_arranged_trouble_comes_when_it_was_said_to(fake: Account, container: Any) -> None:
    container.create_item(item("a"))
    fake.told()
    fake.arrange(on="read", status=429, times=2, retry_after_ms=1)
    container.read_item("a", partition_key="t")
    assert fake.told()["asked"] == {"read": 3}
    fake.arrange(on="read", status=449, after=1)
    container.read_item("a", partition_key="t")
    refused(lambda: container.read_item("a", partition_key="t"), 449)


def test_units_are_counted_by_size(fake: Account, container: Any) -> None:
    fake.told()
    container.create_item(item("a"))
    small = fake.told()["units"]
    container.create_item(item("b", text="x" * 100_000))
    assert fake.told()["units"] > 8 * small
    container.read_item("a", partition_key="t")
    assert fake.told()["units"] < small


def test_items_live_as_long_as_they_were_given() -> None:
    lasting = Container({"partitionKey": {"paths": ["/thread"]}, "defaultTtl": 10})
    key = '["t"]'
    lasting.create(key, item("a"))
    lasting.create(key, item("b", ttl=-1))
    partition = lasting.partition(key)
    now = partition.items["a"]["_ts"]
    assert [each["id"] for each in lasting.alive(partition, now + 9)] == ["a", "b"]
    assert [each["id"] for each in lasting.alive(partition, now + 11)] == ["b"]
    partition.items["a"]["_ts"] -= 11
    with pytest.raises(Refused, match="no item"):
        lasting.read(key, "a")
    lasting.create(key, item("a"))
    without = Container({"partitionKey": {"paths": ["/thread"]}})
    without.create(key, item("a", ttl=1))
    assert list(without.alive(without.partition(key), now + 1_000_000))
