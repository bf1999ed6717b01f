"""Stores for the models, each made once for a file of tests and emptied for each program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.places import SERVERS, Place, place


@pytest.fixture(scope="module")
def file(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A SQLite file."""
    with place("sqlite", request) as found:
        yield found


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A store on each kind of server."""
    with place(request.param, request) as found:
        yield found
