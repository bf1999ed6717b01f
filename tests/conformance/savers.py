"""Savers as the command line of the suite takes them: functions that open a fresh one."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from threadmark.checkpoint.sqlite import SqliteSaver as _SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver as _AsyncSqliteSaver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Any:
    """A program of ``examples/`` as a module."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def SqliteSaver() -> _SqliteSaver:
    return _SqliteSaver.from_conn_string(":memory:")


def AsyncSqliteSaver() -> _AsyncSqliteSaver:
    return _AsyncSqliteSaver.from_conn_string(":memory:")


def custom_sqlite_saver() -> Any:
    return example("custom_sqlite_saver").MyCheckpointer.create(":memory:")


def shelve_saver() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        saver = example("shelve_saver").ShelveSaver(str(Path(folder) / "notes"))
        yield saver
        saver.close()
