"""``AsyncSqliteSaver``: the same saver under the name that programs on an event loop know."""

from __future__ import annotations

from threadmark.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["AsyncSqliteSaver"]


class AsyncSqliteSaver(SqliteSaver):
    """``SqliteSaver`` with an awaitable ``setup``."""

    async def setup(self) -> None:  # type: ignore[override]
        """Nothing to do: the tables are there."""
