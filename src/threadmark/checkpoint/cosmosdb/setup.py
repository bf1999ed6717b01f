"""Making the database and the container, and looking at one that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from azure.core.exceptions import AzureError
from azure.cosmos import PartitionKey

from threadmark.checkpoint.cosmosdb.errors import is_not_there, is_there_already
from threadmark.checkpoint.cosmosdb.items import PATH
from threadmark.errors import ForeignDatabase, SaverError

PARTITION: Final = PartitionKey(path=f"/{PATH}")
INDEXES: Final[Mapping[str, Any]] = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": f"/{path}/?"} for path in ("keys/[]", "kind", "first", "last")],
    "excludedPaths": [{"path": "/*"}],
}
"""What is searched for, and nothing else: every further index costs units with each write."""
_LEVELS: Final = ("Strong", "BoundedStaleness", "Session")


class Account(Protocol):
    """What can be done before there is a container."""

    async def properties(self) -> Mapping[str, Any]:
        """The container's, as they are now."""
        ...

    async def account(self) -> Any:
        """What the SDK tells of the account; None if only the container was handed in."""
        ...

    async def make_database(self) -> None: ...

    async def make_container(self) -> None: ...


async def prepare(account: Account, place: str, *, make: bool = True) -> None:
    """Make the container, and its database, unless they are there; several processes may do that at once.

    ``ForeignDatabase`` instead where ``make`` is false.
    """
    try:
        found = await account.properties()
    except AzureError as error:
        if not is_not_there(error):
            raise
        if not make:
            raise ForeignDatabase(f"no thread was ever saved in {place}") from error
        for step in (account.make_database, account.make_container):
            try:
                await step()
            except AzureError as failed:
                if not is_there_already(failed):
                    raise
        found = await account.properties()
    check(found, place)
    told = await account.account()
    if told is not None:
        check_account(told, place)


def check(properties: Mapping[str, Any], place: str) -> None:
    """Refuse a container in which threads cannot be kept."""
    paths = properties["partitionKey"]["paths"]
    if list(paths) != [f"/{PATH}"]:
        raise ForeignDatabase(
            f"{place} is partitioned by {', '.join(paths)}, not by /{PATH}; nothing was written to it. Name another "
            f"container, or one that is not there yet"
        )
    if properties.get("defaultTtl", -1) != -1:
        raise SaverError(
            f"{place} removes items after {properties['defaultTtl']} s, and with them parts of threads that go on; "
            f"switch its time to live off, and let prune or a retention policy remove what is old"
        )


def check_account(account: Any, place: str) -> None:
    """Refuse an account in which two writers may both be told that they were the first."""
    regions = [each["name"] for each in account.WritableLocations]
    level = (account.ConsistencyPolicy or {}).get("defaultConsistencyLevel", _LEVELS[-1])
    if len(regions) > 1:
        raise SaverError(
            f"{place} is written in {len(regions)} regions ({', '.join(regions)}), which may both accept a step of one "
            f"thread; let one region write"
        )
    if level not in _LEVELS:
        raise SaverError(
            f"{place} promises {level} consistency, by which a thread may be seen without its last rows; set the "
            f"account to Session or stronger"
        )


def place_of(container: Any) -> str:
    """What messages call a container that was handed in."""
    return f"container {container.id!r}"
