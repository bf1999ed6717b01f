"""From a call to a run: whose child it is, which saver it has, and how it saves (spec 1.5, 7.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from threadmark.colour import running_loop, wait_there
from threadmark.config import TASK_KEY, THREAD_KEYS, RunConfig, parse
from threadmark.engine.plan import Plan
from threadmark.engine.run import Run, count_up
from threadmark.engine.runners import LoopRunner, ThreadRunner
from threadmark.engine.saving import saving_for
from threadmark.engine.stream import Sink
from threadmark.engine.task import Task
from threadmark.runtime import DEFAULT_RUNTIME, RunControl, Runtime, ServerInfo
from threadmark.types import CURRENT

if TYPE_CHECKING:
    from threadmark.engine.compiled import CompiledGraph

SERVER_KEYS = frozenset({"assistant_id", "graph_id", "langgraph_auth_user"})
"""Keys of ``configurable`` that a server sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a call says besides its input and config."""

    context: Any = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    durability: str | None = None
    control: RunControl | None = None
    output_keys: Any = None


def start(
    graph: CompiledGraph, input: Any, config: Mapping[str, Any] | None, options: Options, sink: Sink, *, on_loop: bool
) -> Run:
    """A run that is ready for the loop. Nothing is read or stored yet.

    Raises ``MissingThreadId`` and ``ColourError`` for a saver that cannot serve this call, ``ValueError`` for
    arguments that make no sense.
    """
    parent = parent_of(config)
    given = parse(config, graph.config)
    run_config = given if parent is None else _under(graph, given, parent)
    named = parent.run.named if parent is not None else _named(run_config)
    inside = None
    if parent is None and run_config.ns:
        # A run starts at the root; a checkpoint inside a child is reached through the map of its ancestors.
        if run_config.checkpoint_id is not None and "" not in run_config.checkpoint_map:
            inside = (run_config.ns, run_config.checkpoint_id)
        run_config = run_config._replace(ns="", checkpoint_id=None)
    saver = saver_of(graph, parent)
    plan = graph.plan
    runner = LoopRunner(run_config.max_concurrency) if on_loop else ThreadRunner(run_config.max_concurrency)
    durability = options.durability or (parent.run.durability if parent is not None else "async")
    run = Run(
        plan,
        run_config,
        input,
        runner,
        _sink(sink, parent),
        parent=parent,
        runtime=_runtime(graph, options, parent, run_config.configurable),
        durability=durability,
        next_version=count_up if saver is None else saver.get_next_version,
        interrupt_before=_names(options.interrupt_before, plan.interrupt_before),
        interrupt_after=_names(options.interrupt_after, plan.interrupt_after),
        output_keys=_known_keys(plan, options.output_keys),
    )
    run.on_loop = on_loop
    run.inside = inside
    run.named = named
    run.own_thread_state = parent is not None and graph.checkpointer is True
    run.loop = running_loop() if on_loop else (parent.run.loop if parent is not None else None)
    run.saver = saver
    run.cache = graph.cache if graph.cache is not None or parent is None else parent.run.cache
    if run.sink.root is None:
        run.sink.root = run
    if saver is not None:
        run_config.require_thread_id  # noqa: B018  raises before anything runs
        port = graph.port(saver, on_loop=on_loop, loop=None if on_loop else run.loop)
        run.saving = saving_for(durability, port, runner.spawn, plan.deltas, _saving_around(run))
        run.brief, run.ends_in_one = run.saving.brief and plan.is_brief, run.saving.ends_in_one and plan.is_steady
    return run


def _saving_around(run: Run) -> Any:
    """How the run around this one saves, if both can save together."""
    above = run.parent.run if run.parent is not None else None
    if above is None or above.saver is not run.saver or above.on_loop is not run.on_loop or above.loop is not run.loop:
        return None
    return above.saving


async def settle_around(saver: Any, *, on_loop: bool) -> None:
    """Before a node looks at a thread: wait for what the run around it, and children of that, have yet to store."""
    task = parent_of(None)
    saving = task.run.saving if task is not None and task.run.saver is saver else None
    if task is None or saving is None:
        return
    run, here = task.run, running_loop()
    if on_loop is run.on_loop and (here is run.loop or not on_loop):
        await saving.settle()
    elif run.loop is not None and run.loop is not here:
        wait_there(saving.settle(), run.loop)


def parent_of(config: Mapping[str, Any] | None) -> Task | None:
    """The task that a graph is called in, if the call does not address a thread of its own (spec 1.5)."""
    configurable = (config or {}).get("configurable") or {}
    task = configurable.get(TASK_KEY)
    if task is not None:
        own = task.run.config.thread_id
        named = configurable.get("thread_id")
        return task if named is None or str(named) == own else None
    if not THREAD_KEYS.isdisjoint(configurable):
        return None
    current: Any = CURRENT.get()
    return current if isinstance(current, Task) else None


def _under(graph: CompiledGraph, given: RunConfig, parent: Task) -> RunConfig:
    """The config of a child run: its parent's, with what the call says put over it."""
    above = parent.run.config
    ns = parent.next_child_ns()
    if graph.checkpointer is True:
        ns = without_ids(ns)
    return RunConfig(
        thread_id=above.thread_id,
        ns=ns,
        checkpoint_id=None,
        checkpoint_map=above.checkpoint_map,
        recursion_limit=min(above.recursion_limit, given.recursion_limit),
        max_concurrency=given.max_concurrency or above.max_concurrency,
        configurable={**above.configurable, **given.configurable},
        metadata={**above.metadata, **_own_metadata(given, parent)},
        tags=(*above.tags, *[tag for tag in given.tags if tag not in above.tags]),
        callbacks=given.callbacks if given.callbacks is not None else above.callbacks,
        run_name=above.run_name,
        run_id=above.run_id,
    )


def _named(config: RunConfig) -> dict[str, Any]:
    """What a caller's config addresses, for its nodes to see (spec 1.5)."""
    named = (("checkpoint_id", config.checkpoint_id), ("checkpoint_ns", config.ns))
    return {key: value for key, value in named if value}


def _own_metadata(given: RunConfig, parent: Task) -> dict[str, Any]:
    """What a call says itself. A node that hands its config on hands on what was only shown to it, too."""
    if "task_id" not in given.metadata:
        return dict(given.metadata)
    shown = {**parent.run.config.configurable, **parent.run.config.metadata}
    return {key: value for key, value in given.metadata.items() if key != "task_id" or shown.get(key) != value}


def without_ids(ns: str) -> str:
    """A namespace without the ids of its tasks: the home of a child that keeps its state on the thread."""
    return re.sub(r":[^|]*", "", ns)


def saver_of(graph: CompiledGraph, parent: Task | None) -> Any:
    """The saver of a run (spec 7.1); None when nothing is stored."""
    if parent is not None:
        return None if graph.checkpointer is False else parent.run.saver
    if graph.checkpointer is True:
        raise RuntimeError("checkpointer=True is for sub-graphs; give the root graph a saver")
    return graph.checkpointer or None


def _sink(own: Sink, parent: Task | None) -> Sink:
    """A child is heard by whoever listens to its own call, and by an enclosing run that listens to sub-graphs."""
    if parent is None or not parent.run.sink.subgraphs_heard:
        return own
    above = parent.run.sink
    if not own.asked:
        return above
    own.join(above)
    return own


def _runtime(
    graph: CompiledGraph, options: Options, parent: Task | None, configurable: Mapping[str, Any]
) -> Runtime[Any]:
    base = DEFAULT_RUNTIME if parent is None else parent.run.runtime
    changes: dict[str, Any] = {}
    if options.context is not None:
        changes["context"] = coerced_context(graph.plan.context_schema, options.context)
    if graph.store is not None:
        changes["store"] = graph.store
    if options.control is not None:
        changes["control"] = options.control
    if not SERVER_KEYS.isdisjoint(configurable):
        changes["server_info"] = _server_info(configurable)
    return base.override(**changes) if changes else base


def _server_info(configurable: Mapping[str, Any]) -> ServerInfo:
    """Where a server says it runs the graph, and for whom: an object with an ``identity``."""
    user = configurable.get("langgraph_auth_user")
    return ServerInfo(
        assistant_id=str(configurable.get("assistant_id", "")),
        graph_id=str(configurable.get("graph_id", "")),
        user=user if hasattr(user, "identity") else None,
    )


def coerced_context(schema: Any, context: Any) -> Any:
    """A context dict in the form of its schema; anything else as it is."""
    if schema is None or not isinstance(context, dict):
        return context
    if is_dataclass(schema) or hasattr(schema, "model_validate"):
        return schema(**context)
    return context


def _names(given: Any, compiled: frozenset[str] | str) -> frozenset[str] | str:
    if given is None:
        return compiled
    if given == "*":
        return "*"
    return frozenset([given] if isinstance(given, str) else given)


def _known_keys(plan: Plan, keys: Any) -> Any:
    if keys is plan.output_channels or keys is plan.stream_channels:
        return keys
    wanted: Sequence[str] = [keys] if isinstance(keys, str) else list(keys)
    unknown = [key for key in wanted if key not in plan.channels]
    if unknown:
        raise ValueError(f"output_keys names {unknown[0]!r}, which is no key of the state")
    return keys if isinstance(keys, str) else tuple(keys)


__all__ = ["Options", "parent_of", "saver_of", "settle_around", "start", "without_ids"]
