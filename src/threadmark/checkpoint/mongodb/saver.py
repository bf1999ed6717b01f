"""``MongoDBSaver``: threads in a collection of MongoDB, for blocking programs and event loops alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from pymongo import MongoClient, WriteConcern
from pymongo.errors import ConfigurationError, InvalidURI
from pymongo.read_concern import ReadConcern

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.mongodb.driver import Blocking, Settings
from threadmark.checkpoint.mongodb.port import CollectionPort
from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.saver import Saver
from threadmark.colour import drive

S = TypeVar("S", bound="MongoSaver")

DATABASE, COLLECTION = "threadmark", "checkpoints"


class MongoSaver(Saver):
    """What the savers of both colours share: the constructor, and opening one by a URI."""

    _port: CollectionPort

    def __init__(
        self,
        client: Any,
        db_name: str = DATABASE,
        collection_name: str = COLLECTION,
        *,
        ttl: float | None = None,
        transactions: bool | None = None,
        write_concern: Any = None,
        read_concern: Any = None,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        if isinstance(client, str):
            kind = type(self).__name__
            raise TypeError(f"{kind} takes a client, not a URI; use {kind}.from_conn_string(uri)")
        settings = settings_of(
            f"MongoDB's database {db_name!r}", db_name, collection_name, ttl, transactions, write_concern, read_concern
        )
        self._start(self._driver(client, settings), settings, serde, config_keys, retention)

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        db_name: str | None = None,
        collection_name: str = COLLECTION,
        *,
        ttl: float | None = None,
        transactions: bool | None = None,
        write_concern: Any = None,
        read_concern: Any = None,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        **client_options: Any,
    ) -> S:
        """A saver on the server that this URI names, ``mongodb://`` or ``mongodb+srv://``.

        It is usable at once, and a context manager of its colour that closes it. Without ``db_name`` the URI's own
        database is taken, else ``threadmark``. ``client_options`` are handed to the client as they are. ValueError for
        a URI that the driver does not take.
        """
        return cls._opened(
            conn_string,
            db_name,
            collection_name,
            (ttl, transactions, write_concern, read_concern),
            (serde, config_keys, retention),
            client_options,
        )

    @classmethod
    def open_read_only(cls: type[S], conn_string: str, *, serde: Any = None) -> S:
        """A saver that only reads: it makes and changes nothing."""
        return cls._opened(conn_string, None, COLLECTION, (None, None, None, None), (serde, None, None), {}, True)

    @classmethod
    def _opened(
        cls: type[S],
        uri: str,
        db_name: str | None,
        collection_name: str,
        storing: tuple[Any, ...],
        kept: tuple[Any, ...],
        options: dict[str, Any],
        read_only: bool = False,
    ) -> S:
        place = without_secrets(uri)
        database = db_name or _database_in(uri) or DATABASE
        settings = settings_of(place, database, collection_name, *storing)
        saver = cls.__new__(cls)
        try:
            driver = cls._driver(cls._opens(uri, options), settings)
        except (InvalidURI, ConfigurationError, ValueError) as error:
            # The driver's words may hold a part of the URI.
            raise ValueError(f"{place} is no URI that MongoDB's driver takes ({type(error).__name__})") from None
        saver._start(driver, settings, *kept, read_only=read_only)
        return saver

    @classmethod
    def _driver(cls, client: Any, settings: Settings) -> Any:
        """What runs commands on a client, or on those that ``client`` opens when it is called."""
        raise NotImplementedError

    @classmethod
    def _opens(cls, uri: str, options: dict[str, Any]) -> Callable[[], Any]:
        """What opens clients."""
        raise NotImplementedError

    def _start(
        self,
        driver: Any,
        settings: Settings,
        serde: Any,
        config_keys: Sequence[str] | None,
        retention: Retention | None,
        *,
        read_only: bool = False,
    ) -> None:
        port = CollectionPort(driver, settings, read_only=read_only)
        Saver.__init__(self, port, serde=serde, config_keys=config_keys, retention=retention)

    @property
    def client(self) -> Any:
        """The client in use, for your own queries."""
        return self._port.driver.client

    @property
    def collection(self) -> Any:
        """The collection in use, for your own queries."""
        return self._port.driver.collection


class MongoDBSaver(MongoSaver):
    """Keeps threads in one collection of MongoDB.

    Any number of threads, event loops and processes may use it. ``client`` is a ``pymongo.MongoClient``, which stays
    open when the saver is closed. The collection ``collection_name`` of the database ``db_name`` is made ready at the
    first change; ``ForeignDatabase`` when it holds what we did not make.

    Args:
        client: The client to use.
        db_name: The database.
        collection_name: The collection.
        ttl: Seconds after its last change when the server removes a thread; None keeps it. The server looks about once
            a minute.
        transactions: Whether changes are made in transactions; by default where the server has them. Without them, and
            when a change is large, one document that is written last makes a change visible.
        write_concern: A ``WriteConcern``, or ``w`` alone. By default that of the client, and where it has none of its
            own ``majority`` and in the journal.
        read_concern: A ``ReadConcern``, or its level. By default that of the client. All is read from the primary.
        serde: What turns values into bytes.
        config_keys: Keys of ``config["configurable"]`` to keep as metadata.
        retention: What to remove while graphs run (nothing by default).
    """

    @classmethod
    def _driver(cls, client: Any, settings: Settings) -> Blocking:
        return Blocking(client, settings)

    @classmethod
    def _opens(cls, uri: str, options: dict[str, Any]) -> Callable[[], MongoClient[Any]]:
        return lambda: MongoClient(uri, **{"connect": False, **options})

    def setup(self) -> None:
        """Make the indexes unless they are there; need not be called. Several processes may do so at once."""
        drive(self._port.prepare())


def settings_of(
    place: str,
    database: str,
    collection: str,
    ttl: float | None,
    transactions: bool | None,
    write_concern: Any,
    read_concern: Any,
) -> Settings:
    """What a saver was told, checked."""
    if ttl is not None and not ttl > 0:
        raise ValueError(f"ttl must be a number of seconds above 0, not {ttl!r}; leave it out to keep threads")
    if write_concern is not None and not isinstance(write_concern, WriteConcern):
        write_concern = WriteConcern(write_concern, j=True if write_concern != 0 else None)
    if write_concern is not None and not write_concern.acknowledged:
        raise ValueError("a saver must know that something is stored: a write concern with w=0 does not say so")
    if read_concern is not None and not isinstance(read_concern, ReadConcern):
        read_concern = ReadConcern(read_concern)
    return Settings(
        place=place,
        database=database,
        collection=collection,
        write_concern=write_concern,
        read_concern=read_concern,
        transactions=transactions,
        ttl=ttl,
    )


def _database_in(uri: str) -> str:
    """The database that a URI names; empty if it names none."""
    return unquote(without_secrets(uri).partition("://")[2].partition("/")[2])
