"""MongoDB's protocol from a wheel: SecantusDB, a server over WiredTiger in a process of its own.

It is no MongoDB. What it cannot show is listed in docs/reference/savers.md; ``MONGODB_URI`` points the same tests at a
real server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from pymongo import MongoClient, monitoring

from tests.services.process import Server, folder, free_port

_names = count()


class Commands(monitoring.CommandListener):
    """The names of the commands that a client sends: each is a round trip."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        """What counts is that it was sent."""

    def failed(self, event: Any) -> None:
        """What counts is that it was sent."""

    def taken(self) -> list[str]:
        names, self.names = self.names, []
        return names


class Mongo:
    """A running server, of ours or of the environment's."""

    def __init__(self, uri: str, server: Server | None) -> None:
        self.uri, self._server = uri, server
        self.client: MongoClient[Any] = MongoClient(uri)

    @property
    def server(self) -> Server:
        """The child process."""
        assert self._server is not None, "a server of the environment's is not killed"
        return self._server

    @contextmanager
    def database(self) -> Iterator[str]:
        """The name of a new and empty database, which is dropped in the end."""
        name = f"t{os.getpid()}_{next(_names)}"
        try:
            yield name
        finally:
            self.client.drop_database(name)

    def close(self) -> None:
        """Let go of it, and end it if it is ours."""
        self.client.close()
        if self._server is not None:
            self._server.stop()


_HASTY = """
import sys
from secantus import cli, server

defaults = server.SecantusDBServer.__init__.__kwdefaults__
assert {"transaction_lifetime_seconds", "ttl_sweep_seconds"} <= defaults.keys()
defaults.update(transaction_lifetime_seconds=1.0, ttl_sweep_seconds=0.2)
sys.exit(cli.main())
"""


@contextmanager
def mongodb(*flags: str, hasty: bool = False) -> Iterator[Mongo]:
    """A server with fresh files: a replica set of one, unless ``--standalone`` is given.

    One that is ``hasty`` gives transactions up after a second, not a minute, and looks as often for what has expired.
    """
    with folder("mongodb") as home:
        port = free_port()
        uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        program = [sys.executable, "-c", _HASTY] if hasty else [str(Path(sys.executable).parent / "secantusd-py")]
        command = [*program, "--port", str(port), "--storage-path", str(home / "data")]
        command += ["--enable-test-commands", *flags]
        mongo = Mongo(uri, Server(command, home, lambda: _probe(uri)))
        try:
            yield mongo
        finally:
            mongo.close()


@contextmanager
def any_mongodb() -> Iterator[Mongo]:
    """The server that ``MONGODB_URI`` names, or else one of ours."""
    uri = os.environ.get("MONGODB_URI")
    if not uri:
        with mongodb() as mongo:
            yield mongo
        return
    mongo = Mongo(uri, None)
    try:
        yield mongo
    finally:
        mongo.close()


def _probe(uri: str) -> None:
    with MongoClient[Any](uri, serverSelectionTimeoutMS=200) as client:
        client.admin.command("ping")
