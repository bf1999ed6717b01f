"""The compiled graph: what people call. It takes the call apart and hands it to the loop (house 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from threadmark.colour import drive, drive_iter
from threadmark.config import RunConfig, RunnableConfig, parse, parse_place
from threadmark.engine.batch import in_tasks, in_threads
from threadmark.engine.caching import namespace_of
from threadmark.engine.loop import supersteps
from threadmark.engine.outline import Config, Outline
from threadmark.engine.port import SaverPort, port_of
from threadmark.engine.results import as_list, listening, print_waiting, returned, shaped
from threadmark.engine.run import Run
from threadmark.engine.start import Options, start
from threadmark.engine.stream import Sink
from threadmark.engine.threads import Threads
from threadmark.runtime import RunControl
from threadmark.types import All, Durability, StateSnapshot, StateUpdate, StreamMode

Modes = StreamMode | Sequence[StreamMode]


class CompiledGraph(Outline):
    """A graph ready to run. Made by ``StateGraph.compile()``; safe to share between threads and event loops.

    Methods whose name starts with ``a`` are for event loops and do the same as their twins.
    """

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
        sink = Sink(as_list(print_mode))
        run = self._start(input, config, options, sink, on_loop=False)
        for _ in drive_iter(supersteps(run)):
            print_waiting(sink)
        return returned(run, version)

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
        sink = Sink(as_list(print_mode))
        run = self._start(input, config, options, sink, on_loop=True)
        async with aclosing(supersteps(run)) as steps:
            async for _ in steps:
                print_waiting(sink)
        return returned(run, version)

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
        sink = listening(mode, print_mode, subgraphs=subgraphs, version=version)
        run = self._start(input, config, options, sink, on_loop=False)
        steps = drive_iter(supersteps(run))
        try:
            for _ in steps:
                yield from shaped(sink, mode, print_mode, subgraphs=subgraphs, version=version)
        finally:
            steps.close()  # type: ignore[attr-defined]

    async def _astream(
        self, input: Any, config: Config, options: Options, mode: Any, print_mode: Any, *, subgraphs: bool, version: str
    ) -> AsyncIterator[Any]:
        mode = mode or self.stream_mode
        sink = listening(mode, print_mode, subgraphs=subgraphs, version=version)
        run = self._start(input, config, options, sink, on_loop=True)
        async with aclosing(supersteps(run)) as steps:
            async for _ in steps:
                for chunk in shaped(sink, mode, print_mode, subgraphs=subgraphs, version=version):
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

        def one(input: Any, config: Any) -> Any:
            return self.invoke(input, config, **kwargs)

        return in_threads(one, inputs, config, return_exceptions=return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: Config | Sequence[Config] = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """The same as ``batch`` on the running event loop."""

        async def one(input: Any, config: Any) -> Any:
            return await self.ainvoke(input, config, **kwargs)

        return await in_tasks(one, inputs, config, return_exceptions=return_exceptions)

    # -- looking and editing -------------------------------------------------------------------------------------------

    def get_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: the newest, or at ``checkpoint_id`` (spec 6.1).

        ``subgraphs``: put the snapshots of child graphs into ``tasks[].state``.
        """
        return drive(self._threads(on_loop=False).state(self._place(config), config, subgraphs=subgraphs))

    async def aget_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The same as ``get_state`` on the running event loop."""
        return await self._threads(on_loop=True).state(self._place(config), config, subgraphs=subgraphs)

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
        return drive_iter(threads.history(self._place(config), filter=filter, before=before, limit=limit))

    def aget_state_history(
        self,
        config: Config,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """The same as ``get_state_history`` on the running event loop."""
        return self._threads(on_loop=True).history(self._place(config), filter=filter, before=before, limit=limit)

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
        return drive(self._threads(on_loop=False).update(self._parse(config), supersteps))

    async def abulk_update_state(self, config: Config, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """The same as ``bulk_update_state`` on the running event loop."""
        return await self._threads(on_loop=True).update(self._parse(config), supersteps)

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

    def _place(self, config: Config) -> RunConfig:
        """What a config addresses, for looking at it."""
        return parse_place(config, self.config)

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


__all__ = ["CompiledGraph", "Config"]
