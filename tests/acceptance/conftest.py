"""Each behaviour of the engine is shown in both colours, on memory and on a SQLite file."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Call
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A saver, empty at the start of each test."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as on_disk:
            yield on_disk


@pytest.fixture
def node(call: Call) -> Callable[[Any], Any]:
    """Gives a function the colour of the test: itself, or the same as a coroutine function."""

    def coloured(function: Any) -> Any:
        if call.colour == "sync" or inspect.iscoroutinefunction(function):
            return function

        @functools.wraps(function)
        async def as_coroutine(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return as_coroutine

    return coloured
