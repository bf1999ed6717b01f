"""A disk that is full: told as an error that may be tried again, and gone on from when there is room."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Call
from tests.services.postgres import postgres
from tests.services.process import folder
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import Unavailable

ROOM = 20 << 10
"""Kilobytes that one file may have: more than one of the server's log, which has 16 MB."""
LARGE = 1 << 20


def put(saver: Any, call: Call, at: Any, stored: list[bytes]) -> Any:
    """Store one more large value."""
    data = os.urandom(LARGE)
    at = call(saver, "put", at, checkpoint({"data": data}), {}, {"data": len(stored) + 1})
    stored.append(data)
    return at


def fill(saver: Any, call: Call, at: Any, stored: list[bytes]) -> None:
    """Store large values until there is no room."""
    for _ in range(2 * (ROOM << 10) // LARGE):
        at = put(saver, call, at, stored)


def test_a_full_disk(call: Call) -> None:
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    stored: list[bytes] = []
    with folder("limit") as place:
        limit = Path(place, "limit")
        limit.write_text(str(ROOM), encoding="ascii")
        with postgres(limit=limit) as server:
            saver = kind.from_conn_string(server.url())
            with pytest.raises(Unavailable, match="could not do it") as caught:
                fill(saver, call, config(), stored)
            assert caught.value.__cause__ is not None
            assert len(stored) > 5
            assert call(saver, "get", config())["channel_values"] == {"data": stored[-1]}
            limit.write_text("unlimited", encoding="ascii")
            server.server.stop(signal.SIGINT)
            server.server.start()
            put(saver, call, config(), stored)
            found = [item.checkpoint["channel_values"]["data"] for item in call(saver, "list", config())]
            assert found == stored[::-1]
            call(saver, "close")
