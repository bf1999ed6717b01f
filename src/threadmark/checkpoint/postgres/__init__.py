"""Threads in a PostgreSQL database."""

from __future__ import annotations

try:
    import psycopg as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"the savers for PostgreSQL need psycopg 3 ({error}); install it: pip install 'threadmark[postgres]'"
    ) from error

from threadmark.checkpoint.postgres.saver import PostgresSaver

__all__ = ["PostgresSaver"]
