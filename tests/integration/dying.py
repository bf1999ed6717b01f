"""A process that forks a writer for each line it reads, which dies by SIGKILL at a chosen batch of Cosmos DB.

``python -m tests.integration.dying`` reads lines of JSON: connection string, number of the batch, command, arguments.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.services.cosmosdb import ROOT
from tests.services.forks import serve
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync


def large_step(saver: Any, at: Any, count: int = 90, size: int = 40_000) -> Any:
    """Store a step whose tasks wrote more than three megabytes that share nothing and do not compress."""
    tasks = [(f"task {n:04}", f"~{n:04}", [("out", os.urandom(size))]) for n in range(count)]
    return saver.put_step(at, checkpoint({"n": count}), {"step": 1}, {"n": 1}, tasks)


def begin(saver: Any) -> None:
    """Begin a thread with a value that is too long for a batch."""
    saver.put(config(), checkpoint({"v": os.urandom(5_000_000)}), {}, {"v": 1})


def prune(saver: Any) -> None:
    """Keep the newest."""
    saver.prune(["t"])


def delete(saver: Any) -> None:
    """Keep nothing."""
    saver.delete_thread("t")


COMMANDS = {each.__name__: each for each in (large_step, begin, prune, delete)}


def run(text: str, at: int, command: str, *args: Any) -> None:
    """Run a command whose ``at``-th batch is its last: it is never sent."""
    saver = CosmosDBSaverSync.from_conn_string(text)
    batch, sent = saver._items.batch, 0

    async def counted(partition: str, operations: Sequence[Any]) -> Any:
        nonlocal sent
        if sent == at:
            os.kill(os.getpid(), signal.SIGKILL)
        sent += 1
        return await batch(partition, operations)

    saver._items.batch = counted  # type: ignore[method-assign]
    COMMANDS[command](saver, *args)


class Processes:
    """Runs commands, each in a process of its own."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def killed(self, text: str, at: int, command: str, *args: Any) -> bool:
        """Whether a command died; otherwise it has done all it had to."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([text, at, command, *args]) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


if __name__ == "__main__":
    serve(run)
