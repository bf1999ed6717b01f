"""``PostgresSaver``: threads in a PostgreSQL database, for blocking programs and event loops alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.postgres.connections import Connections, HandedIn, Opened, Pool
from threadmark.checkpoint.postgres.driver import Blocking, Driver
from threadmark.checkpoint.postgres.port import PostgresPort
from threadmark.checkpoint.saver import Saver
from threadmark.colour import drive

S = TypeVar("S", bound="PostgresSaver")

SCHEMA: Final = "threadmark"
POOL_SIZE: Final = 10
TIMEOUT: Final = 60.0
_SETTINGS: Final = {
    # A host that is gone is noticed: within 10 s when connecting, else after a minute of silence.
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "threadmark",
}
"""What libpq is told unless the connection string says otherwise."""


class PostgresSaver(Saver):
    """Keeps threads in one schema of a PostgreSQL database.

    Any number of threads, event loops and processes may use it. ``conn`` is a ``psycopg.Connection``, or a
    ``psycopg_pool.ConnectionPool``, with autocommit or without; the caller closes it. What is open in a transaction of
    the caller's on it is committed first. ``from_conn_string`` opens connections by itself, and new ones for those that
    break.

    ``serde`` turns values into bytes; ``config_keys`` are keys of ``config["configurable"]`` to keep as metadata;
    ``retention`` says what to remove while graphs run (nothing by default); ``schema`` is where our tables are;
    ``timeout`` how many seconds the server, or a place in the pool, is waited for before ``Unavailable``.
    ``ForeignDatabase`` when the schema holds other tables than ours.
    """

    conn: Any
    """The connection or pool that was handed in; None when the saver opens its own."""

    def __init__(
        self,
        conn: Any,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        schema: str = SCHEMA,
        timeout: float = TIMEOUT,
    ) -> None:
        driver = self._driver(timeout)
        port = self._port_over(driver, self._handed_in(driver, conn), schema)
        self._start(port, conn, serde, config_keys, retention)

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        schema: str = SCHEMA,
        pool_size: int = POOL_SIZE,
        timeout: float = TIMEOUT,
    ) -> S:
        """A saver on the database of this URL (``postgresql://...``) or libpq connection string.

        It is usable at once, and a context manager that closes it. It opens a connection when one is needed and keeps
        up to ``pool_size`` of them. ValueError, which does not repeat it, for a string that libpq does not understand.
        """
        port = cls._opening(conn_string, schema, pool_size, timeout)
        return cls._on(port, serde, config_keys, retention)

    @classmethod
    def open_read_only(
        cls: type[S], conn_string: str, *, serde: Any = None, schema: str = SCHEMA, timeout: float = TIMEOUT
    ) -> S:
        """A saver that only reads: it makes, changes and migrates nothing; a standby server will do."""
        return cls._on(cls._opening(conn_string, schema, POOL_SIZE, timeout, read_only=True), serde, None, None)

    @classmethod
    def _opening(
        cls, conn_string: str, schema: str, pool_size: int, timeout: float, *, read_only: bool = False
    ) -> PostgresPort:
        if pool_size < 1:
            raise ValueError(f"pool_size must be 1 or more, not {pool_size}")
        driver = cls._driver(timeout)
        connections = Opened(driver, settings_from(conn_string), pool_size)
        return cls._port_over(driver, connections, schema, read_only=read_only)

    @classmethod
    def _on(
        cls: type[S], port: PostgresPort, serde: Any, config_keys: Sequence[str] | None, retention: Retention | None
    ) -> S:
        saver = cls.__new__(cls)
        saver._start(port, None, serde, config_keys, retention)
        return saver

    def _start(
        self, port: PostgresPort, conn: Any, serde: Any, config_keys: Sequence[str] | None, retention: Retention | None
    ) -> None:
        self.conn = conn
        Saver.__init__(self, port, serde=serde, config_keys=config_keys, retention=retention)

    def setup(self) -> None:
        """Make the schema and the tables unless they are there; several processes may do it at once.

        The first call of any method does it as well; call this where it is to be done with other rights, or beforehand.
        """
        assert isinstance(self._port, PostgresPort)
        drive(self._port.prepare())

    # -- what the two colours do differently ---------------------------------------------------------------------------

    @classmethod
    def _driver(cls, timeout: float) -> Driver:
        if not timeout > 0:
            raise ValueError(f"timeout must be a number of seconds above 0, not {timeout}")
        return Blocking(timeout)

    @classmethod
    def _port_over(
        cls, driver: Driver, connections: Connections, schema: str, *, read_only: bool = False
    ) -> PostgresPort:
        return PostgresPort(driver, connections, schema, blocking=True, read_only=read_only)

    @classmethod
    def _handed_in(cls, driver: Driver, conn: Any) -> Connections:
        if isinstance(conn, psycopg.Connection):
            return HandedIn(driver, conn)
        if hasattr(conn, "getconn") and not is_async_pool(conn):
            return Pool(driver, conn)
        raise refused(cls.__name__, conn, "a psycopg.Connection or a psycopg_pool.ConnectionPool")


def settings_from(conn_string: str) -> dict[str, Any]:
    """What psycopg connects with. The string may hold a password: an error does not show it."""
    try:
        given = conninfo_to_dict(conn_string)
    except (psycopg.Error, TypeError):
        raise ValueError(
            "this is no connection string that PostgreSQL's libpq understands; write "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or key=value pairs"
        ) from None
    return {**_SETTINGS, **given, "client_encoding": "utf8"}


def is_async_pool(conn: Any) -> bool:
    """Whether a pool is one of ``psycopg_pool``'s for event loops."""
    from inspect import iscoroutinefunction

    return iscoroutinefunction(conn.getconn)


def refused(name: str, conn: Any, wanted: str) -> TypeError:
    """What was handed in is not what this class works with."""
    if isinstance(conn, str):
        return TypeError(f"{name} takes {wanted}, not a connection string; use {name}.from_conn_string(...)")
    kind, other = type(conn).__name__, "PostgresSaver" if name.startswith("Async") else "AsyncPostgresSaver"
    return TypeError(f"{name} takes {wanted}, not {kind}; {other} takes those of the other colour")
