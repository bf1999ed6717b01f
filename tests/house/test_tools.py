"""The linter and the type checker are part of the tests, so that one command tells the whole truth."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.source import ROOT

CHECKS = {
    "ruff": ["ruff", "check", "--quiet", "."],
    "mypy": ["mypy", "--no-error-summary", "--no-color-output"],
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("tool", sorted(CHECKS))
def test_the_tool_has_nothing_to_say(tool: str) -> None:
    done = subprocess.run([sys.executable, "-m", *CHECKS[tool]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0
