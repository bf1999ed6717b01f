"""Servers that workloads need: started when the first one asks, stopped with the process."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.services.postgres import Postgres, postgres

_running = ExitStack()
atexit.register(_running.close)


@cache
def postgres_server(folder: Path) -> Postgres:
    """PostgreSQL that waits for the disk at each commit, as it does in production; one for each folder."""
    return _running.enter_context(postgres(safe=True))


def stored(server: Postgres) -> int:
    """Bytes of the tables, their indexes and what they keep aside, of whoever made them."""
    (size,) = server.run(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    )[0]
    return int(str(size))
