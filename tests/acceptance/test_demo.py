"""``threadmark demo`` in processes of its own, killed at the worst moments."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import look
from threadmark.cli.meter import Meter

PACKAGES = 24
VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})


def install(site: Path, number: int) -> Path:
    """A package with metadata, a record and some weight; returns its one module."""
    name = f"sample-{number:02}"
    module = site / f"sample_{number:02}.py"
    module.write_text("#" * (1000 + 317 * number))
    about = site / f"sample_{number:02}-{number}.0.dist-info"
    about.mkdir()
    licence = ("License-Expression: MIT", "Classifier: License :: OSI Approved :: BSD License", "License: Apache-2.0")
    needs = f"Requires-Dist: sample-{number // 3:02}>=0\nRequires-Dist: absent; extra == 'more'\n" if number else ""
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {number}.0\n{licence[number % 3]}\n{needs}\n", encoding="utf-8"
    )
    (about / "RECORD").write_text(f"{module.name},,\n{about.name}/METADATA,,\n{about.name}/RECORD,,\n")
    return module


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with sample packages and nothing else."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = (folder / "lib").glob("python3*/site-packages")
    for number in range(PACKAGES):
        install(site, number)
    return folder


@pytest.fixture
def env(installed: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(installed, tmp_path / "env", symlinks=True))


def demo(env: Path, folder: Path, *arguments: str, out: str = "report") -> subprocess.Popen[str]:
    """Start the demo on the sample packages of an environment."""
    command = [sys.executable, "-m", "threadmark", "demo", "--python", str(env), "--only", "sample-*"]
    return subprocess.Popen(
        [*command, "--out", out, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def start(tmp_path: Path, env: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the demo in ``tmp_path``; no process outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(demo(env, tmp_path, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def undisturbed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report of a run that nobody stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    status, said = finish(demo(installed, folder, "--yes"))
    assert status == 0, said
    return report(folder / "report")


def finish(process: subprocess.Popen[str], typed: str = "") -> tuple[int, str]:
    said, _ = process.communicate(typed)
    return process.returncode, said


def report(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("report.*")}


def finished(db: Path) -> list[Any]:
    """Every task of the newest thread that has stored its result, read as the command line reads it."""

    def read(saver: SqliteSaver, _: Meter) -> list[Any]:
        threads = saver.list_threads()
        config: Any = {"configurable": {"thread_id": threads[0].thread_id, "checkpoint_ns": ""}} if threads else None
        found = [pending.tasks(saved) for saved in saver.list(config)] if config else []
        return [t for tasks in found for t in tasks if t.status == "finished" and t.node != "__start__"]

    return look(db, read)


def wait_until(process: subprocess.Popen[str], db: Path, count: int) -> None:
    """Wait until so many tasks are stored; the process must still be at work."""
    while process.poll() is None:
        if db.exists() and db.stat().st_size and _count(db) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"the demo ended too early: {process.communicate()[0]}")


def _count(db: Path) -> int:
    try:
        return len(finished(db))
    except Exception:  # its tables are just being made
        return 0


def not_repeated(said: str) -> int:
    found = re.search(r"Going on where it was: (\d+) tasks? ha(?:d|ve) finished and (?:is|are) not repeated", said)
    assert found is not None, said
    return int(found[1])


def wait_for_the_question(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    said = ""
    while "Write the report" not in said:
        said += process.stdout.read(1)


# Before the first package, among the first ones, and in the middle.
@pytest.mark.parametrize("stored", [1, 2, PACKAGES // 2])
def test_a_killed_run_goes_on_and_repeats_nothing_that_had_finished(
    start: Callable[..., subprocess.Popen[str]], undisturbed: dict[str, str], tmp_path: Path, env: Path, stored: int
) -> None:
    db = tmp_path / "report" / "checkpoints.db"
    process = start("--yes", "--pace", "0.5")
    wait_until(process, db, stored)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = finished(db)

    # Whoever weighed these packages again would now find something else.
    for task in done:
        if task.node == "measure":
            module = Path(task.sent.fields["path"]).parent / f"{Path(task.sent.fields['path']).name.split('-')[0]}.py"
            module.write_text("heavier " * 10_000)
    status, said = finish(start("--yes"))
    assert status == 0, said
    assert not_repeated(said) == len(done) >= stored
    assert report(tmp_path / "report") == undisturbed


def test_killed_again_and_again_it_still_gets_there(
    start: Callable[..., subprocess.Popen[str]], undisturbed: dict[str, str], tmp_path: Path
) -> None:
    db = tmp_path / "report" / "checkpoints.db"
    for stored in (3, 10, 17):
        process = start("--yes", "--pace", "0.5")
        wait_until(process, db, stored)
        process.kill()
        process.communicate()
    status, said = finish(start("--yes"))
    assert status == 0, said
    assert not_repeated(said) >= 17
    assert report(tmp_path / "report") == undisturbed


def test_ctrl_c_says_how_to_go_on(
    start: Callable[..., subprocess.Popen[str]], undisturbed: dict[str, str], tmp_path: Path
) -> None:
    process = start("--yes", "--pace", "0.5", "--new")
    wait_until(process, tmp_path / "report" / "checkpoints.db", 3)
    process.send_signal(signal.SIGINT)
    status, said = finish(process)
    assert status == 130
    assert "Traceback" not in said
    assert "goes on from there" in said
    again = next(line for line in said.splitlines() if " demo " in line).split()
    assert again[-2:] == ["--pace", "0.5"]
    status, said = finish(start("--yes"))
    assert status == 0, said
    assert not_repeated(said) >= 3
    assert report(tmp_path / "report") == undisturbed


def test_a_run_killed_at_the_question_asks_it_again(
    start: Callable[..., subprocess.Popen[str]], undisturbed: dict[str, str], tmp_path: Path
) -> None:
    process = start()
    wait_for_the_question(process)
    assert not (tmp_path / "report" / "report.md").exists()
    process.kill()
    process.communicate()
    status, said = finish(start(), "y\n")
    assert status == 0, said
    assert not_repeated(said) == PACKAGES + 2
    assert report(tmp_path / "report") == undisturbed


def test_nobody_there_to_answer_is_a_pause_and_yes_answers_later(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    status, said = finish(start())
    assert status == 3
    assert "paused" in said
    assert report(tmp_path / "report") == {}
    status, said = finish(start("--yes"))
    assert status == 0
    assert sorted(report(tmp_path / "report")) == ["report.html", "report.md"]


def test_no_is_an_answer_and_ends_the_thread(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    status, said = finish(start(), "n\n")
    assert status == 0
    assert "Nothing was written" in said
    assert report(tmp_path / "report") == {}
    _, said = finish(start("--yes"))
    assert "packages-2" in said
    assert "not repeated" not in said


def test_a_finished_run_or_other_arguments_begin_a_new_thread(start: Callable[..., subprocess.Popen[str]]) -> None:
    finish(start("--yes"))
    paused, _ = finish(start("--limit", "2"))
    _, said = finish(start("--yes", "--limit", "3"))
    assert paused == 3
    assert "packages-3" in said
    assert "Found 3 packages" in said
    _, said = finish(start("--yes", "--limit", "2"))
    assert "packages-2" in said
    assert not_repeated(said) == 4
    _, said = finish(start("--yes", "--limit", "2", "--new"))
    assert "packages-4" in said


def test_two_at_once_are_refused(start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start()
    wait_for_the_question(first)
    status, said = finish(start("--yes"))
    assert status == 1
    assert "another demo is at work" in said
    assert finish(first, "y\n")[0] == 0


def test_the_commands_it_names_work(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    _, said = finish(start("--yes"))
    named = [line.strip() for line in said.splitlines() if re.search(r" (threads|log|show) ", line)]
    assert len(named) == 3
    for command in named:
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "packages-1" in done.stdout or "measure" in done.stdout


def test_a_python_that_is_none_is_refused(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    status, said = finish(start("--python", "no-such-python"))
    assert status == 1
    assert "no Python answers at no-such-python" in said
    assert not (tmp_path / "report").exists()
    assert "Traceback" not in said


# -- the report ------------------------------------------------------------------------------------------------------


class Balance(HTMLParser):
    """Fails on tags that are not closed in order; keeps the attributes that lead elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_pattern_that_nothing_matches_is_told(start: Callable[..., subprocess.Popen[str]]) -> None:
    status, said = finish(start("--yes", "--only", "zzz*"))
    assert status == 1
    assert re.search(r"none of \d+ packages matches 'zzz\*'; there are \w.* and others", said)


def test_the_report_has_what_is_installed(undisturbed: dict[str, str]) -> None:
    markdown, html = undisturbed["report.md"], undisturbed["report.html"]
    rows = dict(re.findall(r"^\| (sample-\d\d) \| (.+) \|$", markdown.partition("## All packages")[2], re.MULTILINE))
    assert len(rows) == PACKAGES
    assert re.fullmatch(r"7\.0 \| environment \| 3\.\d\d kB \| 3 \| BSD \| sample-02", rows["sample-07"])
    assert "| MIT | 8 |" in markdown
    assert re.search(r"^\| sample-01 \| 3 \|$", markdown, re.MULTILINE)
    assert f"{PACKAGES} packages" in html
    assert all(name in html for name in rows)


def test_the_page_is_one_file_with_one_picture(undisturbed: dict[str, str]) -> None:
    html = undisturbed["report.html"]
    page = Balance()
    page.feed(html)
    assert page.open == []
    assert page.count["svg"] == 1
    assert page.links == []
    assert "<script" not in html
    picture = ET.fromstring(html[html.index("<svg") : html.index("</svg>") + len("</svg>")])
    titles = [title.text or "" for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    for number in range(PACKAGES):
        assert any(title.startswith(f"sample-{number:02} {number}.0 ·") for title in titles)
    assert "MIT: 8 · " in "".join(titles)
    assert "sample-01: 3" in titles


def test_it_weighs_the_running_interpreter_and_its_base(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "threadmark", "demo", "--yes", "--limit", "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Found 12 packages" in done.stdout
    assert sys.executable in done.stdout
    assert sorted(report(tmp_path / "threadmark-demo")) == ["report.html", "report.md"]
