"""What a running node can reach: context, store, stream writer (spec 2.3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from threadmark.types import CURRENT, StreamWriter

ContextT = TypeVar("ContextT")


def _no_op(_: Any = None) -> None:
    """What there is nobody to hear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """Where a node runs: ids of its checkpoint, task, thread and run, and which attempt this is."""

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None

    def patch(self, **changes: Any) -> ExecutionInfo:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Where a graph is served from, as the server says in ``config["configurable"]``."""

    assistant_id: str
    """Empty when it was not said."""
    graph_id: str
    """Empty when it was not said."""
    user: Any = None
    """The object under ``langgraph_auth_user``, if it has an ``identity``."""


class RunControl:
    """A handle to stop a run between two supersteps, from another thread or task (spec 4.4)."""

    __slots__ = ("_event", "_reason")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop before its next superstep; it raises ``GraphDrained`` and can be resumed."""
        self._reason = reason
        self._event.set()

    @property
    def drain_requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._event.is_set()

    @property
    def drain_reason(self) -> str | None:
        """Why."""
        return self._reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """Injected into a node that has a ``runtime`` parameter; everything here is for this run alone."""

    context: ContextT = field(default=None)  # type: ignore[assignment]
    """What the caller passed as ``context=``, in the form of the graph's ``context_schema``."""
    store: Any = None
    """The graph's long-term store, if it was compiled with one."""
    stream_writer: StreamWriter = field(default=_no_op)
    """Emits to the ``custom`` stream."""
    heartbeat: Callable[[], None] = field(default=_no_op)
    """A sign of life, for a node with an idle timeout."""
    previous: Any = None
    """What the entrypoint saved on this thread the last time (functional API)."""
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None

    def merge(self, other: Runtime[Any]) -> Runtime[Any]:
        """This runtime with what ``other`` has set put over it."""
        chosen = {
            name: getattr(other, name)
            for name in self.__dataclass_fields__
            if getattr(other, name) is not None and getattr(other, name) is not _no_op
        }
        return replace(self, **chosen)

    def override(self, **changes: Any) -> Runtime[Any]:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def drain_requested(self) -> bool:
        """Whether this run was asked to stop before its next superstep."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why it was asked to stop."""
        return self.control.drain_reason if self.control is not None else None


DEFAULT_RUNTIME: Runtime[Any] = Runtime()


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The runtime of the node that runs in this context; ``RuntimeError`` outside of one.

    ``context_schema`` only serves the type checker.
    """
    task: Any = CURRENT.get()
    if task is None:
        raise RuntimeError("get_runtime() belongs to a running node; there is none in this context")
    return task.runtime  # type: ignore[no-any-return]


__all__ = ["ExecutionInfo", "RunControl", "Runtime", "ServerInfo", "get_runtime"]
