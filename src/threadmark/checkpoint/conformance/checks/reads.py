"""Reading one checkpoint costs the same in a long thread as in a short one. Work is counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from threadmark.checkpoint.base import Step, steps_supported
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.conformance.payloads import CountingSerializer

SHORT, LONG = 10, 10_000
"""Checkpoints in a thread: as many rows must be touched at the one as at the other."""
SLACK = 1.5
"""A tree of keys may be a level deeper."""
BATCH = 500


class ReadChecks:
    """Reads by id and of the newest are no scans."""

    capability = "get_tuple"
    once = True

    def test_reads_by_id_touch_no_more_in_a_long_thread(self, saver: Any, call: Any) -> None:
        saver.serde = CountingSerializer(saver.serde)
        ids = grow(saver, call, SHORT, None)
        short = work_of_reads(saver, call, ids)
        ids += grow(saver, call, LONG - SHORT, ids[-1])
        long = work_of_reads(saver, call, [ids[n * (LONG // SHORT)] for n in range(SHORT)])
        for what, touched in short.items():
            assert long[what] <= touched * SLACK, f"{what}: {touched} at {SHORT} checkpoints, {long[what]} at {LONG}"


def grow(saver: Any, call: Any, count: int, parent: str | None) -> list[str]:
    """Add small checkpoints to a thread; several in one transaction where the saver can do that."""
    ids: list[str] = []
    writer = saver.open_writer(config()) if steps_supported(saver) else None
    for number in range(count):
        version = f"{number:032}"
        made = checkpoint({"n": number}, {"n": version})
        if writer is None:
            call(saver, "put", config("t", parent), made, {"step": number}, {"n": version})
        else:
            writer.add(Step(config("t", parent), made, {"step": number}, {"n": version}))
            if number % BATCH == BATCH - 1 or number == count - 1:
                call(writer, "flush")
        parent = made["id"]
        ids.append(parent)
    return ids


def work_of_reads(saver: Any, call: Any, ids: list[str]) -> dict[str, int]:
    """What reading these checkpoints, and the newest, costs: values decoded, and steps of SQLite if it is there."""
    saver.serde.loaded = 0
    finish = count_steps(saver)
    for id in ids:
        assert call(saver, "get_tuple", config("t", id)) is not None
    assert call(saver, "get_tuple", config()) is not None
    return {"values decoded": saver.serde.loaded, **finish()}


def count_steps(saver: Any) -> Callable[[], dict[str, int]]:
    """Start counting the steps of the saver's SQLite connection; the result stops that. Nothing without one.

    A step is one instruction of SQLite's machine: a scan takes some for each row, a look-up a fixed number.
    """
    conn = getattr(saver, "conn", None)
    if conn is None or type(conn).__module__ != "sqlite3":
        return dict
    steps = 0

    def one() -> int:
        nonlocal steps
        steps += 1
        return 0

    def finish() -> dict[str, int]:
        conn.set_progress_handler(None, 0)
        return {"steps of SQLite": steps}

    conn.set_progress_handler(one, 1)
    return finish
