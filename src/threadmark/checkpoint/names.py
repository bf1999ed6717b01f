"""Names in a config, checked: what a port is asked with. Pure."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.base import get_thread_id
from threadmark.checkpoint.records import Ref


def ref_of(config: Any) -> Ref:
    """What a config names. ValueError for a name that no database takes as text."""
    thread_id = get_thread_id(config)
    named = config["configurable"]
    ns, id = named.get("checkpoint_ns") or "", named.get("checkpoint_id") or None
    return Ref(
        thread_id if thread_id.isascii() else text(thread_id, "thread_id"),
        text(ns, "checkpoint_ns"),
        None if id is None else text(id, "checkpoint_id"),
    )


def config_of(thread_id: str, ns: str, id: str) -> Any:
    """The canonical config that names a checkpoint (spec 1.4)."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def text(name: Any, what: str) -> str:
    """A name as text; ValueError unless it can be encoded as UTF-8."""
    if type(name) is not str:
        name = str(name)
    if not name.isascii() and not encodes(name):
        raise ValueError(f"{what} must be text that UTF-8 can encode, not {name!r}")
    return name  # type: ignore[no-any-return]


def encodes(name: str) -> bool:
    """Whether UTF-8 can encode a text: it has no lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
