"""Threadmark: graphs that survive. Every superstep of a run is a checkpoint (see README.md).

The names people use every day are here; each is imported when it is first asked for, so that
``import threadmark.graph`` pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadmark.channels import DeltaChannel
    from threadmark.checkpoint.base import BaseCheckpointSaver
    from threadmark.checkpoint.memory import InMemorySaver
    from threadmark.checkpoint.open import open_saver
    from threadmark.checkpoint.sqlite import SqliteSaver
    from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver
    from threadmark.config import RunnableConfig, get_config, get_store, get_stream_writer
    from threadmark.errors import EmptyInputError, GraphRecursionError, InvalidUpdateError, ThreadmarkError
    from threadmark.func import entrypoint, task
    from threadmark.graph import END, START, MessagesState, StateGraph, add_messages
    from threadmark.runtime import Runtime, get_runtime
    from threadmark.types import (
        CachePolicy,
        Command,
        Interrupt,
        Overwrite,
        RetryPolicy,
        Send,
        StateSnapshot,
        interrupt,
    )

    __version__: str

_HOMES = {
    "channels": ["DeltaChannel"],
    "checkpoint.base": ["BaseCheckpointSaver"],
    "checkpoint.memory": ["InMemorySaver"],
    "checkpoint.open": ["open_saver"],
    "checkpoint.sqlite": ["SqliteSaver"],
    "checkpoint.sqlite.aio": ["AsyncSqliteSaver"],
    "config": ["RunnableConfig", "get_config", "get_store", "get_stream_writer"],
    "errors": ["EmptyInputError", "GraphRecursionError", "InvalidUpdateError", "ThreadmarkError"],
    "func": ["entrypoint", "task"],
    "graph": ["END", "START", "MessagesState", "StateGraph", "add_messages"],
    "runtime": ["Runtime", "get_runtime"],
    "types": ["CachePolicy", "Command", "Interrupt", "Overwrite", "RetryPolicy", "Send", "StateSnapshot", "interrupt"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("threadmark")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'threadmark' has no attribute {name!r}")
    return getattr(import_module(f"threadmark.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})


__all__ = [
    "END",
    "START",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "CachePolicy",
    "Command",
    "DeltaChannel",
    "EmptyInputError",
    "GraphRecursionError",
    "InMemorySaver",
    "Interrupt",
    "InvalidUpdateError",
    "MessagesState",
    "Overwrite",
    "RetryPolicy",
    "RunnableConfig",
    "Runtime",
    "Send",
    "SqliteSaver",
    "StateGraph",
    "StateSnapshot",
    "ThreadmarkError",
    "__version__",
    "add_messages",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "open_saver",
    "task",
]
