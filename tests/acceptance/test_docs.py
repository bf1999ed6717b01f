"""Every program in the README and the documentation runs, in the order in which a reader meets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
INFO = re.compile(r"(?P<kind>\w*)(?: title=\"(?P<title>[\w.]+)\")?")
# What a block may be: run as a program (or saved under its title), run as a command, or only shown.
KINDS = frozenset({"python", "bash", "text", "toml", "json", "sql", "mermaid"})

# Servers that a page's programs find in the environment: the variable, and the attribute of a fixture that starts one.
SERVERS = {
    "docs/how-to/keep-threads-in-cosmos-db.md": ("COSMOSDB_CONN_STRING", "cosmos.uri"),
    "docs/how-to/keep-threads-in-mongodb.md": ("MONGODB_URI", "mongodb.uri"),
    "docs/reference/postgres.md": ("DATABASE_URL", "pg_database.url"),
    "docs/reference/redis.md": ("REDIS_URL", "redis_server.url"),
}


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page, at the line where its text begins."""

    page: Path
    line: int
    kind: str
    title: str | None
    body: str


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        indent = len(found["indent"])
        body = "".join(line[indent:] for line in found["body"].splitlines(keepends=True))
        info = INFO.fullmatch(found["info"].strip())
        kind, title = (info["kind"], info["title"]) if info else (found["info"], None)
        yield Block(page, text.count("\n", 0, found.start()) + 2, kind, title, body)


def to_run(page: Path) -> list[Block]:
    """The page's programs. The README's first two commands make an environment: that is what .ci/run does."""
    runnable = [block for block in blocks(page) if block.kind in {"python", "bash"}]
    if page == ROOT / "README.md":
        return [block for block in runnable if block not in set_up_commands()]
    return runnable


def set_up_commands() -> list[Block]:
    return [block for block in blocks(ROOT / "README.md") if block.kind == "bash"][:2]


def run_python(block: Block, module: ModuleType) -> None:
    """Blocks of one page share a module, as cells of a notebook do; a traceback names page and line."""
    code = compile("\n" * (block.line - 1) + block.body, str(block.page), "exec", dont_inherit=True)
    exec(code, module.__dict__)


def run_bash(block: Block, folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.body],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.page}:{block.line}\n{done.stdout}\n{done.stderr}"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory whose modules can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    saved = [name for name, module in sys.modules.items() if is_inside(module, tmp_path)]
    for name in saved:
        del sys.modules[name]


def is_inside(module: ModuleType, folder: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "/").is_relative_to(folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [page for page in pages() if to_run(page)], ids=named)
def test_the_programs_of_a_page_run(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if named(page) in SERVERS:
        variable, place = SERVERS[named(page)]
        fixture, _, attribute = place.partition(".")
        monkeypatch.setenv(variable, getattr(request.getfixturevalue(fixture), attribute))
    module = ModuleType("page")
    # Annotations given as text are looked up in the module that a class says it comes from.
    monkeypatch.setitem(sys.modules, "page", module)
    for block in to_run(page):
        if block.title is not None:
            (folder / block.title).write_text(block.body, encoding="utf-8")
        elif block.kind == "python":
            run_python(block, module)
        else:
            run_bash(block, folder)


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert [f"{page}:{block.line} {block.kind!r}" for block in blocks(page) if block.kind not in KINDS] == []


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\[[^\]]*\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_page_is_reached_from_the_table_of_contents() -> None:
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#\s]+\.md)\)", contents)}
    assert [
        named(page) for page in (ROOT / "docs").rglob("*.md") if page not in listed | {ROOT / "docs/index.md"}
    ] == []


def test_the_readme_begins_with_two_commands_of_one_line_each() -> None:
    first = list(blocks(ROOT / "README.md"))[:2]
    assert [block.kind for block in first] == ["bash", "bash"]
    assert [block.body.count("\n") for block in first] == [1, 1]
    assert "threadmark demo" in first[0].body
    assert "--yes" in first[0].body


def test_the_readmes_first_command_leaves_a_report(folder: Path) -> None:
    """The part behind the installation, with the program of this environment."""
    *_, demo = set_up_commands()[0].body.split("&&")
    run_bash(replace(set_up_commands()[0], body=demo.replace(".venv/bin/", "")), folder)
    assert list(folder.rglob("*.md"))
    assert list(folder.rglob("*.html"))


def test_ci_runs_the_readmes_second_command_with_every_backend_required() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert "export REQUIRE_BACKENDS=all" in lines
    assert lines[-1] == set_up_commands()[1].body.rstrip("\n")
