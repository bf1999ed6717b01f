"""PgBouncer of Debian's, which shares few server connections among many clients."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.services.postgres import Postgres
from tests.services.process import NotStarted, Server, folder, free_port


@contextmanager
def pgbouncer(server: Postgres, *, connections: int = 2) -> Iterator[int]:
    """The port of a pooler in transaction mode with so many connections to each database of a server."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise NotStarted("pgbouncer is not installed; apt-get install pgbouncer")
    with folder("pgbouncer") as home:
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        port = free_port()
        (home / "users").write_text('"postgres" ""\n', encoding="utf-8")
        (home / "ini").write_text(
            f"""[databases]
* = host=127.0.0.1 port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
""",
            encoding="utf-8",
        )
        if user is not None:
            os.chown(home, user, -1)
        url = server.url(port=port)
        server_process = Server(
            [program, str(home / "ini")], home, lambda: psycopg.connect(url, connect_timeout=5).close(), user=user
        )
        try:
            yield port
        finally:
            server_process.stop(signal.SIGINT)
