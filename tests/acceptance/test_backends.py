"""The table of all stores in the reference is what the command prints, on the servers of the tests."""

from __future__ import annotations

from pathlib import Path

from benchmarks.backends import Servers, table
from tests.services.cosmosdb import Account
from tests.services.mongodb import Mongo
from tests.services.postgres import Postgres
from tests.services.redis import RedisServer

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/savers.md"


def test_the_table_of_stores_is_what_the_command_prints(
    postgres_server: Postgres, redis_server: RedisServer, mongodb: Mongo, fake: Account
) -> None:
    told = (
        PAGE.read_text(encoding="utf-8").partition("<!-- stores: begin -->\n")[2].partition("<!-- stores: end -->")[0]
    )
    assert told == table(Servers(postgres_server, redis_server, mongodb, fake))
