"""What an install pulls in, as promised: a small core, one extra for each need, the peer for developers only."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.house.source import ROOT

CORE = {"ormsgpack", "typing-extensions", "xxhash", "zstandard"}
EXTRAS = {"cli", "cosmosdb", "encryption", "mongodb", "postgres", "redis", "test"}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", one)[0].lower().replace("_", "-") for one in requirements}


def locked() -> set[str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return names([line for line in lines if not line.startswith("#")])


def test_the_core_needs_four_wheels() -> None:
    assert names(project()["project"]["dependencies"]) == CORE


def test_every_need_has_its_extra() -> None:
    assert project()["project"]["optional-dependencies"].keys() >= EXTRAS


def test_the_peer_is_for_developers_only() -> None:
    shipped = project()["project"]["optional-dependencies"]
    assert [extra for extra, needs in shipped.items() if any("langgraph" in need for need in names(needs))] == ["test"]


def test_everything_that_can_be_asked_for_is_locked() -> None:
    described = project()
    groups = [
        described["project"]["dependencies"],
        *described["project"]["optional-dependencies"].values(),
        *described["dependency-groups"].values(),
    ]
    asked = {name for group in groups for name in names(group)} - {"threadmark"}
    assert sorted(asked - locked()) == []


def test_the_lock_names_versions_and_no_places() -> None:
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+( ; .+)?", line), line
