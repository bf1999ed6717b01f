"""Nothing is left lying about: no notes to self, no skipped tests, no paths of somebody's machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT

FOLDERS = (".ci", "benchmarks", "docs", "examples", "scripts", "src", "tests")
TEXT = frozenset({".py", ".md", ".toml", ".sql", ".sh", ".json", ".html", ".lock", ".txt", ""})
# One letter of each word stands in brackets, so that this page passes its own reading.
REFUSED = {
    "a note to self": r"\b(?:TO[D]O|FIX[M]E|XX[X])\b",
    "a path of one machine": r"(?<![\w.~<{}/-])/(?:wor[k]|roo[t]|hom[e]|User[s])/\w",
    "the address of a package index": r"files\.python[h]osted|registry\.npm[j]s|pypi\.org/sim[p]le",
    "who or what typed it": r"(?i:co-author[e]d-by|generated (?:by|with) a[n]? )|\bA[I]\b",
    "a source that readers do not have": r"(?i:\bdossi[e]r\b)",
}
SKIPPING = frozenset({"skip", "skipif", "xfail", "importorskip"})


def text_files() -> Iterator[Path]:
    top = (path for path in ROOT.iterdir() if path.is_file() and path.name != ".git")  # a work tree names its origin
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    for path in (*top, *below):
        if path.suffix in TEXT and "__pycache__" not in path.parts:
            yield path


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_no_text_file_holds(what: str) -> None:
    pattern = re.compile(REFUSED[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in SKIPPING and _belongs_to_pytest(node)
    ]
    assert found == []


def _belongs_to_pytest(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in {"pytest", "pytest.mark", "mark"}
