"""A Cosmos DB account for the tests: our fake as a process of its own, or the real one that the environment names.

With ``COSMOS_ENDPOINT`` and ``COSMOS_KEY`` the same tests use that account, but for those that arrange for trouble or
count requests: they have the fake all the same.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.services.certificates import certificate
from tests.services.cosmos_fake import KEY
from tests.services.process import Server, folder, free_port

ROOT = Path(__file__).resolve().parents[2]
_numbers = count()
_UNCHECKED = ssl._create_unverified_context()


@dataclass(frozen=True)
class Account:
    """Where an account is, and the database that a test run has in it."""

    endpoint: str
    key: str
    database: str
    fake: bool
    server: Server | None = None

    @property
    def uri(self) -> str:
        """A connection string, for the programs of the documentation."""
        return self.conn_string()

    def names(self) -> dict[str, str]:
        """Arguments for a saver on a container that is not there yet."""
        return {
            "database_name": self.database,
            "container_name": f"c{next(_numbers)}",
            "endpoint": self.endpoint,
            "key": self.key,
        }

    def conn_string(self, container: str | None = None) -> str:
        """The same as one text."""
        name = container or f"c{next(_numbers)}"
        return f"AccountEndpoint={self.endpoint};AccountKey={self.key};Database={self.database};Container={name}"

    def arrange(self, **trouble: Any) -> None:
        """Make the fake answer the next requests of a kind with an error; see ``Fake.arrange``."""
        self._ask(trouble)

    def told(self) -> dict[str, Any]:
        """What the fake was asked since the last time: ``asked`` by kind, ``units``, and bytes ``stored``."""
        return self._ask(None)

    def _ask(self, trouble: Any) -> dict[str, Any]:
        assert self.fake, "only the fake can be arranged and asked: run this test without COSMOS_ENDPOINT"
        data = None if trouble is None else json.dumps(trouble).encode()
        with urllib.request.urlopen(f"{self.endpoint}_fake", data) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


def _probe(url: str) -> None:
    urllib.request.urlopen(f"{url}_fake", context=_UNCHECKED if url.startswith("https") else None).close()


@contextmanager
def account(ranges: int = 1, *, tls: bool = False, real: bool = True) -> Iterator[Account]:
    """The account of the environment, unless ``real`` is false; else a fake with so many partition key ranges."""
    endpoint = os.environ.get("COSMOS_ENDPOINT")
    if endpoint and real:
        from azure.cosmos import CosmosClient

        name = f"threadmark-{uuid4().hex[:12]}"
        yield Account(endpoint, os.environ["COSMOS_KEY"], name, fake=False)
        with CosmosClient(endpoint, os.environ["COSMOS_KEY"]) as client:
            client.delete_database(name)
        return
    with folder("cosmos") as place:
        url = f"http{'s' if tls else ''}://127.0.0.1:{(port := free_port())}/"
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.services import cosmos_fake as fake; "
        command = [sys.executable, "-c", code + "fake.main(*sys.argv[1:])", str(port), str(ranges)]
        if tls:
            (place / "certificate.pem").write_bytes(b"".join(certificate()))
            command.append(str(place / "certificate.pem"))
        server = Server(command, place, partial(_probe, url))
        try:
            yield Account(url, KEY, "threads", fake=True, server=server)
        finally:
            server.stop()
