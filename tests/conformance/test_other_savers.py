"""The page about LangGraph's savers says what the suite finds in them, no more and no less."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance-of-other-savers.md"
SAVERS = ("InMemorySaver", "SqliteSaver", "AsyncSqliteSaver")
CAPABILITIES = ("put", "put_writes", "get_tuple", "list", "delete_thread", "delta_channel_history")
MISSING = ("delete_for_runs", "copy_thread", "prune", "prune_rules")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report on each of the savers, by the command and the module that the page shows."""
    folder = tmp_path_factory.mktemp("others")
    module, command = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (folder / "others.py").write_text(module)
    arguments = command.split()
    assert arguments[:3] == ["python", "-m", "threadmark.checkpoint.conformance"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}

    def reports(*more: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, *arguments[1:], "--json", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
            env=environ,
        )
        made: list[dict[str, Any]] = json.loads(done.stdout)
        return made

    # Those that hang are checks of ``put``, which take no time otherwise.
    merged = {one["name"]: one for one in reports("--only", ",".join({*CAPABILITIES, *MISSING} - {"put"}))}
    for one in reports("--only", "put", "--patience", "8"):
        merged[one["name"]]["counts"] |= one["counts"]
        merged[one["name"]]["failures"] += one["failures"]
    return merged


def table(under: str) -> list[list[str]]:
    """The rows of the first table behind a line of the page, without its head."""
    rows = re.search(r"(?:^\|.*\n)+", PAGE.read_text("utf-8").partition(under)[2], re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[0].splitlines()[2:]]


def test_how_many_checks_pass(found: dict[str, Any]) -> None:
    assert tuple(found) == SAVERS
    told = {re.findall("`(.*?)`", row[0])[0]: row[1:] for row in table("Checks passed, of those asked:")}
    for capability in CAPABILITIES:
        counts = [found[name]["counts"][capability]["sync"] for name in SAVERS]
        assert told[capability] == [f"{one['passed']} of {one['of']}" for one in counts]
    assert not any(one["counts"].keys() - set(CAPABILITIES) for one in found.values())
    named = re.findall("`(.*?)`", next(row[0] for row in table("Checks passed") if row[1] == "not there"))
    assert tuple(named) == MISSING


def test_which_checks_fail(found: dict[str, Any]) -> None:
    failing = {
        kind: {
            re.sub(r"^(?!filter)(\w+)\[.*", r"\1", failure["check"], flags=re.DOTALL)
            for name in names
            for failure in found[name]["failures"]
        }
        for kind, names in (("memory", SAVERS[:1]), ("sqlite", SAVERS[1:]))
    }
    told: dict[str, set[str]] = {"memory": set(), "sqlite": set()}
    for checks, memory, sqlite, _ in table("## What fails"):
        names = {name for name in re.findall("`(.*?)`", checks) if name != "put_writes"}
        told["memory"] |= names if memory != "passes" else set()
        told["sqlite"] |= names if sqlite != "passes" else set()
    assert told == failing
    colours = {name: {failure["colour"] for failure in one["failures"]} for name, one in found.items()}
    assert colours == {
        "InMemorySaver": {"sync", "async"},
        "SqliteSaver": {"sync"},
        "AsyncSqliteSaver": {"sync", "async"},
    }
