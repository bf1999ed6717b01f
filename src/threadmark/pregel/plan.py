"""Nodes over channels -> a plan of lookup tables, as ``threadmark.graph.compile`` makes one of a state graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

from threadmark.channels import Topic
from threadmark.channels.base import BaseChannel
from threadmark.constants import TAG_HIDDEN
from threadmark.engine.compiled import CompiledGraph
from threadmark.engine.names import RESERVED, TASKS
from threadmark.engine.plan import Node, Plan, Writes, read_all
from threadmark.errors import EmptyInputError
from threadmark.graph.schema import reader
from threadmark.managed import ManagedValue, is_managed
from threadmark.pregel.builder import ChannelWriteEntry, PregelNode
from threadmark.pregel.steps import call_in_turn
from threadmark.types import Command, Send

log = logging.getLogger(__name__)

Names = str | tuple[str, ...]
Managed = Mapping[str, type[ManagedValue[Any]]]


def plan_of(
    nodes: Mapping[str, PregelNode],
    channels: Mapping[str, Any],
    *,
    input: Names,
    output: Names,
    stream: Names | None,
    before: Any,
    after: Any,
    **more: Any,
) -> Plan:
    """The lookup tables; raises ``ValueError`` for a name that there is not, ``TypeError`` for what is no channel."""
    managed = {name: found for name, value in channels.items() if (found := _managed(value)) is not None}
    live = _live({name: value for name, value in channels.items() if name not in managed})
    _check(nodes, live.keys() | managed.keys(), input)
    for names, what in ((input, "Input"), (output, "Output"), (stream or (), "Stream")):
        for name in (names,) if isinstance(names, str) else names:
            if name not in live:
                raise ValueError(f"{what} channel {name!r} is not among the channels: {', '.join(sorted(channels))}")
    return Plan(
        nodes={name: _node(name, node, live, managed) for name, node in nodes.items()},
        channels=live,
        input_channels=input,
        output_channels=output,
        stream_channels=tuple(name for name in live if name != TASKS) if stream is None else stream,
        validate_input=_input_check(input),
        interrupt_before=_breakpoints(before, nodes),
        interrupt_after=_breakpoints(after, nodes),
        **more,
    )


def _managed(value: Any) -> type[ManagedValue[Any]] | None:
    """The managed value that stands among the channels, bare or as an annotation."""
    last = (get_args(value) or (value,))[-1]
    return last if is_managed(last) else None


def _live(channels: Mapping[str, Any]) -> dict[str, BaseChannel[Any, Any, Any]]:
    """Channels of this graph's own, with the one for packets."""
    live: dict[str, BaseChannel[Any, Any, Any]] = {}
    for name, channel in channels.items():
        if name in RESERVED:
            raise ValueError(f"Channel {name!r} is reserved; choose another name")
        if not isinstance(channel, BaseChannel):
            raise TypeError(f"channel {name!r} must be a channel such as LastValue(int), not {channel!r}")
        live[name] = channel.copy()
    live[TASKS] = Topic(Send, accumulate=False)
    for name, channel in live.items():
        channel.key = name
    return live


def _check(nodes: Mapping[str, PregelNode], known: Iterable[str], input: Names) -> None:
    known = set(known)
    for name, node in nodes.items():
        if not isinstance(node, PregelNode):
            raise TypeError(f"node {name!r} must be made with NodeBuilder, not {node!r}")
        if name in RESERVED:
            raise ValueError(f"Node name {name!r} is reserved; choose another")
        reads = (node.channels,) if isinstance(node.channels, str) else node.channels
        for channel in (*reads, *node.triggers):
            if channel not in known:
                raise ValueError(f"Node {name!r} reads channel {channel!r}, which is not among the channels")
        if node.timeout is not None and any(step.async_ is None for step in node.steps):
            raise ValueError(f"Node timeouts are only supported for async nodes; {name!r} has a plain function")
    taking = {input} if isinstance(input, str) else set(input)
    if taking <= known and not any(taking.intersection(node.triggers) for node in nodes.values()):
        raise ValueError(
            f"No node subscribes to an input channel ({', '.join(sorted(taking))}): nothing would ever run"
        )


def _breakpoints(names: Any, nodes: Mapping[str, PregelNode]) -> frozenset[str] | str:
    if names == "*":
        return "*"
    for name in names:
        if name not in nodes:
            raise ValueError(f"Interrupt node {name!r} is not among the nodes: {', '.join(nodes)}")
    return frozenset(names)


def _node(name: str, node: PregelNode, channels: Mapping[str, Any], managed: Managed) -> Node:
    called = (step.target for step in node.steps)
    return Node(
        name=name,
        call=call_in_turn(name, node.steps),
        triggers=tuple(sorted(node.triggers)),
        read=_reader(node.channels, managed),
        update=_writer(name, node.entries, channels),
        retry=node.retry_policy,
        cache=node.cache_policy,
        timeout=node.timeout,
        metadata=node.metadata,
        tags=node.tags,
        hidden=TAG_HIDDEN in node.tags,
        graph=next((target for target in called if isinstance(target, CompiledGraph)), None),
    )


def _reader(names: Names, managed: Managed) -> Callable[[Mapping[str, Any], Any], Any]:
    if isinstance(names, str):
        return lambda channels, run: read_all(channels, names)
    own = {name: managed[name] for name in names if name in managed}
    return reader(dict, tuple(name for name in names if name not in own), own)


def _writer(name: str, entries: Sequence[ChannelWriteEntry], channels: Mapping[str, Any]) -> Callable[[Any], Writes]:
    for entry in entries:
        if entry.channel not in channels:
            log.warning("node %r writes to %r, which is not among the channels; ignored", name, entry.channel)
    kept = tuple(entry for entry in entries if entry.channel in channels)
    return lambda result: [write for entry in kept for write in entry.writes(result)]


def _input_check(names: Names) -> Callable[[Any], Any]:
    """Refuses input that no channel takes, before anything is stored."""
    if isinstance(names, str):
        return lambda value: value

    def check(value: Any) -> Any:
        if isinstance(value, Command):
            return value
        if not isinstance(value, Mapping):
            raise TypeError(f"the input of this graph is a dict of {', '.join(names)}, not {value!r}")
        if not any(name in value for name in names):
            raise EmptyInputError(f"the input has none of the keys that this graph takes: {', '.join(names)}")
        return value

    return check


__all__ = ["Names", "plan_of"]
