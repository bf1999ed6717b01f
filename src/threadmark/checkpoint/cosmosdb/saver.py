"""``CosmosDBSaverSync``: threads in a container, for blocking programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.cosmosdb.connection import Address, address, address_from
from threadmark.checkpoint.cosmosdb.driver import Blocking, Requests
from threadmark.checkpoint.cosmosdb.port import CosmosPort
from threadmark.checkpoint.saver import Saver
from threadmark.colour import drive

S = TypeVar("S", bound="CosmosDBSaverSync")


class CosmosDBSaverSync(Saver):
    """Keeps threads in a container of Azure Cosmos DB for NoSQL, one logical partition a thread.

    Any number of threads and processes may use one container. Its methods that start with ``a`` work too, in threads of
    their own. Nothing is asked of the account before the first use, which makes database and container if need be.

    Args:
        database_name: The database.
        container_name: The container; one that is there must be partitioned by ``/thread``.
        endpoint: The account's URL; by default ``COSMOSDB_ENDPOINT`` from the environment.
        key: The account's key; by default ``COSMOSDB_KEY``.
        credential: A token credential of ``azure.identity`` in the place of a key. With neither,
            ``DefaultAzureCredential()``.
        cosmos_client_kwargs: More arguments for the SDK's client. By default it waits for request units up to nine
            times, 30 seconds in all, before ``Unavailable``.
        container: A container of the SDK's blocking client, in the place of all of the above. Closing it is yours.
        serde: Turns values into bytes.
        config_keys: Keys of ``config["configurable"]`` to keep as metadata.
        retention: What the saver removes by itself.

    Raises:
        ValueError: No endpoint.
        ForeignDatabase: At the first use: the container is partitioned otherwise, or holds other items than ours.
        SaverError: The same: access is refused, or the container lets items expire.
    """

    def __init__(
        self,
        database_name: str | None = None,
        container_name: str | None = None,
        *,
        endpoint: str | None = None,
        key: str | None = None,
        credential: Any = None,
        cosmos_client_kwargs: Mapping[str, Any] | None = None,
        container: Any = None,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        where = None
        if container is None:
            where = address(
                database_name,
                container_name,
                endpoint=endpoint,
                credential=credential or key,
                options=cosmos_client_kwargs,
            )
        self._start(Blocking(where, container), serde, config_keys, retention)

    @classmethod
    def from_conn_info(
        cls: type[S],
        *,
        endpoint: str,
        key: str | None = None,
        database_name: str,
        container_name: str,
        serde: Any = None,
        cosmos_client_kwargs: Mapping[str, Any] | None = None,
    ) -> S:
        """A saver on this container, usable at once, and a context manager that closes it."""
        return cls(
            database_name,
            container_name,
            endpoint=endpoint,
            key=key,
            serde=serde,
            cosmos_client_kwargs=cosmos_client_kwargs,
        )

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> S:
        """A saver on what a connection string or a URL names.

        ``AccountEndpoint=https://...;AccountKey=...;Database=...;Container=...``, or
        ``cosmosdb://NAME.documents.azure.com/DATABASE/CONTAINER?key=...``. Database and container are ``threadmark``
        and ``checkpoints`` where it does not say; a key that it does not hold is ``COSMOSDB_KEY`` or the default
        identity.
        """
        saver = cls.__new__(cls)
        saver._start(cls._requests(address_from(conn_string)), serde, config_keys, retention)
        return saver

    @classmethod
    def open_read_only(cls: type[S], conn_string: str, *, serde: Any = None) -> S:
        """A saver that only reads what ``from_conn_string`` would open: it makes and changes nothing.

        ``ForeignDatabase`` at the first use when there is no such container.
        """
        saver = cls.__new__(cls)
        saver._start(cls._requests(address_from(conn_string), read_only=True), serde, None, None)
        return saver

    @classmethod
    def _requests(cls, where: Address, *, read_only: bool = False) -> Requests:
        return Blocking(where, read_only=read_only)

    def _start(
        self, items: Requests, serde: Any, config_keys: Sequence[str] | None, retention: Retention | None
    ) -> None:
        self._items = items
        Saver.__init__(self, CosmosPort(items), serde=serde, config_keys=config_keys, retention=retention)

    def setup(self) -> None:
        """Make the database and the container unless they are there; otherwise the first use does it."""
        drive(self._items.container())
