"""A compiled graph as lookup tables, and which tasks are due (spec 3.4). Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from threadmark.channels import (
    MISSING,
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from threadmark.channels.holding import Holding
from threadmark.constants import START
from threadmark.engine.call import Call
from threadmark.engine.names import BRANCH_TO, PULL, PUSH, TASKS
from threadmark.ids import path_str
from threadmark.types import CachePolicy, RetryPolicy, Send, TimeoutPolicy

if TYPE_CHECKING:
    from threadmark.engine.compiled import CompiledGraph

# Kinds that a superstep without a write leaves as they are, so that applying need not ask them.
_STEADY = (LastValue, BinaryOperatorAggregate, DeltaChannel, NamedBarrierValue, LastValueAfterFinish, UntrackedValue)
_FADING = (EphemeralValue, Topic, AnyValue)
_FINISHING = (LastValueAfterFinish, NamedBarrierValueAfterFinish)
_AS_STORED = (Holding.from_checkpoint, Holding.peek, Holding.is_available)
_KNOWN = _STEADY + _FADING + _FINISHING
_HOLDING = (LastValue, EphemeralValue, AnyValue, UntrackedValue)

Writes = list[tuple[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A conditional edge: reads the state anew and says where to go."""

    name: str
    call: Call
    read: Callable[[Mapping[str, BaseChannel[Any, Any, Any]], Any], Any] | None
    """The state as the path function wants it; None: it is given the node's own result."""
    decide: Callable[[Any], Writes]


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One node of a plan: how its input is read, how it is called, and what its result writes."""

    name: str
    call: Call
    triggers: tuple[str, ...]
    """Channels that make it due, sorted."""
    pull_path: str = ""
    """The path of its own tasks as text."""
    read: Callable[[Mapping[str, BaseChannel[Any, Any, Any]], Any], Any]
    update: Callable[[Any], Writes]
    """A result's writes to the state, and those of its commands."""
    edges: tuple[tuple[str, Any], ...] = ()
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    timeout: TimeoutPolicy | None = None
    handler: str | None = None
    """The node that takes over when this one has failed for good."""
    deltas: tuple[str, ...] = ()
    """Delta channels."""
    reducers: tuple[str, ...] = ()
    """Channels whose value can be rebuilt from writes."""
    handles_errors: bool = False
    check: Callable[[str, Writes, Mapping[str, Any]], None] | None = None
    """Raises for writes that the state's schema does not allow; called before they are stored."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    hidden: bool = False
    graph: CompiledGraph | None = None
    """The graph that this node is, for looking into its state."""


@dataclass(slots=True, kw_only=True, eq=False)
class Plan:
    """What ``compile()`` makes of a graph."""

    name: str
    nodes: dict[str, Node]
    channels: dict[str, BaseChannel[Any, Any, Any]]
    """Specifications; ``State`` holds live ones."""
    input_channels: str | tuple[str, ...]
    """The channel that takes the input, or several of which each takes the key of its name."""
    output_channels: str | tuple[str, ...]
    stream_channels: str | tuple[str, ...]
    """The state channels: what snapshots and the ``values`` stream show."""
    validate_input: Callable[[Any], Any] = lambda value: value
    """Raises before anything is stored for input that the graph cannot take."""
    interrupt_before: frozenset[str] | str = frozenset()
    interrupt_after: frozenset[str] | str = frozenset()
    context_schema: Any = None
    typed_state: Callable[[dict[str, Any]], Any] | None = None
    """Puts the state's values into the form of its schema, for ``version="v2"``."""
    typed_output: Callable[[dict[str, Any]], Any] | None = None
    step_timeout: float | None = None
    triggered_by: dict[str, tuple[str, ...]] = field(default_factory=dict)
    starting: frozenset[str] = frozenset()
    """Channels that say which tasks are due."""
    fading: frozenset[str] = frozenset()
    """Channels whose value a superstep without a write may change."""
    made_when_written: frozenset[str] = frozenset()
    """Triggers that nobody reads and that begin without a value: one for each node, of which a run may want few."""
    made_at_once: tuple[str, ...] = ()
    """The other channels."""
    consuming: frozenset[str] = frozenset()
    """Channels that a task's end may change."""
    finishing: tuple[str, ...] = ()
    """Channels that wait for everything else to be done."""
    calls_tasks: bool = False
    """Whether its node is the body of a workflow, whose tasks tell events while it runs."""
    deltas: tuple[str, ...] = ()
    """Delta channels."""
    reducers: tuple[str, ...] = ()
    """Channels whose value can be rebuilt from writes."""
    reducers_are_foreign: bool = False
    """Whether some reducer is neither ours nor Python's own, so that it may change what it is given."""
    handles_errors: bool = False
    """Whether some node has an error handler."""
    is_brief: bool = False
    """Whether what a superstep leaves in storage follows from the writes of its tasks as they were made."""
    is_steady: bool = False
    """Whether no channel may fail to say what it holds."""
    untracked: frozenset[str] = frozenset()
    """Channels that are never stored."""
    reported: set[str] = field(default_factory=set)
    """Stored channels without a schema that have been told of."""
    holds_input: bool = True
    """Whether the channels that take the input hold it as it was given."""
    plain: frozenset[str] = frozenset()
    """Channels that show what is stored of them as it is, and that have a value if anything is."""
    shows_plainly: bool = False
    """Whether all that snapshots show is so."""
    standing: frozenset[str] = frozenset()
    """Nodes with a trigger that may have a value without one being stored."""
    has_graphs: bool = False
    """Whether some node is a graph."""
    by_path: dict[str, Node] = field(default_factory=dict)
    """Path of a node's own tasks as text -> the node, where a task that is stored was due for whoever looks, too."""

    def __post_init__(self) -> None:
        triggered: dict[str, list[str]] = {}
        for node in self.nodes.values():
            node.pull_path = path_str((PULL, node.name))
            for trigger in node.triggers:
                triggered.setdefault(trigger, []).append(node.name)
        self.triggered_by = {channel: tuple(sorted(names)) for channel, names in triggered.items()}
        self.starting = frozenset((*triggered, TASKS))
        kinds = {name: type(channel) for name, channel in self.channels.items()}
        self.fading = frozenset(
            name for name, kind in kinds.items() if issubclass(kind, _FADING) or kind not in _STEADY + _FINISHING
        )
        self.made_at_once = tuple(name for name in kinds if name not in self.made_when_written)
        self.consuming = frozenset(name for name, kind in kinds.items() if kind.consume is not BaseChannel.consume)
        self.handles_errors = any(node.handler is not None for node in self.nodes.values())
        self.deltas = tuple(name for name, kind in kinds.items() if issubclass(kind, DeltaChannel))
        self.reducers = tuple(
            n for n, kind in kinds.items() if issubclass(kind, DeltaChannel | BinaryOperatorAggregate)
        )
        self.reducers_are_foreign = any(_is_foreign(self.channels[name]) for name in self.reducers)
        taking = (self.input_channels,) if isinstance(self.input_channels, str) else self.input_channels
        self.holds_input = all(issubclass(kinds.get(name, LastValue), _HOLDING) for name in taking)
        self.untracked = frozenset(name for name, kind in kinds.items() if issubclass(kind, UntrackedValue))
        self.is_steady = not self.untracked and all(kind in _KNOWN for kind in kinds.values())
        self.is_brief = not (self.reducers_are_foreign or self.untracked or self.deltas) and all(
            map(_is_usual, (*self.channels, *self.nodes))
        )
        stored = {name for name, kind in kinds.items() if kind in _KNOWN and name not in self.untracked}
        # Beside a hidden node there may be others that left nothing; but where the input is handed out, it is alone.
        self.by_path = {
            node.pull_path: node
            for node in self.nodes.values()
            if stored.issuperset(node.triggers) and (not node.hidden or node.name == START)
        }
        self.plain = frozenset(
            name for name, kind in kinds.items() if (kind.from_checkpoint, kind.peek, kind.is_available) == _AS_STORED
        )
        self.shows_plainly = not isinstance(self.stream_channels, str) and all(
            name in self.plain and not self.channels[name].is_available() for name in self.stream_channels
        )
        lasting = {name for name, spec in self.channels.items() if name in self.deltas or spec.is_available()}
        self.standing = frozenset(node.name for node in self.nodes.values() if not lasting.isdisjoint(node.triggers))
        self.has_graphs = any(node.graph is not None for node in self.nodes.values())
        self.finishing = tuple(
            name for name, kind in kinds.items() if issubclass(kind, _FINISHING) or kind not in _STEADY + _FADING
        )


def _is_usual(name: str) -> bool:
    """Whether no saver can have anything against a name."""
    try:
        return not name.startswith("\0") and bool(name.encode())
    except UnicodeEncodeError:
        return False


def _is_foreign(channel: Any) -> bool:
    fold = channel.reducer if isinstance(channel, DeltaChannel) else channel.operator
    return str(getattr(fold, "__module__", "")).partition(".")[0] not in ("_operator", "builtins", "threadmark")


class State:
    """The live channels of a run with their versions. ``apply`` is the only thing that changes one."""

    __slots__ = ("channels", "held", "looked", "moved", "seen", "stored", "top", "unknown", "versions")

    def __init__(
        self,
        plan: Plan,
        values: Mapping[str, Any],
        versions: Mapping[str, Any],
        seen: Mapping[str, Mapping[str, Any]],
    ) -> None:
        get, specs = values.get, plan.channels
        self.channels = channels = {name: specs[name].from_checkpoint(get(name, MISSING)) for name in plan.made_at_once}
        """Those that a run begins without a value are made when they are first written."""
        for name in values.keys() & plan.made_when_written:
            channels[name] = specs[name].from_checkpoint(values[name])
        self.versions = dict(versions)
        self.seen: dict[str, Mapping[str, Any]] = dict(seen)
        self.top = max(self.versions.values()) if self.versions else None
        self.held = {name for name in plan.fading & channels.keys() if channels[name].is_available()}
        self.unknown = {name: value for name, value in values.items() if name not in specs}
        """Stored channels that the graph does not have (any more): carried on untouched."""
        for name in [name for name in self.unknown if name.startswith(BRANCH_TO)]:
            del self.unknown[name]  # a trigger lasts one superstep, whether or not its node is there
            self.versions.pop(name, None)
        self.stored: dict[str, Any] | None = None
        """What the last checkpoint of this run holds of the channels; None before the first."""
        self.moved: set[str] = set()
        """Channels whose version has moved since the last stored checkpoint."""
        self.looked: set[str] = set()
        """Names under which something was seen since then."""

    def candidates(self, plan: Plan) -> list[str]:
        """The nodes that may be due when it is not known what has changed, in the order of the plan."""
        return nodes_behind(plan, self.channels)


def nodes_behind(plan: Plan, channels: Iterable[str], also: Iterable[str] = ()) -> list[str]:
    """The nodes that these channels trigger, and some others, in the order of the plan: of a chain of fifty few."""
    triggered_by = plan.triggered_by
    names = {name for channel in channels if channel in triggered_by for name in triggered_by[channel]}.union(also)
    return [name for name in plan.nodes if name in names] if len(names) > 1 else list(names)


def due(
    plan: Plan, state: State, updated: Iterable[str] | None
) -> tuple[list[tuple[Node, tuple[str, ...]]], list[tuple[int, Send]]]:
    """The tasks of the next superstep: nodes to pull, and packets to push (spec 3.4).

    ``updated`` are the channels that the last superstep changed; None when that is not known, and every node is
    asked. PUSH tasks come first in the task list; they are numbered by their place in the topic.
    """
    names: list[str]
    if updated is None:
        names = state.candidates(plan)
    else:
        names, triggered_by = [], plan.triggered_by
        for channel in updated:
            if channel in triggered_by:
                names += triggered_by[channel]
        if len(names) > 1:
            names = sorted(set(names))
    nodes, pull = plan.nodes, []
    for name in names:
        node = nodes[name]
        if _triggered(node, state):
            pull.append((node, node.triggers))
    topic = state.channels.get(TASKS)
    packets = topic.peek() if topic is not None else MISSING
    return pull, list(enumerate(packets)) if packets is not MISSING else []


def _triggered(node: Node, state: State) -> bool:
    seen = state.seen.get(node.name)
    for trigger in node.triggers:
        version = state.versions.get(trigger)
        if version is None:  # a value that a channel has by itself starts nothing
            continue
        last = seen.get(trigger) if seen is not None else None
        if last is None or version > last:
            channel = state.channels.get(trigger)
            if channel is not None and channel.is_available():
                return True
    return False


def read_all(channels: Mapping[str, BaseChannel[Any, Any, Any]], keys: str | Sequence[str]) -> Any:
    """The value of one channel (None when empty), or a dict of those that have one."""
    if isinstance(keys, str):
        value = channels[keys].peek()
        return None if value is MISSING else value
    return {key: value for key in keys if (value := channels[key].peek()) is not MISSING}


class Overlay(dict[str, Any]):
    """Channels with some of them put over others, without a copy of all."""

    __slots__ = ("below",)

    def __init__(self, below: Mapping[str, Any]) -> None:
        self.below = below

    def __missing__(self, key: str) -> Any:
        return self.below[key]


def with_writes(channels: Mapping[str, BaseChannel[Any, Any, Any]], writes: Writes) -> Mapping[str, Any]:
    """The channels as they would be with ``writes`` applied; those given stay as they are."""
    grouped: dict[str, list[Any]] = {}
    for name, value in writes:
        if name in channels:
            grouped.setdefault(name, []).append(value)
    if not grouped:
        return channels
    view = Overlay(channels)
    for name, values in grouped.items():
        view[name] = channels[name].copy()
        view[name].update(values)
    return view


PUSH_TRIGGERS = (PUSH,)
