"""LangGraph's own conformance package passes in full on every saver of ours behind the adapter, in both colours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import ROOT
from tests.interop import all_savers
from tests.interop.savers import AWAITED, OURS, fresh
from threadmark.interop.conformance import COLOURS, examined, main, report_on

EVERYTHING = {
    "put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune",
}  # fmt: skip
pytestmark = [pytest.mark.filterwarnings("ignore::Warning"), pytest.mark.timeout(300)]


def assert_full(report: Any) -> None:
    assert {capability for capability, found in report.results.items() if found.detected} == EVERYTHING
    assert [failure for found in report.results.values() for failure in found.failures] == []
    assert report.conformance_level() == "FULL"
    assert sum(found.tests_passed for found in report.results.values()) > 70


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("name", ["memory", "sqlite", "postgres", "redis", "mongodb", "cosmosdb"])
def test_every_saver_passes_in_full(name: str, colour: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if name == "postgres":
        assert_full(examined(request.getfixturevalue("pg_database").url, colour))
    elif name == "redis":
        server = request.getfixturevalue("redis_server")
        server.flush()
        assert_full(examined(server.url, colour))
    elif name == "mongodb":
        mongo = request.getfixturevalue("mongodb")
        with mongo.database() as database:
            assert_full(examined(mongo.uri.replace("/?", f"/{database}?"), colour))
    elif name == "cosmosdb":
        assert_full(examined(all_savers.url_of(request.getfixturevalue("cosmos")), colour))
    else:
        assert_full(examined({"memory": "memory", "sqlite": str(tmp_path / "threads.db")}[name], colour))


@pytest.mark.parametrize("name", [name for name in (*OURS, *AWAITED) if name not in ("memory", "sqlite")])
def test_every_way_to_set_a_saver_up_passes_in_full(name: str, tmp_path: Path) -> None:
    assert_full(asyncio.run(report_on(name, lambda: fresh(name, tmp_path))))


def test_the_command_prints_the_reports() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threadmark.interop.conformance"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("FULL (8/8)")) == (0, 4), done.stderr
    assert {line.split()[-1] for line in done.stdout.splitlines() if "Validation" in line} == {
        "(blocking)",
        "(awaited)",
    }


def test_a_command_prints_those_of_savers_on_servers() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.interop.all_savers", "memory", "redis"],
                          cwd=ROOT, capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout.count("FULL (8/8)")) == (0, 4), done.stderr
    assert set(all_savers.STORES) == {"memory", "sqlite", "postgres", "redis", "mongodb", "cosmosdb"}


def test_a_store_that_nothing_opens_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere://user:secret@host/db"]) == 2
    told = capsys.readouterr()
    assert "nowhere://" in told.err
    assert "secret" not in told.err + told.out
