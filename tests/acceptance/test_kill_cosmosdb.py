"""A process is killed before and after every batch that it sends to Cosmos DB; another one goes on to the same end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import cosmosdb_victim
from tests.acceptance.test_kill import LOG, Processes, check
from tests.services.cosmosdb import Account


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    server = Processes(cosmosdb_victim.__name__)
    yield server
    server.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("colour", "durability", "moments"),
    [("sync", "sync", ("before", "after")), ("async", "async", ("before",)), ("sync", "exit", ("after",))],
    ids=["sync", "async", "exit"],
)
def test_killed_at_any_batch(
    cosmos: Account, processes: Processes, tmp_path: Path, colour: str, durability: str, moments: Any
) -> None:
    folder = tmp_path / "unkilled"
    folder.mkdir()
    assert processes.run("recover", str(folder), cosmos.conn_string(), durability) == 0
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (report["log"], report["next"]) == (LOG, [])
    history, at, deaths = report["history"], 0, 1
    while deaths:
        at, deaths = at + 1, 0
        for when in moments:
            folder, text = tmp_path / f"{at} {when}", cosmos.conn_string()
            folder.mkdir()
            code = processes.run("die", str(folder), text, colour, durability, at, when)
            if code == 0:
                assert (folder / "log").read_text(encoding="utf-8").endswith("survived\n")
                continue
            assert code == -signal.SIGKILL
            deaths += 1
            assert processes.run("recover", str(folder), text, durability) == 0
            check(folder, history)
    assert at > 2
