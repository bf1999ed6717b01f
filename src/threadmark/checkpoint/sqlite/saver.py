"""``SqliteSaver``: threads in one SQLite file, for blocking programs and event loops alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.layout import Policy
from threadmark.checkpoint.records import Port
from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.sqlite.port import FilePort, port_for

S = TypeVar("S", bound="SqliteSaver")


def _refuse_path(kind: str, conn: Any) -> None:
    if isinstance(conn, str) or hasattr(conn, "__fspath__"):
        raise TypeError(f"{kind} takes a connection, not a path; use {kind}.from_conn_string({str(conn)!r})")


class SqliteSaver(Saver):
    """Keeps threads in a SQLite file, or in memory.

    Any number of threads, event loops and processes may use one file. ``conn`` is a ``sqlite3`` connection. One that
    only its own thread may use is taken for its path: the saver opens the file itself. In memory there is no path,
    so open it with ``check_same_thread=False``. ``ForeignDatabase`` when the file holds other tables than ours.

    ``serde`` turns values into bytes; ``config_keys`` are keys of ``config["configurable"]`` to keep as metadata;
    ``retention`` says what to remove while graphs run (nothing by default).
    """

    conn: Any
    """A connection to the same database, for your own queries."""
    _policy = Policy(pack_merged=False)
    """Of a conversation of 1,000 turns the head is read in two thirds of the time, and the file is a ninth larger."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        _refuse_path(type(self).__name__, conn)
        port = port_for(conn)
        self._start(port, port.conn if isinstance(port, FilePort) else conn, serde, config_keys, retention)

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        synchronous: str = "FULL",
    ) -> S:
        """A saver on the file with this path, ``file:`` URI or ``sqlite:///`` URL; ``:memory:`` for none.

        It is usable at once, and a context manager of both colours that closes it. ``synchronous`` is SQLite's
        setting: with FULL a commit is on disk when it returns; with NORMAL a power cut may take the last ones.
        """
        return cls._on(FilePort(path_from(conn_string), synchronous=synchronous), serde, config_keys, retention)

    @classmethod
    def open_read_only(cls: type[S], path: str, *, serde: Any = None) -> S:
        """A saver that only reads: it never makes, changes or migrates the file, which must exist and be ours."""
        return cls._on(FilePort(path_from(path), read_only=True), serde)

    @classmethod
    def _on(
        cls: type[S],
        port: FilePort,
        serde: Any,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> S:
        saver = cls.__new__(cls)
        saver._start(port, port.conn, serde, config_keys, retention)
        return saver

    def _start(
        self, port: Port, conn: Any, serde: Any, config_keys: Sequence[str] | None, retention: Retention | None
    ) -> None:
        self.conn = conn
        Saver.__init__(self, port, serde=serde, config_keys=config_keys, retention=retention)

    def setup(self) -> None:
        """Nothing is left to do: the tables are made when the saver is. Kept for programs that call it."""


def path_from(name: str) -> str:
    """The path in a ``sqlite:///`` URL; anything else as it is."""
    for prefix in ("sqlite:///", "sqlite://"):
        if name.startswith(prefix):
            return name[len(prefix) :] or ":memory:"
    return name
