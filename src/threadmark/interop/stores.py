"""Opening what the doctor reads and the migration copies: LangGraph's stores and ours, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from threadmark.checkpoint.open import open_saver, saver_class
from threadmark.interop.own_store import OwnSource, OwnTarget
from threadmark.interop.peer_postgres import PeerPostgres, holds_peers_tables
from threadmark.interop.peer_sqlite import PeerSqlite, is_peers_file
from threadmark.interop.peer_values import PeerValues

__all__ = ["PEERS", "is_peers", "open_source", "open_target", "path_of"]

PEERS: Final = "langgraph+"
"""In front of a URL: the store is LangGraph's, as in ``langgraph+sqlite:///threads.db``."""
_POSTGRES: Final = ("postgres://", "postgresql://")
_SQLITE: Final = ("sqlite:///", "sqlite://", "file:")


def is_peers(name: str) -> bool:
    """Whether a store is LangGraph's: it says so, or its tables do."""
    if name.startswith(PEERS):
        return True
    return holds_peers_tables(name) if name.startswith(_POSTGRES) else is_peers_file(path_of(name))


def path_of(name: str) -> str:
    """The path of a SQLite database by path or URL."""
    for prefix in _SQLITE:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def open_source(name: str, serde: Any) -> Any:
    """A store to read from; nothing in it is changed. ``serde`` makes its values, and opens encrypted ones.

    FileNotFoundError for a file that is not there; ValueError for a scheme that nothing opens.
    """
    peers, bare = is_peers(name), name.removeprefix(PEERS)
    if bare.startswith(_POSTGRES) and peers:
        return PeerPostgres(bare, PeerValues(serde))
    if "://" not in bare or bare.startswith(_SQLITE):
        if not Path(path_of(bare)).is_file():
            raise FileNotFoundError(f"{path_of(bare)} is no file; name a SQLite file or the URL of a store")
        if peers:
            return PeerSqlite(path_of(bare), PeerValues(serde))
    read_only = hasattr(saver_class(bare), "open_read_only")
    return OwnSource(bare, open_saver(bare, serde=serde, read_only=read_only))


def open_target(name: str, serde: Any) -> Any:
    """A store to write to, made if it is not there."""
    if is_peers(name):
        from threadmark.interop.peer_target import peer_target

        return peer_target(name.removeprefix(PEERS), serde)
    return OwnTarget(name, open_saver(name, serde=serde))
