"""What the fake of Cosmos DB keeps, and its rules: sizes, ids, ETags, batches, time to live. No network in it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

ITEM_LIMIT = BATCH_LIMIT = 2 * 1024 * 1024
BATCH_OPERATIONS = 100
ID_LIMIT = 255
KEY_LIMIT = 2048
"""Bytes of a partition key's value, in a container of version 2."""
_BAD_ID = re.compile(r"[/\\?#\t\r\n]")
_POINT_READ, _WRITE, _QUERY = 1.0, 5.0, 2.5
"""Request units of an operation on 1 KB. The published prices are of this kind; an account's own differ."""
_READ_KB, _WRITE_KB = 0.09, 0.45
"""And for each KB more."""


class Refused(Exception):
    """An answer other than success: an HTTP status, Cosmos DB's own sub-status, and what to say."""

    def __init__(self, status: int, message: str, sub_status: int = 0) -> None:
        super().__init__(message)
        self.status, self.sub_status = status, sub_status


@dataclass
class Partition:
    """All items with one partition key."""

    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the items, by id."""


@dataclass
class Container:
    """A container: its properties as they were posted, and its partitions by the JSON of their keys."""

    properties: dict[str, Any]
    partitions: dict[str, Partition] = field(default_factory=dict)
    made: int = 0

    @property
    def paths(self) -> list[str]:
        return [path[1:] for path in self.properties["partitionKey"]["paths"]]

    def partition(self, key: str) -> Partition:
        return self.partitions.setdefault(key, Partition())

    def alive(self, partition: Partition, now: float | None = None) -> Iterator[dict[str, Any]]:
        """Items whose time is not over, in the order in which they were made."""
        lives, now = self.properties.get("defaultTtl"), time.time() if now is None else now
        for item in partition.items.values():
            ttl = item.get("ttl", lives) if lives is not None else -1
            if ttl == -1 or item["_ts"] + ttl > now:
                yield item

    def find(self, partition: Partition, id: str) -> dict[str, Any]:
        item = partition.items.get(id)
        if item is None or not any(self.alive(Partition({id: item}))):
            raise Refused(404, f"no item {id!r} here")
        return item

    def key_of(self, item: dict[str, Any]) -> str:
        return json.dumps([item.get(path) for path in self.paths])

    # -- one operation -----------------------------------------------------------------------------------------------

    def read(self, key: str, id: str) -> tuple[dict[str, Any], float]:
        partition = self.partition(key)
        return self.find(partition, id), _POINT_READ + _READ_KB * _more_kilobytes(partition.sizes[id])

    def create(self, key: str, item: Any, *, upsert: bool = False) -> tuple[dict[str, Any], float]:
        partition = self.partition(key)
        self._check(key, item)
        old = partition.items.get(item["id"])
        if old is not None and not upsert and any(self.alive(Partition({item["id"]: old}))):
            raise Refused(409, f"there is an item {item['id']!r} already")
        return self._stored(partition, item, old["_rid"] if old is not None else None)

    def replace(self, key: str, id: str, item: Any, if_match: str | None) -> tuple[dict[str, Any], float]:
        partition = self.partition(key)
        self._check(key, item)
        old = self.find(partition, id)
        if item["id"] != id:
            raise Refused(400, "an item keeps its id")
        _match(old, if_match)
        stored, price = self._stored(partition, item, old["_rid"])
        return stored, 2 * price

    def delete(self, key: str, id: str, if_match: str | None) -> float:
        partition = self.partition(key)
        old = self.find(partition, id)
        _match(old, if_match)
        del partition.items[id]
        return _WRITE + _WRITE_KB * _more_kilobytes(partition.sizes.pop(id))

    def _check(self, key: str, item: Any) -> None:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str) or not item["id"]:
            raise Refused(400, "an item needs an id that is text")
        if len(item["id"]) > ID_LIMIT or _BAD_ID.search(item["id"]) or item["id"].endswith(" "):
            raise Refused(400, "an id has at most 255 characters, none of them / \\ ? # or a space at its end")
        if self.key_of(item) != key:
            raise Refused(400, "the partition key in the header is not the one in the item", 1001)
        if len(key.encode()) > KEY_LIMIT:
            raise Refused(400, "the partition key is too long")
        if size_of(item) > ITEM_LIMIT:
            raise Refused(413, "an item has at most 2 MB")

    def _stored(
        self, partition: Partition, item: dict[str, Any], rid: str | None = None
    ) -> tuple[dict[str, Any], float]:
        self.made += 1
        rid = rid or f"{self.made:012}"
        system = {"_rid": rid, "_self": f"docs/{rid}/", "_etag": f'"{uuid4()}"', "_attachments": "attachments/"}
        stored = {**item, **system, "_ts": int(time.time())}
        partition.items[item["id"]] = stored
        size = partition.sizes[item["id"]] = size_of(item)
        return stored, _WRITE + _WRITE_KB * _more_kilobytes(size)

    # -- several -----------------------------------------------------------------------------------------------------

    def batch(self, key: str, operations: Any) -> tuple[list[dict[str, Any]], float, bool]:
        """Results, their price, and whether all of it was done or nothing."""
        if not isinstance(operations, list) or not operations:
            raise Refused(400, "a batch is a list of operations")
        if len(operations) > BATCH_OPERATIONS:
            raise Refused(400, f"a batch has at most {BATCH_OPERATIONS} operations")
        partition = self.partition(key)
        before = dict(partition.items), dict(partition.sizes)
        results, price = list[dict[str, Any]](), 0.0
        for number, operation in enumerate(operations):
            try:
                status, item, cost = self._operated(key, operation)
            except Refused as refused:
                partition.items, partition.sizes = before
                failed = {"statusCode": refused.status, "subStatusCode": refused.sub_status, "requestCharge": 1.0}
                others = [{"statusCode": 424, "requestCharge": 0.0} for _ in operations]
                return [*others[:number], failed, *others[number + 1 :]], price + 1.0, False
            price += cost
            result: dict[str, Any] = {"statusCode": status, "requestCharge": cost}
            if item is not None:
                result |= {"eTag": item["_etag"], "resourceBody": item}
            results.append(result)
        return results, price, True

    def _operated(self, key: str, operation: Any) -> tuple[int, dict[str, Any] | None, float]:
        known: dict[str, Callable[[], tuple[int, dict[str, Any] | None, float]]] = {
            "Create": lambda: (201, *self.create(key, operation["resourceBody"])),
            "Upsert": lambda: (200, *self.create(key, operation["resourceBody"], upsert=True)),
            "Read": lambda: (200, *self.read(key, operation["id"])),
            "Replace": lambda: (
                200,
                *self.replace(key, operation["id"], operation["resourceBody"], operation.get("ifMatch")),
            ),
            "Delete": lambda: (204, None, self.delete(key, operation["id"], operation.get("ifMatch"))),
        }
        fields = {"operationType", "id", "resourceBody", "ifMatch"}
        if operation.get("operationType") not in known or not operation.keys() <= fields:
            raise Refused(400, f"an operation that the fake does not know: {sorted(operation)}")
        return known[operation["operationType"]]()

    def drop_partition(self, key: str) -> None:
        self.partitions.pop(key, None)


def _match(item: dict[str, Any], if_match: str | None) -> None:
    if if_match is not None and if_match not in ("*", item["_etag"]):
        raise Refused(412, "the item is not the one that If-Match names")


def size_of(item: Any) -> int:
    """Bytes of an item as JSON, without what the service adds."""
    return len(json.dumps({name: each for name, each in item.items() if name[:1] != "_"}, ensure_ascii=False).encode())


def _more_kilobytes(size: int) -> float:
    """How many KB an item has beyond its first."""
    return max(0.0, size / 1024 - 1)


def query_price(sizes: list[int]) -> float:
    """What a page of results costs."""
    return _QUERY + sum(0.3 + _READ_KB * _more_kilobytes(size) for size in sizes)
