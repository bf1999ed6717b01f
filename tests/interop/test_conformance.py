"""LangGraph's own conformance package passes in full on every saver of ours behind the adapter."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.savers import AWAITED, OURS, fresh
from threadmark.interop.conformance import main, report_on

EVERYTHING = {
    "put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("name", [*OURS, *AWAITED])
def test_every_capability_is_detected_and_passes(name: str, tmp_path: Path) -> None:
    report = asyncio.run(report_on(name, lambda: fresh(name, tmp_path)))
    assert {capability for capability, found in report.results.items() if found.detected} == EVERYTHING
    assert [failure for found in report.results.values() for failure in found.failures] == []
    assert report.conformance_level() == "FULL"
    assert sum(found.tests_passed for found in report.results.values()) > 70


def test_the_command_prints_the_reports() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threadmark.interop.conformance"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("FULL (8/8)")) == (0, 2), done.stderr


def test_a_store_that_nothing_opens_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere://user:secret@host/db"]) == 2
    told = capsys.readouterr()
    assert "nowhere://" in told.err
    assert "secret" not in told.err + told.out
