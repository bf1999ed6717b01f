"""Encrypted lines, and passwords: who is not trusted is not spoken to, and no secret is in what is said about it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Call
from tests.services.certificates import certificate
from tests.services.postgres import Postgres
from tests.services.redis import redis_binary, running
from tests.services.tls import tls
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.errors import SaverError, Unavailable

PASSWORD = "hush! it's 100 % @secret:/"
"""With all that means something in a URL."""
USER = "secretive"


@pytest.fixture(scope="module")
def guarded(postgres_server: Postgres) -> Iterator[Postgres]:
    """A server that asks one of its users for a password."""
    ((hba,),) = postgres_server.run("SHOW hba_file")
    rules = Path(str(hba))
    before = rules.read_text(encoding="utf-8")
    quoted = PASSWORD.replace("'", "''")
    postgres_server.run(f"CREATE ROLE {USER} LOGIN SUPERUSER PASSWORD '{quoted}'")
    rules.write_text(f"host all {USER} 127.0.0.1/32 scram-sha-256\n{before}", encoding="utf-8")
    postgres_server.run("SELECT pg_reload_conf()")
    yield postgres_server
    rules.write_text(before, encoding="utf-8")
    postgres_server.run(f"DROP ROLE {USER}")
    postgres_server.run("SELECT pg_reload_conf()")


def stored_and_read(call: Call, saver: Any) -> None:
    at = call(saver, "put", config(), checkpoint({"a": "x" * 100_000}), {}, {"a": 1})
    assert call(saver, "get_tuple", config()).config == at
    call(saver, "close")


def refused(call: Call, saver: Any, caplog: pytest.LogCaptureFixture) -> SaverError:
    """The error of a saver that is not let in; the password is in nothing that was said."""
    with caplog.at_level(logging.DEBUG), pytest.raises(SaverError) as caught:
        call(saver, "get_tuple", config())
    assert caught.value.__cause__ is not None
    said = "".join(traceback.format_exception(caught.value)) + caplog.text + repr(saver)
    assert "hush" not in said
    assert "secret:/" not in said
    call(saver, "close")
    return caught.value


def test_postgres(guarded: Postgres, call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    database = guarded.database()
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(certificate()[1])
    with tls(guarded.port, postgres=True) as front:

        def url(password: str = PASSWORD, authority: Path = front.authority, mode: str = "verify-full") -> str:
            where = f"127.0.0.1:{front.port}/{database}"
            return f"postgresql://{USER}:{quote(password, safe='')}@{where}?sslmode={mode}&sslrootcert={authority}"

        stored_and_read(call, kind.from_conn_string(url()))
        stored_and_read(call, kind.from_conn_string(url(mode="require")))
        error = refused(call, kind.from_conn_string(url(PASSWORD + "hush")), caplog)
        assert not isinstance(error, Unavailable)
        assert "password authentication failed" in str(error)
        assert "certificate verify failed" in str(refused(call, kind.from_conn_string(url(authority=stranger)), caplog))
        refused(call, kind.from_conn_string(url(mode="disable")), caplog)
    guarded.drop(database)


def test_redis(call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kind = RedisSaver if call.colour == "sync" else AsyncRedisSaver
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(certificate()[1])
    with running(redis_binary, "--requirepass", PASSWORD) as server, tls(server.port) as front:

        def url(password: str = PASSWORD, authority: Path = front.authority, scheme: str = "rediss") -> str:
            query = f"?ssl_ca_certs={authority}" if scheme == "rediss" else "?socket_timeout=2"
            return f"{scheme}://:{quote(password, safe='')}@127.0.0.1:{front.port}{query}"

        stored_and_read(call, kind.from_conn_string(url()))
        error = refused(call, kind.from_conn_string(url(PASSWORD + "hush")), caplog)
        assert not isinstance(error, Unavailable)
        assert "password" in str(error)
        assert "certificate verify failed" in str(refused(call, kind.from_conn_string(url(authority=stranger)), caplog))
        refused(call, kind.from_conn_string(url(scheme="redis")), caplog)
