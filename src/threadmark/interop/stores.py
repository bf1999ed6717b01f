"""Opening what the doctor reads and the migration copies: which store a name means, LangGraph's or ours."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.open import open_saver, saver_class
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.own_store import OwnFile, OwnSource, OwnTarget
from threadmark.interop.peer_mongodb import PeerMongoDB, holds_collections
from threadmark.interop.peer_postgres import PeerPostgres, holders, place
from threadmark.interop.peer_redis import PeerRedis, holds_documents
from threadmark.interop.peer_sqlite import PeerSqlite, check_peers_file, is_peers_file
from threadmark.interop.peer_values import PeerValues

__all__ = ["OWN", "PEERS", "Named", "check_pair", "has_tables", "named", "open_source", "open_target"]

PEERS: Final = "langgraph+"
"""In front of a path or URL: the store is LangGraph's, as in ``langgraph+sqlite:///threads.db``."""
OWN: Final = "threadmark+"
"""In front of a path or URL: the store is ours, as in ``threadmark+postgresql://...``."""
_ENGINES: Final = {
    **dict.fromkeys(("postgres", "postgresql"), "postgres"),
    **dict.fromkeys(("redis", "rediss", "redis+cluster", "rediss+cluster", "unix"), "redis"),
    **dict.fromkeys(("mongodb", "mongodb+srv"), "mongodb"),
}
_SQLITE: Final = ("sqlite:///", "sqlite://")
_HOLDS_SECRETS: Final = re.compile(r"password\s*=|[\w+.-]{2,}:.*@", re.IGNORECASE)
"""A connection string, or a URL with a slash too few: no path, and not to be repeated."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a name says: whose store it is, None when it does not say; and its path or its URL."""

    whose: Literal["langgraph", "threadmark"] | None
    bare: str
    """The name without the prefix."""
    path: str | None
    """The path of a SQLite file; None for a server."""

    @property
    def engine(self) -> str | None:
        """The server that it is on, if LangGraph has a saver for it whose stores are read here."""
        return _ENGINES.get(self.bare.partition("://")[0])

    @property
    def is_postgres(self) -> bool:
        """Whether it is a database in Postgres."""
        return self.engine == "postgres"


def named(name: str) -> Named:
    """A name taken apart. SaverError, which repeats no password, for one that means no store."""
    whose: Literal["langgraph", "threadmark"] | None = None
    bare = name
    if name.startswith(PEERS):
        whose, bare = "langgraph", name.removeprefix(PEERS)
    elif name.startswith(OWN):
        whose, bare = "threadmark", name.removeprefix(OWN)
    path = _path(bare)
    if path is not None and _HOLDS_SECRETS.search(path) and not Path(path).exists():
        raise SaverError("a database is named by a path or by a URL such as postgresql://USER@HOST/DATABASE")
    if path == "":
        raise SaverError(f"{name!r} names no store; write a path or a URL behind it")
    found = Named(whose, bare, path)
    if whose == "langgraph" and (path == ":memory:" or (path is None and found.engine is None)):
        raise SaverError(
            f"{without_secrets(name)}: LangGraph's stores are read in SQLite files, Postgres, Redis and MongoDB; write "
            f"{PEERS}sqlite:///PATH, or {PEERS} in front of postgresql://, redis:// or mongodb://"
        )
    if found.is_postgres and urlsplit(bare).netloc.count("@") > 1:  # what follows the first would be taken as a host
        raise SaverError(f"{without_secrets(bare)}: write %40 for the @ in the user or the password of the URL")
    return found


def _path(bare: str) -> str | None:
    for prefix in _SQLITE:
        if bare.startswith(prefix):
            return bare.removeprefix(prefix)
    if bare.startswith("file:"):
        return unquote(bare.removeprefix("file:").partition("?")[0])
    return None if "://" in bare else bare


def _told_apart(store: Named) -> Named:
    """A source, which says whose it is or holds the tables of one of the two."""
    if store.whose is not None:
        return store
    theirs, ours = _holders(store)
    if theirs and ours:
        raise SaverError(
            f"{without_secrets(store.bare)} holds both a store of LangGraph's and one of Threadmark's; write {PEERS} "
            f"in front of the URL for LangGraph's ({PEERS}{_scheme(store)}...) or {OWN} for Threadmark's "
            f"({OWN}{_scheme(store)}...)"
        )
    return replace(store, whose="langgraph" if theirs else "threadmark")


def _scheme(store: Named) -> str:
    return store.bare.partition("://")[0] + "://"


_LOOKS: Final = {"redis": holds_documents, "mongodb": holds_collections}


def _holders(store: Named) -> tuple[bool, bool]:
    """Whether LangGraph's threads are there, and whether ours are."""
    if store.path is not None:
        theirs = is_peers_file(store.path)
        return theirs, not theirs
    if store.is_postgres:
        return holders(store.bare)
    looks = _LOOKS.get(store.engine or "")
    if looks is None or not looks(store.bare):
        return False, True
    if store.engine == "mongodb":  # the two would need one name for their collections
        return True, False
    with open_saver(store.bare, serde=JsonPlusSerializer(), read_only=True) as saver:
        return True, bool(saver.thread_ids())


def check_pair(source: str, target: str) -> None:
    """SaverError when a source and a target are the same store, or one name for two in the same database."""
    first, other = named(source), named(target)
    if not (first.is_postgres and other.is_postgres) and _where(first) != _where(other):
        return
    one = _told_apart(first)
    other_whose = other.whose or "threadmark"
    if one.is_postgres and other.is_postgres:
        (*database, schema), (*other_database, other_schema) = place(one.bare), place(other.bare)
        if database != other_database or (one.whose == other_whose == "langgraph" and schema != other_schema):
            return
        if one.whose != other_whose and (first.whose or other.whose):
            return
        if one.whose != other_whose:
            raise SaverError(
                f"source and target are both {without_secrets(target)}; say which is which: {PEERS}postgresql://... "
                f"for LangGraph's tables, {OWN}postgresql://... for Threadmark's"
            )
    elif one.engine == "redis" and one.whose != other_whose:
        return  # the keys of the two have other beginnings
    raise SaverError(f"source and target are the same store, {without_secrets(target)}; name another target")


def _where(store: Named) -> tuple[Any, ...]:
    """What is equal for two names of the same file, or of the same server by the same host."""
    if store.path is None:
        url = urlsplit(store.bare)
        return url.scheme, url.netloc.rpartition("@")[2].lower(), url.path.rstrip("/"), url.query
    try:
        found = os.stat(store.path)
    except OSError:
        return (os.path.realpath(store.path),)
    return found.st_dev, found.st_ino


_READERS: Final = {"postgres": PeerPostgres, "redis": PeerRedis, "mongodb": PeerMongoDB}


def open_source(name: str, serde: Any) -> Any:
    """A store to read from; nothing in it is changed. ``serde`` makes its values, and opens encrypted ones.

    Without a prefix it is LangGraph's or ours by what it holds; SaverError for a database that holds both.
    FileNotFoundError for a file that is not there, ForeignDatabase for one that is not whose the name says;
    ValueError for a scheme that nothing opens.
    """
    store = named(name)
    if store.path is not None and not Path(store.path).is_file():
        raise FileNotFoundError(f"{store.path} is no file; name a SQLite file or the URL of a store")
    store = _told_apart(store)
    if store.whose == "langgraph":
        if store.path is None:
            kind: Any = _READERS[store.engine or ""]
            return kind(store.bare, PeerValues(serde))
        check_peers_file(store.path)
        return PeerSqlite(store.path, PeerValues(serde))
    _refuse_peers_file(store, "name it without threadmark+ in front")
    if store.path is not None and saver_class(store.bare) is SqliteSaver:
        return OwnFile(store.path, serde)
    read_only = hasattr(saver_class(store.bare), "open_read_only")
    return OwnSource(store.bare, open_saver(store.bare, serde=serde, read_only=read_only))


def open_target(name: str, serde: Any) -> Any:
    """A store to write to, made if it is not there: ours unless the name begins with ``langgraph+``.

    ForeignDatabase, before anything is written, for a file of LangGraph's that is to be ours or the other way round.
    """
    store = named(name)
    if store.whose == "langgraph":
        from threadmark.interop.peer_target import peer_target

        if store.path is None and not store.is_postgres:
            raise SaverError(
                f"{without_secrets(name)}: LangGraph's stores in Redis and MongoDB are only read; write "
                f"{PEERS}sqlite:///PATH or {PEERS}postgresql://... to take threads to LangGraph"
            )
        if store.path is None:
            return peer_target(serde, url=store.bare)
        return peer_target(serde, path=store.path)
    _refuse_peers_file(store, f"name another file, or {PEERS}sqlite:///PATH to write LangGraph's tables")
    if store.engine == "mongodb" and holds_collections(store.bare):
        raise ForeignDatabase(
            f"{without_secrets(name)} holds LangGraph's collections; nothing was written there: name another database"
        )
    return OwnTarget(store.bare, open_saver(store.bare, serde=serde))


def has_tables(name: str) -> bool:
    """Whether the store of a target is there already; False when opening it would make a file or tables.

    ForeignDatabase as from ``open_target``. A server that is not Postgres counts as there.
    """
    store = named(name)
    theirs = store.whose == "langgraph"
    if store.is_postgres:
        return holders(store.bare)[0 if theirs else 1]
    if store.path is None:
        return True
    if not Path(store.path).is_file():
        return Path(store.path).exists()
    if theirs:
        check_peers_file(store.path, empty=True)
        return is_peers_file(store.path)
    return Path(store.path).stat().st_size > 0


def _refuse_peers_file(store: Named, advice: str) -> None:
    if store.path is not None and is_peers_file(store.path):
        raise ForeignDatabase(f"{store.path} is a file of LangGraph's; nothing was written to it: {advice}")
