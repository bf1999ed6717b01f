"""``threadmark check-compat``: the threads that a changed graph could not go on with, found before it is deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import Db, DbOption, Json, database, look
from threadmark.cli.load import load
from threadmark.cli.meter import Meter
from threadmark.cli.text import columns, put
from threadmark.engine.compiled import CompiledGraph
from threadmark.engine.start import without_ids

AFFECTED: Final = 4
"""Exit status when some thread could not go on."""

_START, _TO, _JOIN = "__start__", "branch:to:", "join:"
_RETURN: Final = "__return__"

GraphName = Annotated[
    str, typer.Argument(metavar="MODULE:GRAPH", help="The new graph: a module and a name in it, as in shop.flow:graph.")
]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands in a thread and does not fit the graph."""

    thread: str
    ns: str
    kind: str
    """``node``, ``write`` or ``route``: the thread cannot go on; ``channel``: its value is carried on untouched."""
    name: str
    text: str

    @property
    def stops(self) -> bool:
        """Whether the thread could not go on."""
        return self.kind != "channel"


def check_compat(graph: GraphName, db: Db = None, db_option: DbOption = None, *, as_json: Json = False) -> None:
    """List the threads of a store that a changed graph could not go on with.

    Looks at what is due on each unfinished thread, sub-graphs included: nodes that are gone, results and routes of
    finished tasks that lead to channels or nodes that are gone; and at stored channels that the graph does not have.
    Exits with 4 when there is such a thread. Nothing is run, and nothing is changed.

    Example: threadmark check-compat shop.flow:graph checkpoints.db
    """
    compiled = load(graph)
    path = database(db, db_option)
    found = look(path, lambda saver, meter: list(findings(compiled, saver, meter)))
    stopped = {finding.thread for finding in found if finding.stops}
    if as_json:
        print(
            json.dumps({"graph": graph, "affected": sorted(stopped), "findings": [asdict(f) for f in found]}, indent=2)
        )
    else:
        _show(found, stopped, graph)
    if stopped:
        raise typer.Exit(AFFECTED)


def _show(found: list[Finding], stopped: set[str], graph: str) -> None:
    console = Console()
    rows = [(f.thread, f.ns, "stops" if f.stops else "kept", f.text) for f in found]
    if rows:
        put(console, columns(("thread", "namespace", "", "what does not fit"), rows))
    console.print(
        f"{len(stopped)} threads could not go on with {graph}" if stopped else f"every thread can go on with {graph}",
        highlight=False,
        soft_wrap=True,
    )


# -- what does not fit -------------------------------------------------------------------------------------------------


def findings(graph: CompiledGraph, saver: SqliteSaver, meter: Meter) -> Iterator[Finding]:
    """Everything in a database that does not fit the graph, thread by thread."""
    for info in saver.list_threads():
        yield from _in_namespace(graph, saver, info.thread_id, "", frozenset(info.namespaces))
        meter.forget()


def _in_namespace(
    graph: CompiledGraph, saver: SqliteSaver, thread: str, ns: str, all_: frozenset[str]
) -> Iterator[Finding]:
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ns}})
    if saved is None:
        return
    due = pending.tasks(saved)
    unfinished = [task for task in due if task.node != pending.UNKNOWN]
    nodes, channels = graph.plan.nodes, graph.plan.channels
    for task in unfinished:
        if task.node not in nodes and task.node != _START:
            yield Finding(thread, ns, "node", task.node, f"node {task.node!r} is due, and the graph has no such node")
            continue
        for channel, _ in task.writes:
            yield from _of_write(graph, thread, ns, task.node, channel)
        node = nodes.get(task.node)
        if node is not None and node.graph is not None and task.status != "finished":
            own = f"{ns}|{task.node}:{task.id}" if ns else f"{task.node}:{task.id}"
            child = without_ids(own) if node.graph.checkpointer is True else own
            if child in all_:
                yield from _in_namespace(node.graph, saver, thread, child, all_)
    for channel in _unknown(saved, channels):
        yield Finding(thread, ns, "channel", channel, f"channel {channel!r} has no schema; its value is carried on")


def _of_write(graph: CompiledGraph, thread: str, ns: str, node: str, channel: str) -> Iterator[Finding]:
    """A finished task's write that has no place to go."""
    plan = graph.plan
    if channel in plan.channels or channel == _RETURN or not (pending.is_state(channel) or channel.startswith(_TO)):
        return
    if channel.startswith(_TO):
        target = channel.removeprefix(_TO)
        if target not in plan.nodes:
            text = f"node {node!r} has finished and leads to node {target!r}, which the graph does not have"
            yield Finding(thread, ns, "route", target, text)
        return
    text = f"node {node!r} has finished and wrote to channel {channel!r}, which the graph does not have"
    yield Finding(thread, ns, "write", channel, text)


def _unknown(saved: CheckpointTuple, channels: Any) -> list[str]:
    values = saved.checkpoint["channel_values"]
    return [name for name in values if name not in channels and pending.is_state(name)]


__all__ = ["AFFECTED", "Finding", "check_compat", "findings"]
