"""The programs in ``examples/`` run, each in an empty folder, as its first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))
CALLS = {
    "approved_later": [(["order.db"], "Buy a lathe for 280?"), (["order.db", "yes"], "bought")],
    "custom_sqlite_saver": [(["n.db"], "6 checkpoints"), (["n.db"], "'7 so far'")],
    "killed_and_resumed": [(["work.db"], "after the restart there are 6 letters")],
    "shelve_saver": [(["notes"], "'1 so far'"), (["notes"], "'3 so far'")],
    "what_if": [([], "what if")],
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_it_says(example: Path, tmp_path: Path) -> None:
    for arguments, expected in CALLS[example.stem]:
        command = [sys.executable, "-W", "error", str(example), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_explains_how_to_run_it(example: Path) -> None:
    assert f"python examples/{example.name}" in example.read_text(encoding="utf-8").partition('"""\n\n')[0]


def test_a_refusal_is_an_answer_too(tmp_path: Path) -> None:
    (example,) = [path for path in EXAMPLES if path.stem == "approved_later"]
    for arguments, expected in ((["o.db"], "Buy"), (["o.db", "no"], "refused")):
        command = [sys.executable, str(example), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert expected in done.stdout
