"""A node's result -> writes: updates, commands and packets (spec 2.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from threadmark.constants import END
from threadmark.engine.names import BRANCH_TO, ROOT, TASKS
from threadmark.engine.plan import Writes
from threadmark.errors import ErrorCode, InvalidUpdateError, ParentCommand, create_error_message
from threadmark.types import Command, Send, annotated_fields, changed_fields


def update_of(name: str, keys: frozenset[str]) -> Callable[[Any], Writes]:
    """The function that turns a result of node ``name`` into writes; ``keys`` are those of the state.

    It raises ``InvalidUpdateError`` for a result that is no update, and ``ParentCommand`` for a command to the
    enclosing graph.
    """
    root = ROOT in keys

    def update(result: Any) -> Writes:
        if type(result) is dict and not root:
            return [item for item in result.items() if item[0] in keys]
        if result is None:
            return []
        return list(_writes(name, keys, result, root=root))

    return update


def _writes(name: str, keys: frozenset[str], result: Any, *, root: bool) -> Writes:
    if isinstance(result, Command):
        return _command(name, keys, result, root=root)
    if isinstance(result, Send):
        return [(TASKS, result)]
    if isinstance(result, (list, tuple)) and any(isinstance(item, Command) for item in result):
        return [write for item in result if item is not None for write in _writes(name, keys, item, root=root)]
    if root:
        return [(ROOT, result)]
    if isinstance(result, dict):
        return [(key, value) for key, value in result.items() if key in keys]
    if fields := annotated_fields(type(result)):
        return [(key, value) for key, value in changed_fields(result, fields) if key in keys]
    raise InvalidUpdateError(
        create_error_message(
            message=f"Expected dict, got {result!r}: node {name!r} must return a dict of updates, a Command or None",
            error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
        )
    )


def _command(name: str, keys: frozenset[str], command: Command[Any], *, root: bool) -> Writes:
    if command.graph is not None:
        raise ParentCommand(command)
    writes: Writes = []
    if root:
        writes.extend((ROOT, value) for key, value in command._update_as_tuples() if key == ROOT)
        if isinstance(command.update, dict):
            writes = [(ROOT, command.update)]
    elif command.update is not None:
        pairs = command._update_as_tuples()
        if [key for key, _ in pairs] == [ROOT]:
            raise InvalidUpdateError(
                create_error_message(
                    message=f"Expected dict, got {command.update!r} as the update of a Command from node {name!r}",
                    error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
                )
            )
        writes.extend((key, value) for key, value in pairs if key in keys)
    targets = command.goto if isinstance(command.goto, (list, tuple)) else (command.goto,)
    for target in targets:
        if isinstance(target, Send):
            writes.append((TASKS, target))
        elif isinstance(target, str):
            if target != END:
                writes.append((BRANCH_TO + target, None))
        else:
            raise TypeError(f"In Command.goto, expected Send or str, got {type(target).__name__}")
    return writes


__all__ = ["update_of"]
