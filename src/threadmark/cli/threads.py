"""``threadmark threads``: one line about each thread of a database."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from threadmark.checkpoint.records import ThreadInfo
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import Db, DbOption, Json, database, look
from threadmark.cli.meter import Meter
from threadmark.cli.text import columns, moment, one_line, put


def threads(db: Db = None, db_option: DbOption = None, *, as_json: Json = False) -> None:
    """List the threads of a store, the one with the newest checkpoint first.

    Example: threadmark threads checkpoints.db
    """
    path = database(db, db_option)
    found = look(path, lambda saver, meter: [_about(saver, meter, info) for info in saver.list_threads()])
    if as_json:
        print(json.dumps(found, indent=2))
        return
    console = Console()
    if not found:
        console.print(f"{path} has no threads yet", highlight=False, soft_wrap=True)
        return
    rows = [
        (
            t["thread"],
            str(t["checkpoints"]),
            _step(t["step"]),
            moment(t["updated"]),
            _stand(t),
            _others(t["namespaces"]),
        )
        for t in found
    ]
    put(console, columns(("thread", "checkpoints", "step", "newest (UTC)", "stands", ""), rows, right=(1, 2)))


def _about(saver: SqliteSaver, meter: Meter, info: ThreadInfo) -> dict[str, Any]:
    saved = saver.get_tuple({"configurable": {"thread_id": info.thread_id, "checkpoint_ns": ""}})
    tasks = pending.tasks(saved) if saved is not None else []
    meter.forget()
    return {
        "thread": info.thread_id,
        "checkpoints": info.checkpoints,
        "newest": saved.checkpoint["id"] if saved is not None else info.last_id,
        "step": saved.metadata.get("step") if saved is not None else None,
        "updated": info.updated,
        "namespaces": list(info.namespaces),
        "next": pending.to_run(tasks),
        "questions": sum(len(task.questions) for task in tasks),
        "failed": sorted({task.node for task in tasks if task.status == "failed"}),
    }


def _stand(about: dict[str, Any]) -> str:
    """Where a thread stands, in words."""
    if about["failed"]:
        return f"failed in {names(about['failed'])}"
    if about["questions"]:
        return f"waits for an answer to {names(about['next'])}"
    return f"next: {names(about['next'])}" if about["next"] else "finished"


def names(nodes: list[str], longest: int = 60) -> str:
    """Node names, each with how often it comes."""
    counted = {node: nodes.count(node) for node in nodes}
    return one_line(", ".join(node if n == 1 else f"{node} \u00d7{n}" for node, n in counted.items()), longest)


def _step(step: int | None) -> str:
    return "" if step is None else str(step)


def _others(namespaces: list[str]) -> str:
    count = len([ns for ns in namespaces if ns])
    return f"+{count} of sub-graphs" if count else ""
