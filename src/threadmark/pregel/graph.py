"""Nodes over channels as a graph that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from threadmark.checkpoint.serde.allow import types_in
from threadmark.config import RunnableConfig
from threadmark.constants import END, START
from threadmark.engine.compiled import CompiledGraph, Config
from threadmark.engine.names import TASKS
from threadmark.engine.revive import allowing
from threadmark.graph.branch import function_hints
from threadmark.graph.draw import DrawnGraph, Edge, Node
from threadmark.graph.jsonschema import json_schema
from threadmark.graph.validate import check_saver
from threadmark.pregel.builder import NodeBuilder, PregelNode
from threadmark.pregel.plan import Names, plan_of
from threadmark.types import All, CachePolicy, Checkpointer, RetryPolicy, StreamMode


class Pregel(CompiledGraph):
    """A graph whose nodes start when a channel that they subscribe to changes; it ends when nothing has changed.

    Args:
        nodes: Name -> node.
        channels: Name -> channel; a managed value such as ``RemainingSteps`` may stand among them.
        input_channels: The channel that takes the input; or several, of which each takes its key of a dict.
        output_channels: The channel whose value ``invoke`` returns; or several, for a dict of those with a value.
        stream_channels: What ``stream`` and snapshots show; by default every channel.
        stream_mode: What ``stream`` tells when it is not asked for anything.
        interrupt_before_nodes: Nodes to stop before; ``"*"`` for all.
        interrupt_after_nodes: Nodes to stop behind.
        step_timeout: Seconds that one superstep may take.
        checkpointer: A saver; inside another graph also True, False or None, as for ``StateGraph.compile``.
        store: Long-term memory, injected into nodes.
        cache: Where outputs of nodes with a cache policy are kept.
        retry_policy: For nodes that have none of their own.
        cache_policy: For nodes that have none of their own.
        context_schema: The form of ``runtime.context``.
        config: The default config of every run.
        debug: Kept as an attribute.
        name: The graph's name.

    Raises:
        ValueError: a channel or node that there is not, input that can start no node, a reserved name, a timeout for
            a plain function.
        TypeError: something that is no node, channel or saver.
    """

    def __init__(
        self,
        *,
        nodes: Mapping[str, NodeBuilder | PregelNode],
        channels: Mapping[str, Any],
        input_channels: str | Sequence[str],
        output_channels: str | Sequence[str],
        stream_channels: str | Sequence[str] | None = None,
        stream_mode: StreamMode = "values",
        interrupt_before_nodes: All | Sequence[str] = (),
        interrupt_after_nodes: All | Sequence[str] = (),
        step_timeout: float | None = None,
        checkpointer: Checkpointer = None,
        store: Any = None,
        cache: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] = (),
        cache_policy: CachePolicy[Any] | None = None,
        context_schema: Any = None,
        config: RunnableConfig | None = None,
        debug: bool = False,
        name: str = "LangGraph",
    ) -> None:
        check_saver(checkpointer)
        retry = (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy)
        self.nodes = {key: _with_defaults(node, retry, cache_policy) for key, node in nodes.items()}
        plan = plan_of(
            self.nodes,
            channels,
            name=name,
            input=_names(input_channels),
            output=_names(output_channels),
            stream=None if stream_channels is None else _names(stream_channels),
            before=interrupt_before_nodes,
            after=interrupt_after_nodes,
            context_schema=context_schema,
            step_timeout=step_timeout,
        )
        super().__init__(plan, store=store, debug=debug, name=name)
        own = self.named_types()
        self.checkpointer, self.cache = allowing(checkpointer, own), allowing(cache, own)
        self.config = config or {}
        self.stream_mode = stream_mode
        self.retry_policy = retry
        self.cache_policy = cache_policy

    @property
    def channels(self) -> dict[str, Any]:
        """The channels by name."""
        return dict(self.plan.channels)

    def named_types(self) -> set[type]:
        """The classes that the channels and the annotations of what the nodes do name."""
        steps = [step.target for node in self.nodes.values() for step in node.steps]
        named = [channel.typ for name, channel in self.plan.channels.items() if name != TASKS]
        named += [hint for target in steps for hint in function_hints(target).values()]
        inner = [target.named_types() for target in steps if isinstance(target, Pregel)]
        return set().union(*(types_in(hint) for hint in named), *inner)

    def validate(self) -> Pregel:
        """Nothing is left to check: the constructor has."""
        return self

    def map(self) -> Each:
        """What runs this graph once for each of a list of inputs, as a step of another graph's node."""
        return Each(self)

    # -- what it looks like ------------------------------------------------------------------------------------------

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The graph as nodes and edges: who writes to what starts whom."""
        names: dict[str, Any] = {START: None, **self.nodes, END: None}
        taking = self.plan.input_channels
        edges = {Edge(START, name) for name in self._started_by([taking] if isinstance(taking, str) else taking)}
        for name, node in self.nodes.items():
            out = {
                Edge(name, to, None, one.skip_none) for one in node.entries for to in self._started_by([one.channel])
            }
            edges |= out or {Edge(name, END)}
        return DrawnGraph({name: Node(name, name, data, None) for name, data in names.items()}, sorted(edges, key=str))

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The same as ``get_graph``."""
        return self.get_graph(config, xray=xray)

    def _started_by(self, channels: Sequence[str]) -> list[str]:
        return [name for channel in channels for name in self.plan.triggered_by.get(channel, ())]

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the input. Needs pydantic."""
        return self._schema(self.plan.input_channels, "UpdateType", self.get_name("Input"))

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the output. Needs pydantic."""
        return self._schema(self.plan.output_channels, "ValueType", self.get_name("Output"))

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of ``runtime.context``; None for a graph without ``context_schema``. Needs pydantic."""
        schema = self.plan.context_schema
        return None if schema is None else json_schema(schema, self.get_name("Context"))

    def _schema(self, names: Names, side: str, title: str) -> dict[str, Any]:
        channels = self.plan.channels
        if isinstance(names, str):
            return json_schema(getattr(channels[names], side), title)
        schemas = {name: json_schema(getattr(channels[name], side), name) for name in names}
        return {"title": title, "type": "object", "properties": schemas}


class Each:
    """A graph for lists: runs it once for each input, several at a time, and gives back the list of its outputs."""

    def __init__(self, graph: Pregel) -> None:
        self.graph = graph
        self.name = graph.name

    def invoke(self, inputs: Sequence[Any], config: Config = None, **kwargs: Any) -> list[Any]:
        """The outputs in the order of the inputs."""
        return self.graph.batch(inputs, config, **kwargs)

    async def ainvoke(self, inputs: Sequence[Any], config: Config = None, **kwargs: Any) -> list[Any]:
        """The same as ``invoke`` on the running event loop."""
        return await self.graph.abatch(inputs, config, **kwargs)


def _names(given: str | Sequence[str]) -> Names:
    return given if isinstance(given, str) else tuple(given)


def _with_defaults(node: Any, retry: tuple[RetryPolicy, ...], cache: CachePolicy[Any] | None) -> PregelNode:
    """The node, with the graph's policies where it has none; what is no node is told of later, by name."""
    built: Any = node.build() if isinstance(node, NodeBuilder) else node
    if not isinstance(built, PregelNode):
        return built  # type: ignore[no-any-return]
    return replace(built, retry_policy=built.retry_policy or retry, cache_policy=built.cache_policy or cache)


__all__ = ["Each", "Pregel"]
