"""What a callable wants besides the state, found out once (spec 2.3)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Optional

import pytest

from threadmark.config import RunnableConfig
from threadmark.config import RunnableConfig as Configuration
from threadmark.engine.call import InContext, call_of
from threadmark.runtime import Runtime
from threadmark.types import StreamWriter

if TYPE_CHECKING:
    from somewhere import Unknown


class FakeTask:
    """What injected values are taken from."""

    runtime = SimpleNamespace(stream_writer="writer", store="store", previous="previous")
    handled_error = "error"

    def config(self) -> str:
        return "config"


def plain(state):  # type: ignore[no-untyped-def]
    return (state,)


def ours(state: Any, config: RunnableConfig) -> Any:
    return (state, config)


def renamed(state: Any, config: Configuration) -> Any:
    return (state, config)


def optional(state: Any, config: Optional[RunnableConfig] = None) -> Any:  # noqa: UP045
    return (state, config)


def keyword_only(state: Any, *, config: RunnableConfig) -> Any:
    return (state, config)


def everything(  # type: ignore[no-untyped-def]
    state, config, runtime: Runtime[Any], writer: StreamWriter, store=None, previous=None, error=None
) -> Any:
    return (state, config, runtime.store, writer, store, previous, error)


def another_type(state: Any, config: int = 3, writer: str = "pen") -> Any:
    return (state, config, writer)


def unknown_type(state: Any, config: RunnableConfig, other: Unknown | None = None) -> Any:
    return (state, config)


def a_callable(state: Any, writer: Callable[[Any], None]) -> Any:
    return (state, writer)


def variadic(state: Any, *args: Any, **kwargs: Any) -> Any:
    return (state, args, kwargs)


def named_like_one(config: Any) -> Any:
    return (config,)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, ("s",)),
        (ours, ("s", "config")),
        (renamed, ("s", "config")),
        (optional, ("s", "config")),
        (keyword_only, ("s", "config")),
        (everything, ("s", "config", "store", "writer", "store", "previous", "error")),
        (another_type, ("s", 3, "pen")),
        (unknown_type, ("s", "config")),
        (a_callable, ("s", "writer")),
        (variadic, ("s", (), {})),
        (named_like_one, ("s",)),
        (functools.partial(ours), ("s", "config")),
        (functools.partial(another_type, writer="brush"), ("s", 3, "brush")),
        (len, 1),
        (str, "s"),
    ],
)
def test_what_a_callable_is_given(function: Any, expected: Any) -> None:
    call = call_of(function)
    assert call.sync is not None
    assert call.async_ is None
    assert call.sync("s", FakeTask()) == expected


class Object:
    def __call__(self, state: Any) -> Any:
        return (state,)


class AsyncObject:
    async def __call__(self, state: Any) -> Any:
        return (state,)


async def coroutine(state: Any) -> Any:
    return (state,)


@pytest.mark.parametrize(
    ("target", "name", "is_async"),
    [
        (plain, "plain", False),
        (Object(), "Object", False),
        (AsyncObject(), "AsyncObject", True),
        (coroutine, "coroutine", True),
        (functools.partial(coroutine), "coroutine", True),
        (functools.partial(functools.partial(plain)), "plain", False),
        (lambda state: state, "<lambda>", False),
        (Object().__call__, "__call__", False),
    ],
)
def test_names_and_colours(target: Any, name: str, is_async: bool) -> None:
    call = call_of(target)
    assert call.name == name
    assert (call.sync is None, call.async_ is None) == (is_async, not is_async)
    assert call.target is target


class Runnable:
    """What is no function, and is invoked in both colours."""

    name = "r"

    def invoke(self, value: Any, config: Any) -> Any:
        return ("sync", value, config)

    async def ainvoke(self, value: Any, config: Any) -> Any:
        return ("async", value, config)


async def test_what_is_invoked_keeps_both_colours() -> None:
    call = call_of(Runnable())
    assert call.name == "r"
    assert call.sync is not None
    assert call.async_ is not None
    assert call.sync("s", FakeTask()) == ("sync", "s", "config")
    assert await call.async_("s", FakeTask()) == ("async", "s", "config")


@pytest.mark.parametrize("thing", [None, 3, "text", {"a": 1}])
def test_what_cannot_be_called_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="must be a function"):
        call_of(thing)


async def test_steps_of_a_coroutine_run_in_their_own_context() -> None:
    import asyncio
    from contextvars import ContextVar, copy_context

    var: ContextVar[str] = ContextVar("var", default="outside")

    async def body() -> str:
        var.set("inside")
        await asyncio.sleep(0)
        with pytest.raises(KeyError):
            await failing()
        return var.get()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError

    assert await InContext(copy_context(), body()) == "inside"
    assert var.get() == "outside"


async def test_a_cancellation_reaches_a_coroutine_in_another_context() -> None:
    import asyncio
    from contextvars import copy_context

    seen = []

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def outer() -> None:
        await InContext(copy_context(), body())

    task = asyncio.ensure_future(outer())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
