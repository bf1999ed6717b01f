"""``python -m threadmark.checkpoint.conformance``: report, JSON, table, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from threadmark.checkpoint.conformance.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
MEMORY = "threadmark.checkpoint.memory:InMemorySaver"
BROKEN = "tests.conformance.broken:DropsUnknownMetadata"


def test_a_good_saver(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([MEMORY, "--only", "put_writes,prune", "--payload", "own"]) == 0
    shown = capsys.readouterr()
    assert "InMemorySaver" in shown.out
    assert "prune" in shown.out
    assert set(shown.err.strip()) == {"."}


def test_a_bad_one_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([BROKEN, "--only", "put", "--payload", "own", "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["passed_all"] is False
    assert "metadata_is_kept_as_given" in {failure["check"] for failure in report["failures"]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "package.module:name"),
        (["no_such_module:x"], "no_such_module"),
        (["threadmark.errors:nothing"], "no nothing"),
        ([MEMORY, "--only", "frobnicate"], "frobnicate"),
    ],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("option", [(), ("--table",)])
@pytest.mark.parametrize(
    ("program", "says", "line"),
    [
        ("def make():\n    raise KeyError('colour')\n", "KeyError: 'colour'", "in make: raise KeyError('colour')"),
        ("1 / 0\n", "ZeroDivisionError: division by zero", "in <module>: 1 / 0"),
        ("def make(path):\n    pass\n", "make() missing 1 required positional argument: 'path'", ""),
    ],
)
def test_what_the_maker_s_program_raises_is_told_without_our_frames(
    tmp_path: Path, program: str, says: str, line: str, option: tuple[str, ...]
) -> None:
    (tmp_path / "mine.py").write_text(program)
    command = [sys.executable, "-m", "threadmark.checkpoint.conformance", "mine:make", *option]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert first == says
    assert [each.endswith(line) and "mine.py" in each for each in rest] == [True] * bool(line)


def test_from_a_shell_in_the_maker_s_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from threadmark.checkpoint.memory import InMemorySaver as Mine\n")
    command = [sys.executable, "-W", "error", "-m", "threadmark.checkpoint.conformance", "mine:Mine", "--only", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "list" in done.stdout


def test_without_assertions_there_is_no_suite(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-m", "threadmark.checkpoint.conformance", MEMORY]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "without -O" in done.stderr


def test_the_table_in_the_reference_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/reference/savers.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- table: ")
    names, _, after = rest.partition(" -->\n")
    table, _, _ = after.partition("<!-- end of table -->")
    assert main([*names.split(), "--table"]) == 0
    assert table.strip() == capsys.readouterr().out.strip()
