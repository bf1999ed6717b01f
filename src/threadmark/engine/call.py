"""How a node is called: what it wants besides the state, found out once at compile time (spec 2.3)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

CONFIG_NAMES = ("RunnableConfig", "Optional[RunnableConfig]", "RunnableConfig | None")


def _is(annotation: Any, *names: str) -> bool:
    """Whether an annotation, evaluated or not, means one of the named types or is left out."""
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if not isinstance(annotation, str):
        text = " | ".join([text, *(getattr(arg, "__name__", "") for arg in getattr(annotation, "__args__", ()) or ())])
        text = f"{text} {annotation!r}"
    return any(name in text for name in names)


# Parameter name -> whether an annotation fits, and how the value is had from the task.
INJECTABLE: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any]]] = {
    "config": (lambda a: _is(a, "RunnableConfig"), lambda task: task.config()),
    "writer": (lambda a: _is(a, "StreamWriter", "Callable"), lambda task: task.runtime.stream_writer),
    "store": (lambda a: _is(a, "BaseStore", "Store"), lambda task: task.runtime.store),
    "runtime": (lambda a: True, lambda task: task.runtime),
    "previous": (lambda a: True, lambda task: task.runtime.previous),
    "error": (lambda a: _is(a, "NodeError"), lambda task: task.handled_error),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A callable as the engine uses it: ``sync`` and ``async_`` take (value, task); one of them may be missing."""

    sync: Callable[[Any, Any], Any] | None
    async_: Callable[[Any, Any], Any] | None
    name: str
    target: Any
    """What the user gave."""

    @property
    def func(self) -> Any:
        """What the user gave, under the name that people know."""
        return self.target


def call_of(target: Any, *, inject_first: bool = False) -> Call:
    """Look at a callable, a Runnable or a graph once. Raises ``TypeError`` for anything else.

    ``inject_first``: the first parameter may be injected too; for nodes it is the state.
    """
    name = getattr(target, "name", None) or getattr(target, "__name__", None) or type(target).__name__
    if hasattr(type(target), "invoke") and hasattr(type(target), "ainvoke"):
        if hasattr(target, "plan"):  # one of our graphs finds its parent by itself
            return Call(lambda v, _: target.invoke(v), lambda v, _: target.ainvoke(v), str(name), target)
        return Call(_invoke(target), _ainvoke(target), str(name), target)
    if not callable(target):
        raise TypeError(f"a node must be a function, a callable object, a Runnable or a graph, not {target!r}")
    body = target
    while isinstance(body, functools.partial):
        body = body.func
        name = getattr(body, "__name__", name)
    is_async = inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(type(body).__call__)
    wanted = wanted_by(target, inject_first=inject_first)
    bound = _bind(target, wanted)
    return Call(None if is_async else bound, bound if is_async else None, str(name), target)


def wanted_by(target: Any, *, inject_first: bool) -> dict[str, Callable[[Any], Any]]:
    """The parameters that are injected, each with how its value is had from the task."""
    try:
        parameters = list(_signature(target).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature takes the state alone
        return {}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not inject_first and parameters and parameters[0].kind in positional:
        parameters = parameters[1:]
    wanted = {}
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        rule = INJECTABLE.get(parameter.name)
        if rule is not None and rule[0](parameter.annotation):
            wanted[parameter.name] = rule[1]
    return wanted


def _signature(target: Any) -> inspect.Signature:
    """Annotations evaluated where they can be, so that a type imported under another name is known."""
    try:
        return inspect.signature(target, eval_str=True)
    except Exception:  # names that only a type checker sees
        return inspect.signature(target)


def _bind(target: Any, wanted: dict[str, Callable[[Any], Any]]) -> Callable[[Any, Any], Any]:
    if not wanted:
        return lambda value, task: target(value)
    if len(wanted) == 1:
        ((name, find),) = wanted.items()
        return lambda value, task: target(value, **{name: find(task)})
    pairs = tuple(wanted.items())
    return lambda value, task: target(value, **{name: find(task) for name, find in pairs})


def _invoke(target: Any) -> Callable[[Any, Any], Any]:
    return lambda value, task: target.invoke(value, task.config())


def _ainvoke(target: Any) -> Callable[[Any, Any], Any]:
    return lambda value, task: target.ainvoke(value, task.config())


class InContext:
    """Awaits a coroutine with each of its steps run inside ``context``, in the running asyncio task.

    A node sees a copied context without paying for a task of its own (one asyncio task costs about 6 us).
    """

    __slots__ = ("context", "coroutine")

    def __init__(self, context: Context, coroutine: Any) -> None:
        self.context = context
        self.coroutine = coroutine

    def __await__(self) -> Any:
        run, coroutine = self.context.run, self.coroutine
        value: Any = None
        step: Callable[[Any], Any] = coroutine.send
        while True:
            try:
                waiting = run(step, value)
            except StopIteration as stop:
                return stop.value
            try:
                value, step = (yield waiting), coroutine.send
            except GeneratorExit:
                run(coroutine.close)
                raise
            except BaseException as exc:  # a cancellation or error goes to where the coroutine waits
                value, step = exc, coroutine.throw


def is_awaitable(value: Any) -> bool:
    """Whether a plain function gave back a coroutine, as ``lambda state: node(state)`` does."""
    return inspect.iscoroutine(value)
