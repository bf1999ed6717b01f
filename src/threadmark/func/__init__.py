"""The functional API: workflows as plain functions, whose tasks are remembered (spec 15)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar, get_args, get_origin, overload

from threadmark.channels import EphemeralValue, LastValue
from threadmark.checkpoint.serde.allow import types_in
from threadmark.constants import END, START
from threadmark.engine.caching import namespace_of
from threadmark.engine.call import call_of
from threadmark.engine.calls import call, node_of
from threadmark.engine.names import PREVIOUS
from threadmark.engine.plan import Node, Plan, Writes
from threadmark.engine.revive import allowing
from threadmark.engine.task import Task
from threadmark.func.workflow import CompiledWorkflow
from threadmark.graph.branch import function_hints
from threadmark.types import CURRENT, CachePolicy, RetryPolicy, TimeoutPolicy

R = TypeVar("R")
S = TypeVar("S")
RetryArg = RetryPolicy | Sequence[RetryPolicy] | None

TASK_TYPES: set[type] = set()
"""Classes that the annotations of ``@task`` functions name: entrypoints may revive them."""


class TaskFunction:
    """A function whose calls inside a workflow are tasks: remembered, retried and streamed."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None,
        retry: Sequence[RetryPolicy],
        cache: CachePolicy[Any] | None,
        timeout: TimeoutPolicy | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        self.name = str(name or getattr(inner, "__name__", type(inner).__name__))
        self.cache_policy = cache
        is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        if timeout is not None and not is_async:
            raise ValueError(
                f"Timeouts are only supported for async nodes and tasks; {self.name!r} is a plain function"
            )
        self.node = node_of(function, self.name, is_async=is_async, retry=retry, cache=cache, timeout=timeout)
        TASK_TYPES.update(*(types_in(hint) for hint in function_hints(function).values()))

    def clear_cache(self, cache: Any) -> None:
        """Forget the outputs of this task that ``cache`` keeps."""
        cache.clear([namespace_of(self.node)])

    async def aclear_cache(self, cache: Any) -> None:
        """The same as ``clear_cache`` on the running event loop."""
        await cache.aclear([namespace_of(self.node)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Start the task; a future of its result: ``.result()`` in plain functions, ``await`` in async ones.

        Raises ``RuntimeError`` outside of a running workflow or node.
        """
        current: Any = CURRENT.get()
        if not isinstance(current, Task):
            raise RuntimeError(f"task {self.name!r} can only be called inside an entrypoint, a node or another task")
        return call(current, self.node, args, kwargs)


@overload
def task(function: Callable[..., Any], /) -> TaskFunction: ...
@overload
def task(
    function: None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryArg = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Callable[[Callable[..., Any]], TaskFunction]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryArg = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Any:
    """Make a function a task. Its result is stored when it ends, and it does not run again on resume.

    Args:
        function: The function, sync or async; or nothing, to pass options.
        name: What streams call it; by default the function's name.
        retry_policy: One, or several of which the first that fits counts.
        cache_policy: When a stored output may stand in for a call.
        timeout: Seconds, or a policy; for async functions.
    """
    policies = (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy or ())

    def decorate(target: Callable[..., Any]) -> TaskFunction:
        return TaskFunction(
            target, name=name, retry=policies, cache=cache_policy, timeout=TimeoutPolicy.coerce(timeout)
        )

    return decorate if function is None else decorate(function)


class entrypoint:
    """Make a function a workflow: a graph with one node, whose return value is the output.

    Args:
        checkpointer: A saver: results of tasks and what was saved last are kept per thread.
        store: Long-term memory, injected.
        cache: Where outputs of tasks with a ``cache_policy`` are kept.
        context_schema: The form of ``runtime.context``.
        cache_policy: When a stored output may stand in for a run of the whole.
        retry_policy: How the whole is tried again.
        timeout: Seconds, or a policy; for async workflows.
    """

    @dataclass(frozen=True, slots=True)
    class final(Generic[R, S]):
        """Return ``value`` to the caller and keep ``save`` for the next call on this thread, as ``previous``."""

        value: R
        save: S

    def __init__(
        self,
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        context_schema: Any = None,
        cache_policy: CachePolicy[Any] | None = None,
        retry_policy: RetryArg = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> None:
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.context_schema = context_schema
        self.cache_policy = cache_policy
        self.retry_policy = (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy or ())
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __call__(self, function: Callable[..., Any]) -> CompiledWorkflow:
        """The workflow as a compiled graph.

        Raises ``NotImplementedError`` for generators and ``ValueError`` for a function without a parameter.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise NotImplementedError(
                "Generators are not supported in the Functional API; use the stream writer to emit what comes early"
            )
        if not inspect.signature(function).parameters:
            raise ValueError("Entrypoint function must have at least one parameter")
        name = function.__name__
        chosen = call_of(function)
        if self.timeout is not None and chosen.async_ is None:
            raise ValueError(f"Timeouts are only supported for async nodes and workflows; {name!r} is a plain function")
        plan = self._plan(name, chosen, function)
        own = {kind for hint in function_hints(function).values() for kind in types_in(hint)} | TASK_TYPES
        saver, cache = allowing(self.checkpointer, own), allowing(self.cache, own)
        graph = CompiledWorkflow(plan, checkpointer=saver, store=self.store, cache=cache, name=name)
        graph.builder = self
        graph.function = function
        return graph

    def _plan(self, name: str, chosen: Any, function: Callable[..., Any]) -> Plan:
        node = Node(
            name=name,
            call=chosen,
            triggers=(START,),
            read=lambda channels, run: channels[START].get(),
            update=_outcome,
            retry=self.retry_policy,
            cache=self.cache_policy,
            timeout=self.timeout,
        )
        output, saved = _returned_types(function)
        channels: dict[str, Any] = {
            START: EphemeralValue(object),
            END: LastValue(output),
            PREVIOUS: LastValue(saved),
        }
        for key, channel in channels.items():
            channel.key = key
        return Plan(
            name=name,
            nodes={name: node},
            channels=channels,
            input_channels=START,
            output_channels=END,
            stream_channels=END,
            context_schema=self.context_schema,
            calls_tasks=True,
        )


def _outcome(result: Any) -> Writes:
    if isinstance(result, entrypoint.final):
        return [(END, result.value), (PREVIOUS, result.save)]
    return [(END, result), (PREVIOUS, result)]


def _returned_types(function: Callable[..., Any]) -> tuple[Any, Any]:
    returned = function_hints(function).get("return", object)
    if returned is entrypoint.final:
        return object, object
    if get_origin(returned) is entrypoint.final:
        value, save = get_args(returned)
        return value, save
    return returned, returned


__all__ = ["entrypoint", "task"]
