"""``threadmark show``: one checkpoint, with its state, writes, tasks and questions."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import Db, DbOption, Json, Namespace, NoThread, Place, look, thread_and_database
from threadmark.cli.meter import Meter
from threadmark.cli.sheet import print_sheet
from threadmark.cli.values import as_json as plain
from threadmark.errors import SaverError

Name = Annotated[
    str,
    typer.Argument(
        metavar="THREAD[@CHECKPOINT]",
        help="The thread, newest checkpoint; or with @ and an id's beginning or end, an older one.",
        show_default=False,
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Cut nothing short.")]
INFERRED = "read from the stored triggers, without the graph"


class NoCheckpoint(SaverError, LookupError):
    """The text behind @ names no checkpoint of the thread, or several."""

    def __init__(self, thread_id: str, part: str, found: list[str]) -> None:
        what = f"{len(found)} checkpoints: {', '.join(found[:4])}" if found else "no checkpoint"
        super().__init__(f"{part!r} names {what} of thread {thread_id!r}; `threadmark log` lists them with their ids")
        self.found = found


def show(
    name: Name,
    db: Db = None,
    db_option: DbOption = None,
    *,
    ns: Namespace = "",
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show a checkpoint: state, writes, what is next and which questions are open.

    Example: threadmark show my-thread@ca86d9ae checkpoints.db
    """
    name, path = thread_and_database(name, db, db_option)
    about = look(path, partial(_about, path, name, ns))
    if as_json:
        print(json.dumps(plain(about), indent=2))
    else:
        print_sheet(Console(), about, full=full)


# -- finding ---------------------------------------------------------------------------------------------------------


def _split(saver: SqliteSaver, meter: Meter, name: str, ns: str, path: Place) -> tuple[str, str | None]:
    """Thread and checkpoint. A thread id may hold an @ itself: the whole name is tried first."""
    known = {info.thread_id for info in saver.list_threads()}
    thread_id, at, part = name.rpartition("@")
    if name in known:
        return name, None
    if not at or thread_id not in known:
        raise NoThread(thread_id if at else name, "", path)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
    ids = []
    for saved in saver.list(config):
        ids.append(saved.checkpoint["id"])
        meter.forget()
    found = [id for id in ids if id == part] or [id for id in ids if id.startswith(part) or id.endswith(part)]
    if len(found) != 1 or not part:
        raise NoCheckpoint(thread_id, part, found)
    return thread_id, found[0]


def _about(path: Place, name: str, ns: str, saver: SqliteSaver, meter: Meter) -> dict[str, Any]:
    """Everything about a checkpoint, with values as plain data."""
    thread_id, id = _split(saver, meter, name, ns, path)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
    newest = saver.get_tuple(config)
    saved = newest if id is None else saver.get_tuple({"configurable": {**config["configurable"], "checkpoint_id": id}})
    if saved is None or newest is None:
        raise NoThread(thread_id, ns, path)
    state = {key: value for key, value in saved.checkpoint["channel_values"].items() if pending.is_state(key)}
    weight = meter.weigh(value for key, value in saved.checkpoint["channel_values"].items() if pending.is_weighed(key))
    tasks = pending.tasks(saved)
    is_newest = saved.checkpoint["id"] == newest.checkpoint["id"]
    due = [task.node for task in tasks if task.node != pending.UNKNOWN]
    parent = saved.parent_config["configurable"]["checkpoint_id"] if saved.parent_config else None
    return {
        "thread": thread_id,
        "namespace": ns,
        "checkpoint": saved.checkpoint["id"],
        "parent": parent,
        "newest": is_newest,
        "step": saved.metadata.get("step"),
        "source": saved.metadata.get("source"),
        "created_at": saved.checkpoint["ts"],
        "size": weight,
        "metadata": dict(saved.metadata),
        "values": state["__root__"] if list(state) == ["__root__"] else state,
        "writes": _writes(saver, saved),
        "next": pending.to_run(tasks) if is_newest else due,
        "next_is": INFERRED,
        "tasks": [_task(task) for task in tasks],
        "interrupts": [
            {"id": q.id, "node": task.node, "value": q.value, "response_schema": q.response_schema}
            for task in tasks
            for q in task.questions
        ],
    }


def _writes(saver: SqliteSaver, saved: CheckpointTuple) -> Any:
    """What was written to get here: the input, or the outputs of the tasks that ran from the parent, by node."""
    source = saved.metadata.get("source")
    if source == "input":
        return saved.checkpoint["channel_values"].get("__start__")
    if source == "fork":
        return None
    shown = saved.shown_writes
    if shown is not None:
        return shown["writes"] if isinstance(shown, dict) and "writes" in shown else shown
    parent = saver.get_tuple(saved.parent_config) if saved.parent_config else None
    return (pending.outputs(pending.tasks(parent)) if parent is not None else None) or None


def _task(task: pending.Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "node": task.node,
        "status": task.status,
        "sent": task.sent,
        "error": task.error,
        "output": pending.output(task.writes),
    }
