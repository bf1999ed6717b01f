"""``AsyncSqliteStore``: the same store under the name that programs on an event loop know."""

from __future__ import annotations

from threadmark.store.sqlite import SqliteStore

__all__ = ["AsyncSqliteStore"]


class AsyncSqliteStore(SqliteStore):
    """``SqliteStore`` with an awaitable ``setup``; it serves both colours."""

    async def setup(self) -> None:  # type: ignore[override]
        """Nothing is left to do: the tables are made when the store is."""
