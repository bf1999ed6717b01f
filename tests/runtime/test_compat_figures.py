"""The command that puts the figures of the peer's tests into the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import compat

ROWS = """id,category,scope,outcome,seconds,missing,reason
core/test_a.py::test_one[memory],graph,in,passed,0.1,,
core/test_a.py::test_one[sqlite],graph,in,failed,0.1,,Boom
core/test_a.py::test_two,graph,in,xfailed,0.1,,
core/test_a.py::test_postgres_only,graph,in,failed,0.1,,
core/test_b.py::test_three,cache,stretch,passed,0.1,,
core/test_b.py::test_four,cache,,failed,0.1,,
"""
PAGE = f"before\n{compat.BEGIN}\nold\n{compat.END}\nafter\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "results.csv").write_text(ROWS, encoding="utf-8")
    made = tmp_path / "page.md"
    made.write_text(PAGE, encoding="utf-8")
    return made


def reasons(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reasons.toml"
    path.write_text(f"[reasons]\n{text}\n", encoding="utf-8")
    monkeypatch.setattr(compat, "REASONS", path)


def test_figures_are_put_into_the_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons(page.parent, "'core/.*test_one' = \"decided\"", monkeypatch)
    assert compat.main([str(page.parent), "--page", str(page), "--without", "postgres"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "* core: 2 of 3 runs, 1 of 2 test functions (50.0%)" in text
    assert "* neighbours: 1 of 1 runs, 1 of 1 test functions (100.0%)" in text
    assert "| graph | core | 2 of 3 | 1 of 2 |" in text
    assert "| `core/test_a.py::test_one` | decided |" in text
    again = text
    compat.main([str(page.parent), "--page", str(page), "--without", "postgres"])
    assert page.read_text(encoding="utf-8") == again


def test_what_is_not_explained_fails(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons(page.parent, "", monkeypatch)
    assert compat.main([str(page.parent), "--page", str(page)]) == 1
    assert "not explained: core/test_a.py::test_one" in capsys.readouterr().err


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        compat.put("nothing here", "figures")
