"""The ``messages`` stream: chat messages that nodes make, each told once (spec 10.2).

Tokens come from chat models through their callbacks (``engine.chat_models``); here are the whole messages that stand
in what nodes return, and what was heard of already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from threadmark.engine.names import SPECIAL
from threadmark.types import Command, annotated_fields

if TYPE_CHECKING:
    from threadmark.engine.task import Task

MODE = "messages"
Test = Callable[[Any], bool]


def tell(task: Task, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
    """Tell a message or a chunk of one when somebody listens, whether it was heard before or not."""
    run = task.run
    if MODE not in run.sink.modes:
        return
    if (id := _id(message)) is not None:
        run.sink.heard.add(id)
    run.sink.add(run, MODE, (message, _metadata(task) if metadata is None else metadata))


def note_input(task: Task) -> None:
    """Messages that a node is given are not new when it returns them."""
    heard = task.run.sink.heard
    heard.update(id for message in _in_value(task.input, _test()) if (id := _id(message)) is not None)


def tell_new(task: Task) -> None:
    """Tell the messages in what a node returned, except removals and those heard before."""
    heard = task.run.sink.heard
    metadata: dict[str, Any] | None = None
    for message in _made(task):
        id = _id(message)
        if id is None:
            # The state finds it there and does not make up another.
            id = message.id = str(uuid4())
        if id not in heard and getattr(message, "type", None) != "remove":
            metadata = _metadata(task) if metadata is None else metadata
            tell(task, message, metadata)


def _metadata(task: Task) -> dict[str, Any]:
    """What goes with a message: where it was made."""
    config = task.config()
    metadata = dict(config["metadata"])
    return {**metadata, "tags": config["tags"]} if config["tags"] else metadata


def _made(task: Task) -> Iterator[Any]:
    """Messages that a task wrote or returned; one may come twice."""
    test = _test()
    for channel, value in task.writes:
        if channel not in SPECIAL:
            yield from _in_part(value, test)
    yield from _in_value(task.result, test)


def _in_value(value: Any, test: Test) -> Iterator[Any]:
    """The messages in a node's input or output: the value itself, its fields, and lists in them."""
    if value is None or test(value):
        yield from _in_part(value, test)
    elif isinstance(value, Command):
        yield from _in_value(dict(value._update_as_tuples()), test)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _in_part(part, test)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _in_value(item, test)
    else:
        for name in annotated_fields(type(value)):
            yield from _in_part(getattr(value, name, None), test)


def _in_part(part: Any, test: Test) -> Iterator[Any]:
    if isinstance(part, (list, tuple)):
        yield from (item for item in part if test(item))
    elif test(part):
        yield part


def _id(message: Any) -> Any:
    return message.get("id") if isinstance(message, dict) else getattr(message, "id", None)


def _test() -> Test:
    """What counts as a message: LangChain's classes once they are loaded, else dicts that have an id."""
    kind = getattr(sys.modules.get("langchain_core.messages"), "BaseMessage", None)
    return _is_dict_message if kind is None else lambda value: isinstance(value, kind)


def _is_dict_message(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value and "content" in value and "id" in value


__all__ = ["note_input", "tell", "tell_new"]
