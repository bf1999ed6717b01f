"""A node as it is given to a graph: its function, what is read off it, and its policies."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from threadmark.engine.call import Call
from threadmark.graph.branch import function_hints
from threadmark.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy

RetryArg = RetryPolicy | Sequence[RetryPolicy] | None


@dataclass(slots=True, kw_only=True)
class NodeSpec:
    """A node as it was given to ``add_node``."""

    call: Call
    input_schema: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    defer: bool = False
    retry_policy: RetryArg = None
    cache_policy: CachePolicy[Any] | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: str | None = None
    is_error_handler: bool = False
    ends: tuple[str, ...] | Mapping[str, str] = ()
    """Where its commands may go; for drawings."""

    @property
    def runnable(self) -> Call:
        """What the node runs; ``.func`` is what was given."""
        return self.call


def inferred_name(action: Any) -> str:
    """The name of a node that was given without one."""
    name = getattr(action, "name", None) or getattr(action, "__name__", None)
    if name is None and (function := getattr(action, "func", None)) is not None:
        name = getattr(function, "__name__", None)
    name = name or type(action).__name__
    return str(name)


def command_targets(action: Any) -> tuple[str, ...]:
    """Nodes that an annotated return type ``Command[Literal["a", "b"]]`` names."""
    returned = function_hints(action).get("return") if not inspect.isclass(action) else None
    for option in (returned, *get_args(returned)):
        if get_origin(option) is Command:
            (targets,) = get_args(option)
            if get_origin(targets) is Literal:
                return tuple(get_args(targets))
    return ()
