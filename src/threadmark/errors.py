"""Every error that Threadmark raises on purpose, under one root (spec 14).

Families by who acts: the caller mends the call (``GraphError`` and its kin), the operator or a retry mends the
storage (``SaverError``), and the control-flow signals (``GraphBubbleUp``) never reach a caller unless nothing
above them can answer.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ColourError",
    "DamagedRow",
    "EmptyChannelError",
    "EmptyInputError",
    "ErrorCode",
    "ForeignDatabase",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphInterrupt",
    "GraphRecursionError",
    "HeadMoved",
    "InvalidUpdateError",
    "MissingChannelError",
    "MissingNodeError",
    "MissingThreadId",
    "NodeCancelledError",
    "NodeError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "ParentCommand",
    "SaverError",
    "TaskNotFound",
    "ThreadNotFound",
    "ThreadmarkError",
    "Unavailable",
    "UnfinishedPrune",
    "UnknownInterruptError",
    "create_error_message",
]


class ThreadmarkError(Exception):
    """Root of everything Threadmark raises on purpose."""


class ErrorCode(enum.Enum):
    """Stable codes that stand in the message of the errors people meet most."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


def create_error_message(*, message: str, error_code: ErrorCode) -> str:
    """The message with its code behind it, so that people can look it up."""
    return f"{message} [{error_code.value}]"


# -- the caller mends the call ---------------------------------------------------------------------------------


class ColourError(ThreadmarkError, RuntimeError):
    """A blocking call met something that only an event loop can do; the message names what to use instead."""


class EmptyChannelError(ThreadmarkError):
    """A channel was read before anything was written to it."""


class EmptyInputError(ThreadmarkError):
    """There is nothing to run: no input, and no stored run to go on with (spec 3.3)."""


class InvalidUpdateError(ThreadmarkError):
    """An update that the state cannot take (spec 14)."""


class GraphRecursionError(ThreadmarkError, RecursionError):
    """The run needed more supersteps than ``recursion_limit`` allows (spec 3.2)."""


class MissingNodeError(ThreadmarkError):
    """A stored task names a node that this graph does not have."""

    def __init__(self, node: str, known: Sequence[str], *, what: str = "a pending task") -> None:
        super().__init__(
            f"the stored thread has {what} for node {node!r}, which this graph does not have "
            f"(its nodes: {', '.join(sorted(known)) or 'none'}); add the node back, move the thread on with "
            f"update_state(..., as_node=...), or start it afresh with new input"
        )
        self.node = node


class MissingChannelError(ThreadmarkError):
    """A stored write is for a state key that this graph does not have."""

    def __init__(self, channel: str, node: str) -> None:
        super().__init__(
            f"the stored thread holds a write of node {node!r} to {channel!r}, which is no key of this graph's state "
            f"(any more); add the key back, move the thread on with update_state(..., as_node=...), or start it "
            f"afresh with new input"
        )
        self.channel = channel
        self.node = node


class MissingThreadId(ThreadmarkError, KeyError, ValueError):
    """A saver is in force but the config names no thread."""

    def __init__(self) -> None:
        super().__init__(
            "thread_id: a graph with a checkpointer needs to know its thread; "
            'pass config={"configurable": {"thread_id": "..."}}'
        )

    def __str__(self) -> str:
        return str(self.args[0])


class TaskNotFound(ThreadmarkError):
    """The executor was asked for a task that the graph does not have."""


class UnknownInterruptError(ThreadmarkError, RuntimeError):
    """An answer that belongs to no open question; nothing was stored.

    ``reason`` is ``"not_pending"`` (an id that names no open question, or no question is open), ``"empty_map"``
    or ``"ambiguous"`` (one bare answer, several open questions). ``pending_ids`` are the open questions.
    """

    def __init__(
        self, message: str, *, reason: str, interrupt_ids: Sequence[str] = (), pending_ids: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


# -- what nodes and runs report ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler is given: the failed node and its error (spec 4.3).

    ``error`` is the exception itself, or its repr when the run was resumed from storage.
    """

    node: str
    error: Any


class NodeCancelledError(ThreadmarkError):
    """The body of a node raised ``asyncio.CancelledError`` itself (spec 4.1)."""

    def __init__(self, node: str) -> None:
        super().__init__(f"node {node!r} raised CancelledError itself; a run is cancelled from outside, not by a node")
        self.node = node


class NodeTimeoutError(ThreadmarkError):
    """A node ran, or stayed idle, longer than its ``timeout`` (spec 4.4).

    Not a builtin ``TimeoutError``, so that the default retry rule retries it. Times are in seconds.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: str = "run",
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        limit = idle_timeout if kind == "idle" else run_timeout
        super().__init__(f"node {node!r} exceeded its {kind} timeout of {limit} s (after {elapsed:.3f} s)")
        self.node = node
        self.kind = kind
        self.elapsed = elapsed
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout
        self.timeout = limit


# -- control flow --------------------------------------------------------------------------------------------------


class GraphBubbleUp(ThreadmarkError):
    """Base of the signals that travel from a node to the run or its parent."""


class GraphInterrupt(GraphBubbleUp):
    """A node asks a question; its single argument is the sequence of ``Interrupt`` objects."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(interrupts)


class NodeInterrupt(GraphInterrupt):
    """Raised by a node to pause with a bare value. Kept for old programs; use ``interrupt()``."""

    def __init__(self, value: Any, id: str | None = None) -> None:
        from threadmark.types import Interrupt

        super().__init__((Interrupt(value=value) if id is None else Interrupt(value=value, id=id),))


class GraphDrained(GraphBubbleUp):
    """The run stopped between two supersteps because it was asked to (spec 4.4)."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(f"drained: {reason}" if reason else "drained")
        self.reason = reason


class ParentCommand(GraphBubbleUp):
    """A ``Command`` that is addressed to an enclosing graph (spec 7.6)."""

    def __init__(self, command: Any) -> None:
        super().__init__(command)


# -- storage ---------------------------------------------------------------------------------------------------------


class SaverError(ThreadmarkError):
    """Base of what savers raise."""


class ThreadNotFound(SaverError, LookupError):
    """No checkpoint has been saved for this thread."""

    def __init__(self, thread_id: str, ns: str = "") -> None:
        super().__init__(f"no checkpoint for thread {thread_id!r} in namespace {ns!r}")
        self.thread_id = thread_id
        self.ns = ns


class ForeignDatabase(SaverError):
    """The database holds something that Threadmark did not make; nothing was written to it."""


class DamagedRow(SaverError):
    """A stored row is not what was written."""


class Unavailable(SaverError):
    """The store could not be reached or was too busy; the same call may be tried again."""


class HeadMoved(SaverError):
    """Another writer has put a checkpoint on this thread since this run read it.

    ``expected`` and ``found`` are checkpoint ids, None for an empty thread.
    """

    def __init__(self, thread_id: str, ns: str, expected: str | None, found: str | None) -> None:
        super().__init__(
            f"thread {thread_id!r} (namespace {ns!r}) moved while this run was on it: its newest checkpoint is "
            f"{found!r}, this run built on {expected!r}; nothing of this step was stored, run again from the new head"
        )
        self.expected = expected
        self.found = found


class UnfinishedPrune(SaverError):
    """A thread could not be pruned; those before it are done, it and those after it are as they were.

    ``report`` says what was done. Calling again goes on: with the threads from ``thread_id`` on, or with the same runs.
    """

    def __init__(
        self, thread_id: str, report: Any, cause: Exception, *, again: str = "from this one on or with all of them"
    ) -> None:
        done = [each.thread_id for each in report.threads]
        told = ", ".join(map(repr, done[-3:])) if done else "none"
        super().__init__(
            f"thread {thread_id!r} could not be pruned and is as it was: {cause}. Before it {len(done)} were done "
            f"({'..., ' if len(done) > 3 else ''}{told}); call again, {again}"
        )
        self.thread_id = thread_id
        self.report = report
