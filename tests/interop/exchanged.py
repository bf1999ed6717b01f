"""The same twenty graphs as programs of ours: their imports with the package name exchanged, as the how-to says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def _loaded() -> ModuleType:
    source = Path(__file__).with_name("graphs.py")
    text = re.sub(r"^(from|import) langgraph", r"\1 threadmark", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    module = ModuleType("tests.interop.graphs_of_ours")
    sys.modules[module.__name__] = module
    exec(compile(text, str(source), "exec", dont_inherit=True), module.__dict__)
    return module


SCENARIOS: dict[str, Any] = _loaded().SCENARIOS
