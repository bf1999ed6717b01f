"""The compiled graph: what people call. It takes the call apart and hands it to the loop (house 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Literal, Self

from threadmark.colour import drive, drive_iter
from threadmark.config import RunConfig, RunnableConfig, merge, parse
from threadmark.engine.caching import namespace_of
from threadmark.engine.loop import output, supersteps
from threadmark.engine.plan import Plan
from threadmark.engine.port import SaverPort, port_of
from threadmark.engine.run import Run
from threadmark.engine.start import Options, start
from threadmark.engine.stream import Sink, shape, typed
from threadmark.engine.threads import Threads
from threadmark.runtime import RunControl
from threadmark.types import All, Checkpointer, Durability, GraphOutput, StateSnapshot, StateUpdate, StreamMode

Modes = StreamMode | Sequence[StreamMode]
Config = RunnableConfig | Mapping[str, Any] | None


class CompiledGraph:
    """A graph ready to run. Made by ``StateGraph.compile()``; safe to share between threads and event loops.

    Methods whose name starts with ``a`` are for event loops and do the same as their twins.
    """

    builder: Any = None

    def __init__(
        self,
        plan: Plan,
        *,
        checkpointer: Checkpointer = None,
        store: Any = None,
        cache: Any = None,
        debug: bool = False,
        name: str = "LangGraph",
    ) -> None:
        self.plan = plan
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.debug = debug
        self.name = name
        self.config: RunnableConfig = {}
        self.stream_mode: StreamMode = "updates"
        self.retry_policy: Sequence[Any] = ()
        self._ports: dict[tuple[int, bool], tuple[Any, SaverPort]] = {}

    # -- what it is --------------------------------------------------------------------------------------------------

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """The graph's name, with ``suffix`` behind it."""
        return (name or self.name) + (suffix or "")

    @property
    def input_channels(self) -> str | list[str]:
        """The channels that take the input."""
        taking = self.plan.input_channels
        return taking if isinstance(taking, str) else list(taking)

    @property
    def output_channels(self) -> str | list[str]:
        """The channels that ``invoke`` returns."""
        shown = self.plan.output_channels
        return shown if isinstance(shown, str) else list(shown)

    @property
    def stream_channels(self) -> str | list[str]:
        """The channels of the state, as snapshots show them."""
        shown = self.plan.stream_channels
        return shown if isinstance(shown, str) else list(shown)

    @property
    def step_timeout(self) -> float | None:
        """Seconds that one superstep may take; None for any time."""
        return self.plan.step_timeout

    @step_timeout.setter
    def step_timeout(self, seconds: float | None) -> None:
        self.plan.step_timeout = seconds

    @property
    def interrupt_before_nodes(self) -> Any:
        """Static breakpoints before nodes."""
        names = self.plan.interrupt_before
        return names if isinstance(names, str) else sorted(names)

    @property
    def interrupt_after_nodes(self) -> Any:
        """Static breakpoints behind nodes."""
        names = self.plan.interrupt_after
        return names if isinstance(names, str) else sorted(names)

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with some attributes changed."""
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__, _ports={}, **dict(update or {}))
        return clone

    def with_config(self, config: Config = None, **more: Any) -> Self:
        """A copy whose runs have this config as their default."""
        return self.copy({"config": merge(self.config, config, more)})

    # -- running -----------------------------------------------------------------------------------------------------

    def invoke(
        self,
        input: Any,
        config: Config = None,
        *,
        context: Any = None,
        stream_mode: Modes = "values",
        print_mode: Modes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        version: Literal["v1", "v2"] = "v1",
        **kwargs: Any,
    ) -> Any:
        """Run to the end or to a pause, and return the output channels; open questions under ``__interrupt__``.

        Args:
            input: A dict (or instance) of the input schema; a ``Command``; or None to go on with a stored run.
            config: ``{"configurable": {"thread_id": ...}, "recursion_limit": ..., ...}``.
            context: What ``runtime.context`` is; a dict is put into the form of ``context_schema``.
            stream_mode: Other than ``values``: return the list of chunks of that stream.
            print_mode: Modes whose events are printed as well.
            output_keys: Channels to return; by default the output schema's.
            interrupt_before: Nodes to stop before; ``"*"`` for all.
            interrupt_after: Nodes to stop behind.
            durability: ``sync``, ``async`` (default) or ``exit`` (spec 9).
            control: A handle to stop the run between two supersteps.
            version: ``v2`` returns a ``GraphOutput``.

        Raises:
            EmptyInputError: there is nothing to run.
            GraphRecursionError: more supersteps than ``recursion_limit``.
            InvalidUpdateError: a node wrote what the state cannot take.
            MissingThreadId: there is a saver, and no ``thread_id``.
        """
        options = Options(
            context=context,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            control=control,
            output_keys=self.plan.output_channels if output_keys is None else output_keys,
        )
        if stream_mode != "values":
            return list(self._stream(input, config, options, stream_mode, print_mode, subgraphs=False, version=version))
        sink = Sink(_as_list(print_mode))
        run = self._start(input, config, options, sink, on_loop=False)
        for _ in drive_iter(supersteps(run)):
            _print(sink)
        return _returned(run, version)

    async def ainvoke(
        self,
        input: Any,
        config: Config = None,
        *,
        context: Any = None,
        stream_mode: Modes = "values",
        print_mode: Modes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        version: Literal["v1", "v2"] = "v1",
        **kwargs: Any,
    ) -> Any:
        """The same as ``invoke`` on the running event loop."""
        options = Options(
            context=context,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            control=control,
            output_keys=self.plan.output_channels if output_keys is None else output_keys,
        )
        if stream_mode != "values":
            chunks = self._astream(input, config, options, stream_mode, print_mode, subgraphs=False, version=version)
            return [chunk async for chunk in chunks]
        sink = Sink(_as_list(print_mode))
        run = self._start(input, config, options, sink, on_loop=True)
        async with aclosing(supersteps(run)) as steps:
            async for _ in steps:
                _print(sink)
        return _returned(run, version)

    def stream(
        self,
        input: Any,
        config: Config = None,
        *,
        context: Any = None,
        stream_mode: Modes | None = None,
        print_mode: Modes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        control: RunControl | None = None,
        version: Literal["v1", "v2"] = "v1",
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Run and yield what happens, in the shapes of ``stream_mode`` (spec 10); arguments as for ``invoke``.

        ``subgraphs``: also what happens in graphs called by this one, each item with its namespace. The next
        superstep starts when the next item is asked for; closing the iterator stops the run, which can be resumed.
        """
        options = Options(
            context=context,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            control=control,
            output_keys=self.plan.stream_channels if output_keys is None else output_keys,
        )
        return self._stream(input, config, options, stream_mode, print_mode, subgraphs=subgraphs, version=version)

    def astream(
        self,
        input: Any,
        config: Config = None,
        *,
        context: Any = None,
        stream_mode: Modes | None = None,
        print_mode: Modes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        control: RunControl | None = None,
        version: Literal["v1", "v2"] = "v1",
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """The same as ``stream`` on the running event loop."""
        options = Options(
            context=context,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            durability=durability,
            control=control,
            output_keys=self.plan.stream_channels if output_keys is None else output_keys,
        )
        return self._astream(input, config, options, stream_mode, print_mode, subgraphs=subgraphs, version=version)

    def _stream(
        self, input: Any, config: Config, options: Options, mode: Any, print_mode: Any, *, subgraphs: bool, version: str
    ) -> Iterator[Any]:
        mode = mode or self.stream_mode
        sink = _listening(mode, print_mode, subgraphs=subgraphs, version=version)
        run = self._start(input, config, options, sink, on_loop=False)
        steps = drive_iter(supersteps(run))
        try:
            for _ in steps:
                yield from _shaped(sink, mode, print_mode, subgraphs=subgraphs, version=version)
        finally:
            steps.close()  # type: ignore[attr-defined]

    async def _astream(
        self, input: Any, config: Config, options: Options, mode: Any, print_mode: Any, *, subgraphs: bool, version: str
    ) -> AsyncIterator[Any]:
        mode = mode or self.stream_mode
        sink = _listening(mode, print_mode, subgraphs=subgraphs, version=version)
        run = self._start(input, config, options, sink, on_loop=True)
        async with aclosing(supersteps(run)) as steps:
            async for _ in steps:
                for chunk in _shaped(sink, mode, print_mode, subgraphs=subgraphs, version=version):
                    yield chunk

    def batch(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Run several inputs, each as ``invoke`` would; results in the order of the inputs.

        ``config``: one for all, or one for each. ``return_exceptions``: give back errors in place of results.
        """
        configs = _configs(config, len(inputs))

        def one(pair: tuple[Any, Any]) -> Any:
            try:
                return self.invoke(pair[0], pair[1], **kwargs)
            except Exception as error:
                if return_exceptions:
                    return error
                raise

        pairs = list(zip(inputs, configs, strict=True))
        if len(pairs) < 2:
            return [one(pair) for pair in pairs]
        with ThreadPoolExecutor(_concurrency(configs) or len(pairs)) as pool:
            jobs = [pool.submit(copy_context().run, one, pair) for pair in pairs]
            return [job.result() for job in jobs]

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """The same as ``batch`` on the running event loop."""
        configs = _configs(config, len(inputs))
        gate = asyncio.Semaphore(_concurrency(configs) or max(len(inputs), 1))

        async def one(input: Any, config: Any) -> Any:
            async with gate:
                return await self.ainvoke(input, config, **kwargs)

        jobs = (one(input, config) for input, config in zip(inputs, configs, strict=True))
        return list(await asyncio.gather(*jobs, return_exceptions=return_exceptions))

    # -- looking and editing -------------------------------------------------------------------------------------------

    def get_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: the newest, or at ``checkpoint_id`` (spec 6.1).

        ``subgraphs``: put the snapshots of child graphs into ``tasks[].state``.
        """
        return drive(self._threads(on_loop=False).state(self._parse(config), config, subgraphs=subgraphs))

    async def aget_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The same as ``get_state`` on the running event loop."""
        return await self._threads(on_loop=True).state(self._parse(config), config, subgraphs=subgraphs)

    def get_state_history(
        self,
        config: Config,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The snapshots of a thread, newest first, read as they are asked for (spec 6.2).

        ``filter``: metadata that must be equal. ``before``: a config whose ``checkpoint_id`` is an exclusive bound.
        """
        threads = self._threads(on_loop=False)
        return drive_iter(threads.history(self._parse(config), filter=filter, before=before, limit=limit))

    def aget_state_history(
        self,
        config: Config,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """The same as ``get_state_history`` on the running event loop."""
        return self._threads(on_loop=True).history(self._parse(config), filter=filter, before=before, limit=limit)

    def update_state(
        self, config: Config, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """Write to the state as a node would; returns the config of the new checkpoint (spec 6.3).

        Reducers apply and the node's edges decide what runs next. ``as_node`` is inferred when only one node can be
        meant; ``InvalidUpdateError`` when it cannot.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self, config: Config, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """The same as ``update_state`` on the running event loop."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(self, config: Config, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Apply several supersteps of updates, each of which makes one checkpoint (spec 6.3)."""
        return drive(self._update(config, supersteps, on_loop=False))

    async def abulk_update_state(self, config: Config, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """The same as ``bulk_update_state`` on the running event loop."""
        return await self._update(config, supersteps, on_loop=True)

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget the cached outputs of these nodes, or of all; ``ValueError`` when the graph has no cache."""
        self._cache().clear(self._cached_namespaces(nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """The same as ``clear_cache`` on the running event loop."""
        await self._cache().aclear(self._cached_namespaces(nodes))

    def _cache(self) -> Any:
        if self.cache is None:
            raise ValueError("No cache is set for this graph: compile it with cache=...")
        return self.cache

    def _cached_namespaces(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        return [namespace_of(node) for name, node in self.plan.nodes.items() if nodes is None or name in nodes]

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledGraph]]:
        """The graphs that are nodes of this one, by name; with ``recurse`` theirs too, as ``a|b``."""
        for node in self.plan.nodes.values():
            if node.graph is None:
                continue
            if namespace is None or namespace == node.name:
                yield node.name, node.graph
            if recurse and (namespace is None or namespace.startswith(node.name + "|")):
                inner = None if namespace is None else namespace[len(node.name) + 1 :]
                for name, graph in node.graph.get_subgraphs(namespace=inner, recurse=True):
                    yield f"{node.name}|{name}", graph

    # -- from the call to the loop -------------------------------------------------------------------------------------

    def _start(self, input: Any, config: Config, options: Options, sink: Sink, *, on_loop: bool) -> Run:
        return start(self, input, config, options, sink, on_loop=on_loop)

    def _parse(self, config: Config) -> RunConfig:
        return parse(config, self.config)

    def port(self, saver: Any, *, on_loop: bool, loop: Any = None) -> SaverPort:
        """The saver for runs of one colour; found out once."""
        if loop is not None:
            return port_of(saver, on_loop=on_loop, loop=loop)
        key = (id(saver), on_loop)
        known = self._ports.get(key)
        if known is None or known[0] is not saver:
            known = self._ports[key] = (saver, port_of(saver, on_loop=on_loop))
        return known[1]

    def _threads(self, *, on_loop: bool) -> Threads:
        return Threads(self, on_loop=on_loop)

    async def _update(
        self, config: Config, updates: Sequence[Sequence[StateUpdate]], *, on_loop: bool
    ) -> RunnableConfig:
        return await self._threads(on_loop=on_loop).update(self._parse(config), updates)


def _as_list(modes: Any) -> list[str]:
    return [modes] if isinstance(modes, str) else list(modes)


def _listening(mode: Any, print_mode: Any, *, subgraphs: bool, version: str) -> Sink:
    sink = Sink({*_as_list(mode), *_as_list(print_mode)}, subgraphs=subgraphs)
    sink.typed = version == "v2"
    return sink


def _shaped(sink: Sink, mode: Any, print_mode: Any, *, subgraphs: bool, version: str) -> Iterator[Any]:
    """The waiting events in the caller's envelope; those of ``print_mode`` are printed."""
    wanted, printed = _as_list(mode), _as_list(print_mode)
    while sink.items:
        item = sink.items.popleft()
        if item[1] in printed:
            print(f"[{item[1]}] {item[2]}")  # noqa: T201  what print_mode is for
        if item[1] in wanted:
            yield shape(item, mode, subgraphs=subgraphs, version=version)


def _print(sink: Sink) -> None:
    while sink.items:
        _, mode, payload = sink.items.popleft()
        print(f"[{mode}] {payload}")  # noqa: T201  what print_mode is for


def _returned(run: Run, version: str) -> Any:
    if version == "v2":
        found = output(run)
        if run.interrupts and isinstance(found, dict):
            found = {key: value for key, value in found.items() if key != "__interrupt__"}
        return GraphOutput(value=typed(run.plan.typed_output, found), interrupts=tuple(run.interrupts))
    return output(run)


def _configs(config: Any, count: int) -> list[Any]:
    if isinstance(config, (list, tuple)):
        if len(config) != count:
            raise ValueError(f"{count} inputs need {count} configs, or one for all; got {len(config)}")
        return list(config)
    return [config] * count


def _concurrency(configs: Sequence[Any]) -> int | None:
    return next((c["max_concurrency"] for c in configs if c and c.get("max_concurrency")), None)


__all__ = ["CompiledGraph"]
