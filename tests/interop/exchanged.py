"""Programs of LangGraph's as programs of ours: their imports with the package name exchanged, as the how-to says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.house.source import ROOT


def exchanged(path: Path) -> ModuleType:
    """The module of a file, made of its changed text."""
    text = re.sub(r"^(from|import) langgraph", r"\1 threadmark", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    module = ModuleType(f"tests.interop.{path.stem}_of_ours")
    sys.modules[module.__name__] = module
    exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


SCENARIOS: dict[str, Any] = exchanged(ROOT / "tests/interop/graphs.py").SCENARIOS
PEER_DATABASES: Any = exchanged(ROOT / "tests/wire/peer_databases.py")
