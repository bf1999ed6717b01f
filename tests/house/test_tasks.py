"""One door for tasks: ``just NAME`` and ``scripts/NAME`` are the same thing, and both are told to newcomers."""

from __future__ import annotations

import os
import re

import pytest

from tests.house.source import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir())


def recipes() -> dict[str, str]:
    """Recipe name -> its body, ``default`` aside."""
    text = (ROOT / "justfile").read_text(encoding="utf-8")
    found = re.findall(r"^(\w+)([^\n]*):([^\n]*)\n((?:    [^\n]*\n)*)", text, re.MULTILINE)
    return {name: after.strip() or body.strip() for name, _, after, body in found if name != "default"}


def test_every_recipe_has_its_script() -> None:
    assert sorted(recipes()) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recipe_runs_its_script_or_other_recipes(name: str) -> None:
    body = recipes()[name]
    assert body.startswith(f"@scripts/{name}") or set(body.split()) <= recipes().keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_started(name: str) -> None:
    assert os.access(ROOT / "scripts" / name, os.X_OK)


def test_contributors_are_told_every_task() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in SCRIPTS if f"`just {name}" not in text] == []
