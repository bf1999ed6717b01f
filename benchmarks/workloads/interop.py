"""A conversation in the peer: what its own saver stores, what ours stores in its graph, what doctor promises of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.systems import OURS, PEER, System
from benchmarks.words import message
from benchmarks.workloads.conversation import CONFIG, build

LAST: Any = {"configurable": {**CONFIG["configurable"], "run_id": "last"}}
"""The last turn has a name, by which it can be deleted."""


def _talk(graph: Any, turns: int) -> None:
    for turn in range(turns):
        config = LAST if turn == turns - 1 else CONFIG
        result = graph.invoke({"messages": [message(2 * turn)]}, config)
    assert len(result["messages"]) == 2 * turns


def _tidied(wrapped: Any, path: Path) -> Figures:
    """What LangGraph's own savers have no methods for, by ours in its place: milliseconds, and what is left."""
    thread_id = CONFIG["configurable"]["thread_id"]
    figures = {"copy_thread ms": _once(lambda: wrapped.copy_thread(thread_id, "copy"))}
    figures["delete_for_runs ms"] = _once(lambda: wrapped.delete_for_runs(["last"]))
    wrapped.delete_thread("copy")
    figures["prune ms"] = _once(lambda: wrapped.prune([thread_id]))
    wrapped.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    figures["pruned MB"] = path.stat().st_size / 1e6
    return figures


def _once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def _command(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "threadmark", *arguments, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def measure(system: System, *, turns: int) -> Figures:
    """Runs the peer's graph on both savers, then doctor and migrate on what its own saver stored."""
    if enabled():
        return {}
    from threadmark.checkpoint.sqlite import SqliteSaver
    from threadmark.interop.langgraph import as_langgraph_saver

    peer, folder = System(PEER, system.folder), system.folder
    theirs, ours, moved = folder / "peer.db", folder / "ours.db", folder / "moved.db"
    with peer.SqliteSaver.from_conn_string(str(theirs)) as saver:
        _talk(build(peer).compile(checkpointer=saver), turns)
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with SqliteSaver.from_conn_string(str(ours)) as own:
        wrapped = as_langgraph_saver(own)
        _talk(build(peer).compile(checkpointer=wrapped), turns)
        own.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored_here = ours.stat().st_size
        tidied = _tidied(wrapped, ours)
    promised = _command("doctor", str(theirs))
    outcome = _command("migrate", str(theirs), str(moved))["threads"]
    assert [one["state"] for one in outcome] == ["copied"]
    stored = {path: path.stat().st_size for path in (theirs, moved)}
    return {
        "peer's saver MB": stored[theirs] / 1e6,
        "ours in its graph MB": stored_here / 1e6,
        "promised MB": promised["size_here"] / 1e6,
        "migrated MB": stored[moved] / 1e6,
        "off by %": 100 * abs(promised["size_here"] / stored[moved] - 1),
        **tidied,
    }


enter_all(
    tuple(
        Workload(
            f"interop.conversation.{turns}",
            lambda system, turns=turns: measure(system, turns=turns),  # type: ignore[misc]
            f"a conversation of {turns:,} turns in the peer: on its saver, on ours, examined and migrated",
            systems=(OURS,),
            limits={"off by %": 5.0},
        )
        for turns in (10, 1_000)
    )
)
