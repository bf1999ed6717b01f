"""Looking at threads and editing them: what ``get_state`` and its kin do (spec 6.1 - 6.4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from threadmark.config import RunConfig, RunnableConfig
from threadmark.engine.deltas import hydrated, is_whole
from threadmark.engine.look import Looks
from threadmark.engine.names import SPECIAL
from threadmark.engine.port import SaverPort
from threadmark.engine.run import Run
from threadmark.engine.runners import LoopRunner, ThreadRunner
from threadmark.engine.saving import Saving
from threadmark.engine.snapshot import are_due, empty_snapshot, snapshot
from threadmark.engine.start import parent_of, settle_around, without_ids
from threadmark.engine.stream import Sink
from threadmark.engine.update import apply_updates, load
from threadmark.ids import NULL_TASK_ID
from threadmark.types import CURRENT, PregelTask, StateSnapshot, StateUpdate

if TYPE_CHECKING:
    from threadmark.engine.compiled import CompiledGraph


_DERIVED = ("loop", "update")
"""Sources of checkpoints whose ``metadata["writes"]`` is derived from what the tasks of their parents wrote."""


class Threads:
    """The threads of one graph, for callers of one colour."""

    def __init__(self, graph: CompiledGraph, *, on_loop: bool, saver: Any = None) -> None:
        self.graph = graph
        self.on_loop = on_loop
        self.saver = saver if saver is not None else _saver(graph)
        self.port: SaverPort = graph.port(self.saver, on_loop=on_loop)
        self._looks = Looks(graph.plan, self.saver.get_next_version)

    async def state(self, config: RunConfig, given: Any, *, subgraphs: bool) -> StateSnapshot:
        """One snapshot: of the thread's newest checkpoint, or of the one that the config names."""
        inner = self._inner(config) if config.ns else None
        if inner is not None:
            return await inner.state(config, given, subgraphs=subgraphs)
        if CURRENT.get() is not None:
            await settle_around(self.saver, on_loop=self.on_loop)
        address = config.checkpoint_id or config.checkpoint_map.get(config.ns)
        found = await self._snapshot_at(config, address, live=address is None, subgraphs=subgraphs)
        return empty_snapshot(given) if found is None else found

    async def history(
        self, config: RunConfig, *, filter: Any, before: Any, limit: int | None
    ) -> AsyncGenerator[StateSnapshot, None]:
        """Snapshots, newest first. A row is read when its child is shown, since that shows what its tasks wrote.

        Only the first one does not wait for the row behind it, since it is often all that is wanted: as a rule it is
        read as ``state`` reads it.
        """
        threads = self._inner(config) or self
        await settle_around(self.saver, on_loop=self.on_loop)
        port, address = threads.port, _address(config, config.checkpoint_id)
        as_state = port.reads_parents and filter is None and before is None and (limit is None or limit > 0)
        if as_state:
            saved, parent = await threads._read(address)
            if saved is None:
                return
            yield await threads._snapshot(config, saved, parent=parent)
            if config.checkpoint_id is not None or limit == 1:
                return
            before, limit = saved.config, None if limit is None else limit - 1
        waiting, first = None, not as_state
        async with aclosing(port.list(address, filter=filter, before=before, limit=limit)) as rows:  # type: ignore[type-var]
            async for row in rows:
                if first:
                    first = False
                    yield await threads._snapshot(config, row)
                    continue
                if waiting is not None:
                    yield await threads._snapshot(config, waiting, next_row=row)
                waiting = row
            if waiting is not None:
                yield await threads._snapshot(config, waiting)

    async def update(self, config: RunConfig, updates: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Apply updates to the checkpoint that the config addresses; the config of the newest one made."""
        if config.ns:
            inner = self._inner(config)
            if inner is None:
                raise ValueError(f"no sub-graph of {self.graph.name} answers to the namespace {config.ns!r}")
            return await inner.update(config, updates)
        return await self._update(config, updates)

    async def _update(self, config: RunConfig, updates: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        await settle_around(self.saver, on_loop=self.on_loop)
        runner = LoopRunner(None) if self.on_loop else ThreadRunner(None)
        run = Run(self.graph.plan, config, None, runner, Sink(), next_version=self.saver.get_next_version)
        run.saving, run.saver = Saving(self.port), self.saver
        await load(run)
        run.parents = dict(run.metadata_stored.get("parents") or {})
        try:
            await runner.shielded(apply_updates(run, updates))
        finally:
            await runner.close()
        configurable: dict[str, Any] = {
            "thread_id": config.thread_id,
            "checkpoint_ns": run.ns,
            "checkpoint_id": run.checkpoint_id,
        }
        if run.parents:
            configurable["checkpoint_map"] = {**run.parents, run.ns: run.checkpoint_id}
        return {"configurable": configurable}

    async def _snapshot_at(
        self, config: RunConfig, id: str | None, *, live: bool, subgraphs: bool
    ) -> StateSnapshot | None:
        """One checkpoint of a namespace, or its newest; read together with what its parent is needed for."""
        saved, parent = await self._read(_address(config, id))
        if saved is None:
            return None
        return await self._snapshot(config, saved, live=live, subgraphs=subgraphs, parent=parent)

    async def _read(self, address: Any) -> Any:
        """A checkpoint, and of its parent what is needed to tell what made it, where one look finds both."""
        plan = self.graph.plan
        return await self.port.get_with_parent(address, _DERIVED, plan.starting, plan.by_path)

    async def _snapshot(
        self,
        config: RunConfig,
        saved: Any,
        *,
        live: bool = False,
        subgraphs: bool = False,
        next_row: Any = None,
        parent: Any = None,
    ) -> StateSnapshot:
        """``next_row`` is the row behind it, and ``parent`` a part of its parent, if they have been read already.

        ``parent`` may be a list of what the parent's tasks wrote, too.
        """
        plan = self.graph.plan
        if not is_whole(plan, saved):
            saved = await hydrated(plan, self.port, saved)
        parent = next_row if _made_from(saved, next_row) else await self._parent(saved, parent)
        ns = saved.config["configurable"].get("checkpoint_ns", "")
        at = config if config.ns == ns else config._replace(ns=ns)
        made = snapshot(self._looks, at, saved, live=live, parent=parent)
        return await self._with_children(config, made, subgraphs=subgraphs) if plan.has_graphs else made

    async def _parent(self, saved: Any, parent: Any) -> Any:
        """The stored parent, where its task writes are needed to tell what made this checkpoint; or those alone."""
        if saved.parent_config is None or getattr(saved, "shown_writes", None) is not None:
            return None
        if (saved.metadata or {}).get("source") not in _DERIVED:
            return None
        starting = self.graph.plan.starting
        if isinstance(parent, list):
            if are_due(self.graph.plan, saved, parent):
                return parent
            parent = None
        if parent is None:
            parent = await self.port.get_partial(saved.parent_config, starting)
        for id, name, _ in (parent.pending_writes or ()) if parent is not None else ():
            if id == NULL_TASK_ID and name not in SPECIAL and name not in starting:
                return await self.port.get_tuple(saved.parent_config)  # what a Command wrote goes on top of the values
        return parent

    async def _with_children(self, config: RunConfig, made: StateSnapshot, *, subgraphs: bool) -> StateSnapshot:
        nodes = self.graph.plan.nodes
        ns = made.config["configurable"].get("checkpoint_ns", "")
        tasks: list[PregelTask] = []
        for task in made.tasks:
            graph = nodes[task.name].graph
            if graph is not None and graph.checkpointer is not False:
                child_ns = f"{ns}|{task.name}:{task.id}" if ns else f"{task.name}:{task.id}"
                state: Any = {"configurable": {"thread_id": config.thread_id, "checkpoint_ns": child_ns}}
                if subgraphs:
                    at = RunConfig(thread_id=config.thread_id, ns=child_ns)
                    state = await self._child(graph, at)._state_of_child(at, state)
                task = task._replace(state=state)
            tasks.append(task)
        return made._replace(tasks=tuple(tasks))

    async def _state_of_child(self, config: RunConfig, given: Any) -> StateSnapshot:
        if self.graph.checkpointer is True:
            config = config._replace(ns=without_ids(config.ns))
        found = await self._snapshot_at(config, None, live=True, subgraphs=True)
        return empty_snapshot(given) if found is None else found

    def _child(self, graph: CompiledGraph, config: RunConfig) -> Threads:
        return Threads(graph, on_loop=self.on_loop, saver=self.saver)

    def _inner(self, config: RunConfig) -> Threads | None:
        """The threads of the sub-graph that a namespace names, if this graph has it as a node."""
        graph: Any = self.graph
        levels = [level.partition(":")[0] for level in config.ns.split("|") if level and not level.isdigit()]
        for level in levels:
            node = graph.plan.nodes.get(level)
            if node is None or node.graph is None:
                return None
            graph = node.graph
        return None if graph is self.graph else _Inner(graph, on_loop=self.on_loop, saver=self.saver)


class _Inner(Threads):
    """The threads of a sub-graph, addressed by a full namespace."""

    def _inner(self, config: RunConfig) -> Threads | None:
        return None

    async def update(self, config: RunConfig, updates: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        return await self._update(config, updates)


def _address(config: RunConfig, checkpoint_id: str | None) -> dict[str, Any]:
    address: dict[str, Any] = {"thread_id": config.require_thread_id, "checkpoint_ns": config.ns}
    if checkpoint_id is not None:
        address["checkpoint_id"] = checkpoint_id
    return {"configurable": address}


def _made_from(saved: Any, row: Any) -> bool:
    """Whether a row is the parent whose tasks made a checkpoint."""
    if row is None or saved.parent_config is None or getattr(saved, "shown_writes", None) is not None:
        return False
    made_by_tasks = (saved.metadata or {}).get("source") in _DERIVED
    return made_by_tasks and row.checkpoint["id"] == saved.parent_config["configurable"]["checkpoint_id"]


def _saver(graph: CompiledGraph) -> Any:
    if graph.checkpointer not in (None, False, True):
        return graph.checkpointer
    parent = parent_of(None)
    if parent is not None and parent.run.saver is not None and graph.checkpointer is not False:
        return parent.run.saver
    raise ValueError("No checkpointer set: compile the graph with checkpointer=..., so that its state is kept")


__all__ = ["Threads"]
