"""``StateGraph``: nodes and edges over a shared state, compiled into a plan (spec 2)."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, Self, TypeVar

from threadmark.channels import LastValue
from threadmark.checkpoint.serde.allow import types_in
from threadmark.constants import END, START
from threadmark.engine.call import call_of
from threadmark.engine.compiled import CompiledGraph
from threadmark.engine.revive import allowing
from threadmark.graph.branch import BranchSpec, branch_spec, first_annotation, function_hints
from threadmark.graph.compile import plan_of
from threadmark.graph.draw import DrawnGraph, drawn
from threadmark.graph.jsonschema import json_schema
from threadmark.graph.node import NodeSpec, RetryArg, command_targets, inferred_name
from threadmark.graph.schema import Channel, Managed, channels_of, schema_key
from threadmark.graph.validate import check_graph, check_names, check_saver
from threadmark.types import All, CachePolicy, Checkpointer, TimeoutPolicy

StateT = TypeVar("StateT")


class StateGraph(Generic[StateT]):
    """A graph whose nodes read a shared state and write updates to it.

    Args:
        state_schema: A TypedDict, dataclass or pydantic model, or the type of a single value. A field annotated
            ``Annotated[T, reducer]`` folds each write in with ``reducer(value, write)``; others keep the last one.
        context_schema: The form of ``runtime.context``.
        input_schema: The form of the input; by default the state's.
        output_schema: What ``invoke`` returns; by default the state.
    """

    def __init__(
        self,
        state_schema: type[StateT] | Any,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> None:
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.waiting_edges: dict[tuple[tuple[str, ...], str], None] = {}
        self.branches: defaultdict[str, dict[str, BranchSpec]] = defaultdict(dict)
        self.channels: dict[str, Channel] = {}
        self.managed: dict[str, Managed] = {}
        self.schemas: dict[Any, dict[str, Channel | Managed]] = {}
        self.defaults: dict[str, Any] = {}
        self.compiled = False
        self.state_schema = state_schema
        self.input_schema = input_schema if input_schema is not None else state_schema
        self.output_schema = output_schema if output_schema is not None else state_schema
        self.context_schema = context_schema
        self._add_schema(self.state_schema)
        self._add_schema(self.input_schema, private=False)
        self._add_schema(self.output_schema, private=False)

    def _add_schema(self, schema: Any, *, private: bool = True) -> None:
        """Take in a schema's keys; a key of several schemas must mean the same in all."""
        if schema_key(schema) in self.schemas:
            return
        channels, managed = channels_of(schema)
        if managed and not private:
            names = ", ".join(managed)
            raise ValueError(
                f"Invalid managed channels detected in {schema.__name__}: {names}. Managed channels "
                f"are not permitted in Input/Output schema."
            )
        self.schemas[schema_key(schema)] = {**channels, **managed}
        for name, channel in channels.items():
            known = self.channels.get(name)
            if known is None:
                self.channels[name] = channel
            elif known != channel and not isinstance(channel, LastValue):
                raise ValueError(f"Channel '{name}' already exists with a different type")
        for name, value in managed.items():
            if self.managed.setdefault(name, value) is not value:
                raise ValueError(f"Managed value '{name}' already exists with a different type")

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add_node(
        self,
        node: str | Any,
        action: Any = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryArg = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: Any = None,
        destinations: Mapping[str, str] | tuple[str, ...] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        trace_policy: Any = None,
    ) -> Self:
        """Add a node: ``add_node(function)`` or ``add_node("name", function)``.

        Args:
            node: Its name, or the function, whose name is then the node's.
            action: A function of the state, sync or async; a callable object, a Runnable or a compiled graph. It may
                also take ``config``, ``runtime``, ``writer``, ``store`` and ``previous``.
            defer: Run only when nothing else is left to run.
            metadata: Added to ``config["metadata"]`` of its runs.
            input_schema: What the node is given; by default the annotation of its first parameter, else the state.
            retry_policy: One, or several of which the first that fits counts.
            cache_policy: When a stored output may stand in for a run.
            error_handler: A node function that takes over when this one has failed for good.
            destinations: Where its commands may go, for drawings.
            timeout: Seconds, or a policy; for async nodes.

        Raises:
            ValueError: for a name that is taken, reserved or contains ``|`` or ``:``.
        """
        self._warn_if_compiled("a node")
        if not isinstance(node, str):
            action, node = node, inferred_name(node)
        if action is None:
            raise RuntimeError(f"node {node!r} needs an action: add_node(name, function)")
        check_names(node, self.nodes)
        call = call_of(action)
        policy = TimeoutPolicy.coerce(timeout)
        schema = input_schema if input_schema is not None else first_annotation(action)
        if schema is not None:
            self._add_schema(schema)
        spec = NodeSpec(
            call=call,
            input_schema=schema if schema is not None else self.state_schema,
            metadata=metadata or {},
            defer=defer,
            retry_policy=retry_policy,
            cache_policy=cache_policy,
            timeout=policy,
            ends=destinations if destinations is not None else command_targets(action),
        )
        self.nodes[node] = spec
        if error_handler is not None:
            spec.error_handler = self._add_handler(node, error_handler)
        return self

    def _warn_if_compiled(self, what: str) -> None:
        if self.compiled:
            warnings.warn(
                f"Adding {what} to a graph that has already been compiled. This will not be reflected in "
                f"the compiled graph.",
                stacklevel=3,
            )

    def _add_handler(self, node: str, handler: Any) -> str:
        name = f"__error_handler__{node}"
        self.nodes[name] = NodeSpec(
            call=call_of(handler), input_schema=self.nodes[node].input_schema, is_error_handler=True
        )
        return name

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryArg = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: Any = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> Self:
        """Policies for nodes that were given none of their own; sub-graphs do not inherit them."""
        self.defaults = {
            "retry_policy": retry_policy,
            "cache_policy": cache_policy,
            "error_handler": error_handler,
            "timeout": TimeoutPolicy.coerce(timeout),
        }
        return self

    # -- edges -------------------------------------------------------------------------------------------------------

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Go from a node to another; from several: when all of them have run since the last time.

        Raises:
            ValueError: for an edge from END or to START, and for a node that does not exist (yet) in a list.
        """
        self._warn_if_compiled("an edge")
        if isinstance(start_key, str):
            if start_key == END:
                raise ValueError("END cannot be a start node")
            if end_key == START:
                raise ValueError("START cannot be an end node")
            self.edges[(start_key, end_key)] = None
            return self
        for start in start_key:
            if start == END:
                raise ValueError("END cannot be a start node")
            if start not in self.nodes:
                raise ValueError(f"Need to add_node `{start}` first")
        if end_key == START:
            raise ValueError("START cannot be an end node")
        if end_key != END and end_key not in self.nodes:
            raise ValueError(f"Need to add_node `{end_key}` first")
        self.waiting_edges[(tuple(start_key), end_key)] = None
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Any,
        path_map: Mapping[Hashable, str] | Sequence[str] | None = None,
    ) -> Self:
        """Go from ``source`` where ``path(state)`` says: a node, a ``Send``, END, or a list of them.

        ``path_map`` translates what ``path`` returns; without it a ``Literal`` return annotation names the targets.
        """
        spec = branch_spec(path, path_map)
        if spec.name in self.branches[source]:
            raise ValueError(f"Branch with name `{spec.name}` already exists for node `{source}`")
        if spec.input_schema is not None:
            self._add_schema(spec.input_schema)
        self.branches[source][spec.name] = spec
        return self

    def add_sequence(self, nodes: Sequence[Any]) -> Self:
        """Add nodes, functions or (name, function) pairs, each with an edge to the next."""
        if len(nodes) < 1:
            raise ValueError("Sequence requires at least one node.")
        before: str | None = None
        for item in nodes:
            name, action = item if isinstance(item, tuple) and len(item) == 2 else (inferred_name(item), item)
            if name in self.nodes:
                raise ValueError(
                    f"Node names must be unique: node with the name '{name}' already exists. "
                    f"If you need to use two different runnables/callables with the same name, provide "
                    f"them as tuples ('name', node)."
                )
            self.add_node(name, action)
            if before is not None:
                self.add_edge(before, name)
            before = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """``add_edge(START, key)``."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Any, path_map: Mapping[Hashable, str] | Sequence[str] | None = None
    ) -> Self:
        """``add_conditional_edges(START, path, path_map)``."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """``add_edge(key, END)``."""
        return self.add_edge(key, END)

    # -- compiling ---------------------------------------------------------------------------------------------------

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check that every edge leads somewhere; raises ``ValueError`` that names what does not."""
        check_graph(self, interrupt)
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: Any = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        transformers: Any = None,
    ) -> CompiledStateGraph:
        """Check the graph and turn it into lookup tables.

        Args:
            checkpointer: A saver, on which every superstep is a checkpoint; for a sub-graph also True (it keeps its
                own state on its parent's thread), False (nothing is stored) or None (its parent's saver).
            cache: Where outputs of nodes with a ``cache_policy`` are kept.
            store: Long-term memory, injected into nodes.
            interrupt_before: Nodes to stop before; ``"*"`` for all.
            interrupt_after: Nodes to stop behind.
            debug: Print the ``debug`` stream of every run.
            name: The graph's name.

        Raises:
            ValueError: for a graph that cannot run.
            TypeError: for a checkpointer that is none.
        """
        check_saver(checkpointer)
        breakpoints = [names for names in (interrupt_before, interrupt_after) if names is not None and names != "*"]
        self.validate(interrupt=[name for names in breakpoints for name in names])
        plan = plan_of(self, interrupt_before, interrupt_after, name or "this graph")
        self.compiled = True
        types = self.named_types()
        made = CompiledStateGraph(
            plan,
            checkpointer=allowing(checkpointer, types),
            store=store,
            cache=allowing(cache, types),
            debug=debug,
            name=name or "LangGraph",
        )
        made.builder = self
        return made

    def named_types(self) -> set[type]:
        """The classes that the annotations of the schemas and nodes name, sub-graphs' included."""
        named: list[Any] = [self.state_schema, self.input_schema, self.output_schema, self.context_schema]
        found: set[type] = set()
        for spec in self.nodes.values():
            named.append(spec.input_schema)
            if isinstance(spec.call.target, CompiledStateGraph):
                found |= spec.call.target.builder.named_types()
            else:
                named.extend(function_hints(spec.call.target).values())
        for branches in self.branches.values():
            named.extend(hint for branch in branches.values() for hint in function_hints(branch.call.target).values())
        return found.union(*(types_in(hint) for hint in named if hint is not None))


class CompiledStateGraph(CompiledGraph):
    """A compiled ``StateGraph``."""

    builder: StateGraph[Any]

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The graph as nodes and edges, with ``draw_mermaid()`` and ``draw_ascii()``.

        ``xray``: with the insides of its sub-graphs, to this depth or (True) to the end.
        """
        return drawn(self, xray=xray)

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The same as ``get_graph``."""
        return self.get_graph(config, xray=xray)

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the input. Needs pydantic."""
        return json_schema(self.builder.input_schema, self.get_name("Input"), self.builder.managed)

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the output. Needs pydantic."""
        return json_schema(self.builder.output_schema, self.get_name("Output"), self.builder.managed)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of ``runtime.context``; None for a graph without ``context_schema``. Needs pydantic."""
        schema = self.builder.context_schema
        return None if schema is None else json_schema(schema, self.get_name("Context"))


__all__ = ["CompiledStateGraph", "NodeSpec", "StateGraph"]
