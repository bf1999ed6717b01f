"""Opening the saver under test, in whatever form its maker has written that down."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

__all__ = ["Registered", "checkpointer_test", "load", "opened", "registered"]


@dataclass(frozen=True)
class Registered:
    """A saver to be tested: its name, and how to open a fresh one on an empty store."""

    name: str
    factory: Callable[[], Any]
    skip_capabilities: frozenset[str] = frozenset()
    lifespan: Callable[[], Any] | None = None

    def __call__(self) -> Any:
        """What the factory gives: a saver, a context manager or a generator that yields one."""
        return self.factory()


def checkpointer_test(
    name: str, *, skip_capabilities: Collection[str] | None = None, lifespan: Callable[[], Any] | None = None
) -> Callable[[Callable[[], Any]], Registered]:
    """Register a factory of savers under a name.

    Args:
        name: Shown in the report.
        skip_capabilities: Capabilities that are not asked for although the saver has them.
        lifespan: A function, or generator function of either colour, that is entered once around everything.

    The decorated function is called for every check and must open a saver on an empty store. It may return it, yield
    it (plain or async), or return a context manager of either colour.
    """

    def register(factory: Callable[[], Any]) -> Registered:
        return Registered(name, factory, frozenset(skip_capabilities or ()), lifespan)

    return register


def registered(target: Any) -> Registered:
    """``target`` as something registered: a plain factory or saver class gets its own name."""
    if isinstance(target, Registered):
        return target
    if not callable(target):
        raise TypeError(f"a factory of savers is wanted, not {target!r}; pass a function that opens a fresh saver")
    return Registered(getattr(target, "__name__", type(target).__name__), target)


def load(name: str) -> Registered:
    """The factory that ``package.module:name`` says; ValueError if there is none."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(f"{name!r} names no factory; write it as package.module:name")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module} has no {attribute}; name a function or class that opens a fresh saver")
        found = getattr(found, part)
    return registered(found)


@asynccontextmanager
async def opened(factory: Callable[[], Any]) -> AsyncIterator[Any]:
    """What a factory gives, entered: a saver, or None from a lifespan that yields nothing."""
    made = factory()
    if inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
        made = await made
    if inspect.isasyncgen(made):
        try:
            yield await anext(made)
        finally:
            async for _ in made:
                raise RuntimeError("a factory must yield exactly once")
    elif inspect.isgenerator(made):
        try:
            yield next(made)
        finally:
            for _ in made:
                raise RuntimeError("a factory must yield exactly once")
    elif hasattr(made, "__aenter__"):
        async with made as saver:
            yield saver
    else:
        with made if hasattr(made, "__enter__") else nullcontext(made) as saver:
            yield saver
