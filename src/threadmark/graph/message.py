"""Chat messages in the state: merged by id, with or without LangChain (spec 2, 10.2).

A message is a dict with ``role`` and ``content``, or a message object of LangChain. Which of the two a state holds
is not chosen here: once a program has loaded LangChain's messages, dicts, ``(role, content)`` pairs and bare strings
become its classes, as LangChain programs expect; without it they are dicts. This module never imports LangChain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from typing import Annotated, Any, TypeAlias, TypedDict
from uuid import uuid4

from threadmark.engine.messages import tell
from threadmark.errors import InvalidUpdateError
from threadmark.types import CURRENT

REMOVE_ALL_MESSAGES = "__remove_all__"
"""The id of a removal that empties the list; what stands behind it in the same update is kept."""

AnyMessage: TypeAlias = Any
"""A dict with ``role`` and ``content``, or a message object of LangChain."""
Messages: TypeAlias = list[AnyMessage] | AnyMessage
"""One message or a list; also ``(role, content)`` pairs, and strings, which are the user's."""

_FORMATS = ("langchain-openai",)
_GONE: Any = object()


class InvalidMessageError(InvalidUpdateError, ValueError):
    """Something that is no message, a removal of a message that is not there, or a message without an id."""


def RemoveMessage(id: str) -> AnyMessage:
    """A message that removes the one with this id, or all for ``REMOVE_ALL_MESSAGES``.

    LangChain's class of this name when that is loaded, which works in its place, else a dict of role ``remove``.
    """
    chat = _langchain()
    return {"role": "remove", "content": "", "id": id} if chat is None else chat.RemoveMessage(id=id)


# -- reducers ------------------------------------------------------------------------------------------------------


def add_messages(left: Messages | None = None, right: Messages | None = None, *, format: str | None = None) -> Any:
    """A reducer for a list of messages: append, replace by id, remove.

    A message of ``right`` whose id is in ``left`` takes its place; others are appended, and get an id when they have
    none. Called with ``format`` alone it gives back the reducer with that setting.

    Args:
        left: The messages so far. Neither list is changed.
        right: What to add: a message or a list of them.
        format: ``"langchain-openai"``: bring contents into OpenAI's shape; needs LangChain.

    Raises:
        InvalidMessageError: for what is no message, and for a removal of an id that is not there.
    """
    if left is None or right is None:
        if left is not None or right is not None:
            missing = "left" if left is None else "right"
            raise InvalidMessageError(f"add_messages takes two lists to merge; {missing!r} is None")
        return _with_preparation(partial(add_messages, format=format))
    if format is not None and format not in _FORMATS:
        raise InvalidMessageError(f"unknown format {format!r}; choose from {', '.join(map(repr, _FORMATS))}, or None")
    merged = _merged(with_ids(left), with_ids(right))
    return merged if format is None else _openai_shaped(merged)


def _with_preparation(reducer: Any) -> Any:
    reducer.prepare_write = _named
    return reducer


def _named(write: Any) -> Any:
    """A write whose dicts have ids: a router then sees the ids that the state will have, and so does a stream.

    Objects carry the id that they are given; of a dict, which may be used again, a copy is made.
    """
    return write if _langchain() is not None else stamped(write)


_with_preparation(add_messages)


def _merged(left: list[AnyMessage], right: list[AnyMessage]) -> list[AnyMessage]:
    cut = _cleared(right)
    if cut:
        left, right = [], right[cut:]
    place = _places(left)
    out = list(left)
    gone: set[Any] = set()
    for message in right:
        id = _id(message)
        at = place.get(id)
        if _removes(message):
            if at is None:
                raise InvalidMessageError(
                    f"Attempting to delete a message with an ID that doesn't exist ({id!r}); remove only what the "
                    f"state holds, or use REMOVE_ALL_MESSAGES"
                )
            gone.add(id)
        elif at is None:
            place[id] = len(out)
            out.append(message)
        else:
            gone.discard(id)
            out[at] = message
    return [message for message in out if _id(message) not in gone] if gone else out


def _cleared(messages: Sequence[AnyMessage]) -> int:
    """How many messages the last removal of all makes void, itself included."""
    for at in range(len(messages) - 1, -1, -1):
        if _id(messages[at]) == REMOVE_ALL_MESSAGES and _removes(messages[at]):
            return at + 1
    return 0


def _messages_delta_reducer(state: Sequence[AnyMessage], writes: Sequence[Messages]) -> list[AnyMessage]:
    """A reducer for ``DeltaChannel``: the messages after several writes, however they are batched (spec 8.1).

    As ``add_messages``, with three differences that replaying needs: no ids are made up (``stamped`` does that
    before writes are stored), a removal of what is not there says nothing, and a message that was removed and comes
    again stands at the end.
    """
    return MessageFold()(state, writes)


class MessageFold:
    """``_messages_delta_reducer`` for one live channel: it remembers where each id stands.

    While the list it is given is the one it made last, a call costs what the new messages cost, and one copy of the
    list of references. A list that was changed in place to another length is looked at anew.
    """

    __slots__ = ("_index", "_last", "_size")

    def __init__(self) -> None:
        self._last: list[AnyMessage] | None = None
        self._size = 0
        self._index: dict[Any, int] = {}

    def __call__(self, state: Sequence[AnyMessage], writes: Sequence[Messages]) -> list[AnyMessage]:
        new = [message for write in writes for message in _coerced(write)]
        if cut := _cleared(new):
            out: list[AnyMessage] = []
            index: dict[Any, int] = {}
            new = new[cut:]
        elif state is self._last and len(state) == self._size:
            out, index = list(state), self._index
        else:
            out = _coerced(list(state))
            index = _places(out)
        removed = False
        for message in new:
            id = _id(message)
            if _removes(message):
                if (at := index.pop(id, None)) is not None:
                    out[at] = _GONE
                    removed = True
            elif id is not None and (at := index.get(id)) is not None:
                out[at] = message
            else:
                index[id] = len(out)
                out.append(message)
        if removed:
            out = [message for message in out if message is not _GONE]
            index = _places(out)
        self._last, self._size, self._index = out, len(out), index
        return out


def stamped(write: Any) -> Any:
    """A write with an id in each of its messages, so that every replay sees the same ones (spec 8.9)."""
    return with_ids(write) if isinstance(write, (list, tuple, str)) or _is_message(write) else write


# A delta channel takes up ``live`` where its reducer has it, and a node's writer ``prepare_write``.
_messages_delta_reducer.live = MessageFold  # type: ignore[attr-defined]
_messages_delta_reducer.prepare_write = stamped  # type: ignore[attr-defined]


class MessagesState(TypedDict):
    """A state with ``messages``, merged by ``add_messages``. Derive from it to add keys."""

    messages: Annotated[list[AnyMessage], add_messages]


def push_message(message: Any, *, state_key: str | None = "messages") -> AnyMessage:
    """Put a message out to the ``messages`` stream at once, and write it to the state when the node ends.

    Args:
        message: As for ``add_messages``; it needs an id of its own.
        state_key: The key to write it to; None only streams it.

    Raises:
        InvalidMessageError: for a message without an id.
        RuntimeError: outside a node.
    """
    (made,) = _coerced(message, keep_chunks=True)
    if _id(made) is None:
        raise InvalidMessageError("Message ID is required: push_message streams before the state could give it one")
    task: Any = CURRENT.get()
    if task is None:
        raise RuntimeError("push_message() belongs to a running node; there is none in this context")
    tell(task, made)
    if state_key is not None:
        task.writes.append((state_key, made))
    return made


# -- messages of either kind -----------------------------------------------------------------------------------------


def with_ids(messages: Messages) -> list[AnyMessage]:
    """A list of messages, each with an id: objects are given theirs, dicts are copied with it."""
    out = _coerced(messages)
    if None not in _ids(out):
        return out
    for at, message in enumerate(out):
        if _id(message) is None:
            if isinstance(message, dict):
                out[at] = {**message, "id": str(uuid4())}
            else:
                message.id = str(uuid4())
    return out


def _langchain() -> Any:
    """LangChain's message module if the program has loaded it."""
    chat = sys.modules.get("langchain_core.messages")
    return chat if hasattr(chat, "convert_to_messages") else None


def _coerced(messages: Messages, *, keep_chunks: bool = False) -> list[AnyMessage]:
    """A new list of messages of one kind out of anything that stands for messages."""
    items = messages if isinstance(messages, list) else [messages]
    chat = _langchain()
    if chat is None:
        return [_plain(item) for item in items]
    # By class, since asking each object costs ten times as much.
    others = () if keep_chunks else chat.BaseMessageChunk
    kinds = set(map(type, items))
    ready = {kind for kind in kinds if issubclass(kind, chat.BaseMessage) and not issubclass(kind, others)}
    if ready == kinds:
        return list(items)
    return [item if type(item) in ready else _object(chat, item) for item in items]


def _plain(item: Any) -> AnyMessage:
    if isinstance(item, dict):
        if "role" in item or "type" in item:
            return item
    elif isinstance(item, str):
        return {"role": "user", "content": item}
    elif isinstance(item, (tuple, list)):
        if len(item) == 2 and isinstance(item[0], str):
            return {"role": item[0], "content": item[1]}
    elif hasattr(item, "content") and hasattr(item, "id"):
        return item
    raise InvalidMessageError(
        f"{item!r} is no message; give a dict with 'role' and 'content', a (role, content) pair, a string, or load "
        f"langchain_core to use its message classes"
    )


def _object(chat: Any, item: Any) -> AnyMessage:
    if isinstance(item, chat.BaseMessageChunk):
        return chat.message_chunk_to_message(item)
    if isinstance(item, dict) and "remove" in (item.get("role"), item.get("type")):
        return chat.RemoveMessage(id=item["id"])
    try:
        return chat.convert_to_messages([item])[0]
    except (NotImplementedError, ValueError, TypeError, KeyError) as error:
        raise InvalidMessageError(f"{item!r} is no message: {error}") from error


_object_id = attrgetter("id")
_dict_id = methodcaller("get", "id")


def _ids(messages: list[AnyMessage]) -> Iterable[Any]:
    kinds = set(map(type, messages))
    if dict not in kinds:
        return map(_object_id, messages)
    return map(_dict_id if len(kinds) == 1 else _id, messages)


def _places(messages: list[AnyMessage]) -> dict[Any, int]:
    """Where each id stands; of two equal ones the last."""
    return dict(zip(_ids(messages), range(len(messages)), strict=True))


def _id(message: AnyMessage) -> Any:
    return message.get("id") if isinstance(message, dict) else message.id


def _removes(message: AnyMessage) -> bool:
    if isinstance(message, dict):
        return "remove" in (message.get("role"), message.get("type"))
    return getattr(message, "type", None) == "remove"


def _is_message(value: Any) -> bool:
    return ("role" in value or "type" in value) if isinstance(value, dict) else hasattr(value, "content")


def _openai_shaped(messages: list[AnyMessage]) -> list[AnyMessage]:
    try:
        from langchain_core.messages import convert_to_messages, convert_to_openai_messages
    except ImportError as error:
        raise InvalidMessageError("format='langchain-openai' needs LangChain: pip install langchain-core") from error
    shaped: Callable[..., Any] = convert_to_openai_messages
    return with_ids(convert_to_messages(shaped(messages, include_id=True)))


__all__ = [
    "REMOVE_ALL_MESSAGES",
    "InvalidMessageError",
    "Messages",
    "MessagesState",
    "RemoveMessage",
    "add_messages",
    "push_message",
]
