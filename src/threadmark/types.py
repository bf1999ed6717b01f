"""The values people meet every day: commands, sends, interrupts, snapshots, policies (spec 2, 5, 6)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

from xxhash import xxh3_128_hexdigest

from threadmark.constants import START
from threadmark.errors import GraphInterrupt

if TYPE_CHECKING:
    from typing import Protocol

    class _CurrentTask(Protocol):
        def ask(self, value: Any, response_schema: Any) -> Any: ...

        def config(self) -> Any: ...


N = TypeVar("N", bound=Hashable)
KeyFuncT = TypeVar("KeyFuncT", bound=Callable[..., str | bytes])

All: TypeAlias = Literal["*"]
"""Every node, for ``interrupt_before`` and ``interrupt_after``."""
Checkpointer: TypeAlias = Any
"""A saver; True (a sub-graph that keeps its own state on the thread); False (none); None (the parent's)."""
Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a checkpoint is on disk: before the next superstep, in the background, or only at the end (spec 9)."""
StreamMode: TypeAlias = Literal["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"]
StreamWriter: TypeAlias = Callable[[Any], None]
"""Emits one item of the ``custom`` stream."""

CURRENT: ContextVar[_CurrentTask | None] = ContextVar("threadmark_task", default=None)
"""The task whose node runs in this context. It lives here so that ``interrupt()`` can reach it."""


def default_retry_on(exc: Exception) -> bool:
    """Whether an error looks passing: connection errors, 5xx answers, and what is no programming error (spec 4.2)."""
    if isinstance(exc, ConnectionError):
        return True
    for module, name in (("httpx", "HTTPStatusError"), ("requests", "HTTPError")):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(exc, kind):
            response = exc.response
            return response is None or 500 <= int(response.status_code) < 600
    return not isinstance(
        exc,
        (
            ValueError,
            TypeError,
            ArithmeticError,
            ImportError,
            LookupError,
            NameError,
            SyntaxError,
            RuntimeError,
            ReferenceError,
            StopIteration,
            StopAsyncIteration,
            OSError,
        ),
    )


class RetryPolicy(NamedTuple):
    """How a failed node is tried again (spec 4.2). Times are in seconds."""

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    """Attempts in all, the first included."""
    jitter: bool = True
    """Add up to one second at random, so that many nodes do not return at once."""
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on


@dataclass(frozen=True, slots=True)
class TimeoutPolicy:
    """How long a node may run, or stay without a sign of life (spec 4.4). Numbers are seconds."""

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @staticmethod
    def coerce(value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """A policy from what ``timeout=`` takes; ValueError when a limit is not positive."""
        if value is None:
            return None
        policy = value if isinstance(value, TimeoutPolicy) else TimeoutPolicy(run_timeout=value)
        for limit in (policy.run_timeout, policy.idle_timeout):
            if limit is not None and seconds(limit) <= 0:
                raise ValueError(f"timeouts must be greater than 0, not {limit!r}")
        return policy


def seconds(value: float | timedelta) -> float:
    """A duration as a number of seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _default_cache_key(*args: Any, **kwargs: Any) -> str | bytes:
    import pickle

    return pickle.dumps((args, kwargs), protocol=5)


@dataclass(kw_only=True, slots=True)
class CachePolicy(Generic[KeyFuncT]):
    """How a node's output is kept and found again (spec 15)."""

    key_func: KeyFuncT = _default_cache_key  # type: ignore[assignment]
    """Makes the key out of the node's input; only its output is compared, it is never loaded."""
    ttl: int | None = None
    """Seconds an entry lives; None for ever."""


@dataclass(slots=True, init=False)
class Interrupt:
    """A question that a node asked with ``interrupt()`` (spec 5.2)."""

    value: Any
    id: str
    response_schema: Any = None

    def __init__(self, value: Any, id: str = "placeholder-id", response_schema: Any = None, **legacy: Any) -> None:
        unknown = legacy.keys() - {"resumable", "ns", "when", "interrupt_id"}
        if unknown:
            raise TypeError(f"Interrupt() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        ns = legacy.get("ns")
        if id == "placeholder-id":
            if ns:
                id = xxh3_128_hexdigest(("|".join(ns) if not isinstance(ns, str) else ns).encode())
            elif legacy.get("interrupt_id"):
                id = legacy["interrupt_id"]
        self.value = value
        self.id = id
        self.response_schema = response_schema

    def __hash__(self) -> int:
        return hash(self.id)

    @classmethod
    def from_ns(cls, value: Any, ns: str, response_schema: Any = None) -> Interrupt:
        """The question of the task whose namespace is ``ns``."""
        return cls(value=value, id=xxh3_128_hexdigest(ns.encode()), response_schema=response_schema)


class Send:
    """A task for ``node`` with its own input ``arg``, scheduled for the next superstep (spec 2.4)."""

    __slots__ = ("arg", "node", "timeout")

    node: str
    arg: Any
    timeout: TimeoutPolicy | None

    def __init__(self, /, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None) -> None:
        self.node = node
        self.arg = arg
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __hash__(self) -> int:
        return hash((self.node, repr(self.arg)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Send)
            and self.node == other.node
            and self.arg == other.arg
            and self.timeout == other.timeout
        )

    def __repr__(self) -> str:
        tail = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{tail})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command(Generic[N]):
    """Update the state, answer questions and say where to go, in one (spec 2.5, 5.4)."""

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"
    """``graph=Command.PARENT`` addresses the enclosing graph."""

    graph: str | None = None
    """None for this graph, ``Command.PARENT``, or the name of an enclosing one."""
    update: Any | None = None
    resume: dict[str, Any] | Any | None = None
    """One answer, or a dict of interrupt id -> answer."""
    goto: Send | Sequence[Send | N] | N = ()

    def __repr__(self) -> str:
        shown = ((f.name, getattr(self, f.name)) for f in fields(self))
        return f"Command({', '.join(f'{name}={value!r}' for name, value in shown if value)})"

    def _update_as_tuples(self) -> Sequence[tuple[str, Any]]:
        """The update as (key, value) pairs; a value without keys goes to the single-value channel."""
        update = self.update
        if isinstance(update, dict):
            return list(update.items())
        if isinstance(update, (list, tuple)) and all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in update
        ):
            return cast("Sequence[tuple[str, Any]]", update)
        if update is not None and (names := annotated_fields(type(update))):
            return changed_fields(update, names)
        return [("__root__", update)] if update is not None else []


def annotated_fields(kind: type) -> list[str]:
    """Names of the annotated fields of a class, inherited ones included; empty for builtin values."""
    if kind.__module__ == "builtins":
        return []
    try:
        return list(get_type_hints(kind))
    except (NameError, TypeError, AttributeError):
        return [name for base in reversed(kind.__mro__) for name in vars(base).get("__annotations__", ())]


def changed_fields(value: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """What an object says about the state: each field that it has, by name (spec 2.1).

    Of a pydantic model those are left out that nobody set and whose default is None: "nothing" is not news.
    """
    if hasattr(value, "model_fields_set"):
        names = [name for name in names if _said_by_model(value, name)]
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _said_by_model(value: Any, name: str) -> bool:
    if name in value.model_fields_set or getattr(value, name, None) is not None:
        return True
    known = type(value).model_fields.get(name)
    return known is not None and known.default is not None


class _DeltaSnapshot(NamedTuple):
    """The whole value of a delta channel, where a checkpoint holds one (spec 8.2)."""

    value: Any


_DeltaSnapshot.__module__ = "threadmark.checkpoint.serde.types"  # where people import it from, and stored bytes name it


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Puts ``value`` in place of what a reducer has gathered (spec 2.2)."""

    value: Any


class StateUpdate(NamedTuple):
    """One update of ``bulk_update_state`` (spec 6.3)."""

    values: dict[str, Any] | None
    as_node: str | None = None
    task_id: str | None = None


class PregelTask(NamedTuple):
    """A task of a snapshot (spec 6.1)."""

    id: str
    name: str
    path: tuple[str | int | tuple[Any, ...], ...]
    error: Exception | str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    """None, the config of the task's sub-graph, or its StateSnapshot."""
    result: Any | None = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint (spec 6.1)."""

    values: dict[str, Any] | Any
    next: tuple[str, ...]
    """Nodes still to run; empty when the run has finished."""
    config: Any
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: Any | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """What ``invoke(version="v2")`` returns (spec 5.2)."""

    value: Any
    interrupts: tuple[Interrupt, ...] = ()

    def __getitem__(self, key: str) -> Any:
        if key == "__interrupt__":
            return self.interrupts
        return self.value[key]

    def __contains__(self, key: object) -> bool:
        return key == "__interrupt__" or (isinstance(self.value, Mapping) and key in self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKey:
    """Where a node's output is kept in a cache."""

    ns: tuple[str, ...]
    key: str
    ttl: int | None = field(default=None)


def interrupt(value: Any, response_schema: Any = None) -> Any:
    """Ask for an answer: pause the run here, and return the answer when it is resumed (spec 5.2, 5.3).

    The node starts again from its first line when it is resumed, so what stands before this call runs again. Several
    calls in one node are matched to their answers by order. The signal is an exception: a bare ``except`` around
    this call swallows it.

    Args:
        value: What to show to whoever answers; any serializable value.
        response_schema: A pydantic model, TypedDict or dataclass: the answer is validated by it, and returned in its
            form. A dict (JSON schema) is only shown.

    Raises:
        GraphInterrupt: caught by the run.
        RuntimeError: outside a node.
    """
    task = CURRENT.get()
    if task is None:
        raise RuntimeError("interrupt() asks on behalf of a running node; there is none in this context")
    return task.ask(value, response_schema)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether ``error`` says that an answer did not fit its question's ``response_schema`` (spec 5.3)."""
    return bool(getattr(error, "threadmark_invalid_resume", False))


__all__ = [
    "START",
    "All",
    "CacheKey",
    "CachePolicy",
    "Checkpointer",
    "Command",
    "Durability",
    "GraphInterrupt",
    "GraphOutput",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "TimeoutPolicy",
    "default_retry_on",
    "interrupt",
    "is_invalid_resume",
]
