"""The reference names what there is, and nothing that there is not."""

from __future__ import annotations

import inspect
import re

from tests.house.source import ROOT
from tests.house.test_public_names import PUBLIC
from threadmark import errors

REFERENCE = ROOT / "docs" / "reference"


def in_code(page: str) -> set[str]:
    """Every word that a page shows as code outside its programs."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return {word for span in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w.]+", span)}


def test_every_error_is_explained() -> None:
    kinds = [name for name in errors.__all__ if inspect.isclass(getattr(errors, name))]
    raised = [name for name in kinds if issubclass(getattr(errors, name), BaseException)]
    assert sorted(set(raised) - in_code("errors.md")) == []


def test_no_error_is_invented() -> None:
    named = {word for word in in_code("errors.md") if re.fullmatch(r"[A-Z]\w+(Error|Row|Moved|Database|Found)", word)}
    builtin = {"KeyError", "ValueError", "RuntimeError", "RecursionError", "LookupError"}
    assert sorted(named - builtin - set(errors.__all__)) == []


def test_every_public_name_is_listed() -> None:
    table = (REFERENCE / "names.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|$", table, re.MULTILINE))
    listed = {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows.items()}
    assert listed == {module: set(names.split()) for module, names in PUBLIC.items()}
