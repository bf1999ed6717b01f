"""The picture in ARCHITECTURE.md shows the house that stands."""

from __future__ import annotations

import re

import pytest

from tests.house.source import ROOT, SRC

FOLDERS = (".", "checkpoint", "engine")


def tree() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = re.search(r"```text\n(src/threadmark/.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_part_is_in_the_picture(folder: str) -> None:
    inside = [path for path in (SRC / "threadmark" / folder).iterdir() if not path.name.startswith("_")]
    parts = [path.name for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert [name for name in sorted(parts) if not re.search(rf"(?<![\w.]){re.escape(name)}\b", tree())] == []


def test_nothing_in_the_picture_is_missing() -> None:
    there = {path.name for path in ROOT.rglob("*") if ".venv" not in path.parts}
    shown = re.findall(r"(?<![\w.])(\w+(?:\.py|(?=/)))", tree())
    assert [name for name in shown if name not in there] == []
