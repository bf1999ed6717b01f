"""A built graph -> a plan of lookup tables (spec 2.4, 2.6)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from threadmark.channels import (
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from threadmark.constants import END, START, TAG_HIDDEN
from threadmark.engine.call import Call, call_of
from threadmark.engine.compiled import CompiledGraph
from threadmark.engine.names import BRANCH_TO, ROOT, TASKS
from threadmark.engine.plan import Branch, Node, Plan, Writes
from threadmark.errors import ErrorCode, InvalidUpdateError, create_error_message
from threadmark.graph.branch import BranchSpec
from threadmark.graph.checks import Check, check_of
from threadmark.graph.node import NodeSpec
from threadmark.graph.schema import coercion, reader, schema_key
from threadmark.graph.writes import update_of
from threadmark.types import Command, RetryPolicy, Send, annotated_fields

if TYPE_CHECKING:
    from threadmark.graph.state import StateGraph


DEFAULT_HANDLER = "__default_error_handler__"


def plan_of(graph: StateGraph[Any], before: Any, after: Any, name: str) -> Plan:
    """The lookup tables of a checked graph."""
    nodes = {START: _start(graph)}
    for key, spec in graph.nodes.items():
        nodes[key] = _node(graph, key, spec)
    if graph.defaults.get("error_handler") is not None:
        _add_default_handler(graph, nodes)
    state_keys = tuple(graph.channels)
    output = tuple(key for key in graph.schemas[schema_key(graph.output_schema)] if key in graph.channels)
    channels = _channels(graph)
    check = check_of(graph.state_schema, graph.channels)
    for node in nodes.values():
        node.check = check
    return Plan(
        name=name,
        nodes=nodes,
        channels=channels,
        input_channels=START,
        output_channels=ROOT if output == (ROOT,) else output,
        stream_channels=ROOT if state_keys == (ROOT,) else state_keys,
        made_when_written=frozenset(
            BRANCH_TO + key
            for key, spec in graph.nodes.items()
            if not spec.defer and BRANCH_TO + key not in graph.channels
        ),
        validate_input=_input_check(graph, check),
        typed_state=coercion(graph.state_schema),
        typed_output=coercion(graph.output_schema),
        interrupt_before=_names(before),
        interrupt_after=_names(after),
        context_schema=graph.context_schema,
    )


def _add_default_handler(graph: StateGraph[Any], nodes: dict[str, Node]) -> None:
    """The handler of nodes that were given none of their own."""
    spec = NodeSpec(
        call=call_of(graph.defaults["error_handler"]), input_schema=graph.state_schema, is_error_handler=True
    )
    handled = [node for node in nodes.values() if not (node.hidden or node.handles_errors or node.handler)]
    for node in handled:
        node.handler = DEFAULT_HANDLER
    nodes[DEFAULT_HANDLER] = _node(graph, DEFAULT_HANDLER, spec)


def _names(given: Any) -> frozenset[str] | str:
    return "*" if given == "*" else frozenset(given or ())


def _channels(graph: StateGraph[Any]) -> dict[str, Any]:
    channels: dict[str, Any] = dict(graph.channels)
    channels[START] = EphemeralValue(graph.input_schema)
    channels[TASKS] = Topic(Send, accumulate=False)
    for key, spec in graph.nodes.items():
        trigger: Any = LastValueAfterFinish(Any) if spec.defer else EphemeralValue(Any, guard=False)
        channels[BRANCH_TO + key] = trigger
    for starts, end in graph.waiting_edges:
        if end != END:
            kind = NamedBarrierValueAfterFinish if graph.nodes[end].defer else NamedBarrierValue
            channels[_join(starts, end)] = kind(str, set(starts))
    for key, channel in channels.items():
        channel.key = key
    return channels


def _join(starts: Sequence[str], end: str) -> str:
    return f"join:{'+'.join(starts)}:{end}"


def _start(graph: StateGraph[Any]) -> Node:
    """The hidden node that hands the input out to the state and starts what follows START."""
    keys = frozenset(graph.schemas[schema_key(graph.input_schema)])
    call = Call(lambda value, task: value, _pass_async, START, None)
    return Node(
        name=START,
        call=call,
        triggers=(START,),
        read=lambda channels, run: channels[START].get(),
        update=_prepared(graph, update_of(START, keys)),
        edges=_edges(graph, START),
        branches=_branches(graph, START),
        tags=(TAG_HIDDEN,),
        hidden=True,
    )


def _prepared(graph: StateGraph[Any], update: Callable[[Any], Writes]) -> Callable[[Any], Writes]:
    """The same, with writes brought into the form that a reducer with ``prepare_write`` wants stored."""
    prepare: dict[str, Callable[[Any], Any]] = {}
    for name, channel in graph.channels.items():
        reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
        if (found := getattr(reducer, "prepare_write", None)) is not None:
            prepare[name] = found
    if not prepare:
        return update
    return lambda result: [(name, prepare[name](value) if name in prepare else value) for name, value in update(result)]


async def _pass_async(value: Any, task: Any) -> Any:
    return value


def _node(graph: StateGraph[Any], key: str, spec: NodeSpec) -> Node:
    defaults: dict[str, Any] = graph.defaults
    retry = spec.retry_policy if spec.retry_policy is not None else defaults.get("retry_policy")
    cache = spec.cache_policy
    timeout = spec.timeout
    if not spec.is_error_handler:
        cache = cache or defaults.get("cache_policy")
        timeout = timeout or (defaults.get("timeout") if spec.call.async_ is not None else None)
    triggers = [BRANCH_TO + key, *(_join(starts, end) for starts, end in graph.waiting_edges if end == key)]
    target = spec.call.target
    return Node(
        name=key,
        call=spec.call,
        triggers=() if spec.is_error_handler else tuple(sorted(triggers)),
        read=_reader(graph, spec.input_schema),
        update=_prepared(graph, update_of(key, frozenset(graph.channels) | frozenset(graph.managed))),
        edges=_edges(graph, key),
        branches=_branches(graph, key),
        retry=(retry,) if isinstance(retry, RetryPolicy) else tuple(retry or ()),
        cache=cache,
        timeout=timeout,
        handler=spec.error_handler,
        handles_errors=spec.is_error_handler,
        metadata=spec.metadata,
        tags=tuple(getattr(target, "tags", None) or ()) if not callable(target) else (),
        graph=target if isinstance(target, CompiledGraph) else _called_graph(target),
    )


def _called_graph(function: Any) -> CompiledGraph | None:
    """The graph that a function names and so probably calls: its state can then be looked at under the node."""
    function = getattr(function, "__wrapped__", function)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "__call__", None)  # noqa: B004  an object's own method
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
    for cell in cells.values():
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(value, CompiledGraph):
            return value
    found = (function.__globals__.get(name) for name in code.co_names)
    return next((value for value in found if isinstance(value, CompiledGraph)), None)


def _reader(graph: StateGraph[Any], schema: Any) -> Any:
    known = graph.schemas[schema_key(schema)]
    keys = tuple(key for key in known if key in graph.channels)
    return reader(schema, keys, {key: graph.managed[key] for key in known if key in graph.managed})


def _edges(graph: StateGraph[Any], key: str) -> tuple[tuple[str, Any], ...]:
    direct = [(BRANCH_TO + end, None) for start, end in graph.edges if start == key and end != END]
    joins = [(_join(starts, end), key) for starts, end in graph.waiting_edges if key in starts and end != END]
    return (*direct, *joins)


def _branches(graph: StateGraph[Any], key: str) -> tuple[Branch, ...]:
    return tuple(_branch(graph, key, spec) for spec in graph.branches.get(key, {}).values())


def _branch(graph: StateGraph[Any], key: str, spec: BranchSpec) -> Branch:
    schema = spec.input_schema
    if schema is None:
        schema = graph.nodes[key].input_schema if key in graph.nodes else graph.state_schema
    return Branch(name=spec.name, call=spec.call, read=_reader(graph, schema), decide=spec.decide)


def _input_check(graph: StateGraph[Any], schema_check: Check | None) -> Any:
    """Refuses input that the state cannot take, before anything is stored."""
    if ROOT in graph.schemas[schema_key(graph.input_schema)]:
        return lambda value: value

    update = update_of(START, frozenset(graph.schemas[schema_key(graph.input_schema)]))

    def check(value: Any) -> Any:
        if isinstance(value, (dict, Command)) or annotated_fields(type(value)):
            if schema_check is not None and not isinstance(value, Command):
                schema_check(START, update(value), {})
            return value
        if isinstance(value, (list, tuple)) and any(isinstance(item, Command) for item in value):
            return value
        raise InvalidUpdateError(
            create_error_message(
                message=f"Expected dict, got {value!r}: the input of this graph is a dict of state keys",
                error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
            )
        )

    return check


__all__ = ["plan_of"]
