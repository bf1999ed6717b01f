"""What people ask for, taken apart and checked: names in a config, scopes and filters of listings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from threadmark.checkpoint.base import get_checkpoint_id, get_thread_id
from threadmark.checkpoint.records import Ref, Scope


def ref_of(config: Any) -> Ref:
    """What a config names. ValueError for a name that no database takes as text."""
    thread_id = get_thread_id(config)
    named = config["configurable"]
    ns, id = named.get("checkpoint_ns") or "", named.get("checkpoint_id") or None
    return Ref(
        thread_id if thread_id.isascii() else text(thread_id, "thread_id"),
        text(ns, "checkpoint_ns") if ns else "",
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


def without_secrets(name: str) -> str:
    """The name of a store as messages may show it: of a URL without user, password, query and fragment."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    place = rest.rpartition("@")[2]  # first of all: a password that nobody quoted may hold any of the other marks
    return f"{scheme}://{place.partition('?')[0].partition('#')[0]}"


def encodes(name: str) -> bool:
    """Whether UTF-8 can encode a text: it has no lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def scope_of(config: Any, before: Any, limit: int | None) -> Scope:
    """What a listing is about."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit}; leave it out to get everything")
    bound = get_checkpoint_id(before) if before is not None else None
    if before is not None and bound is None:
        raise ValueError('before must name a checkpoint: {"configurable": {"checkpoint_id": "..."}}')
    if config is None:
        return Scope(before=bound)
    named = config.get("configurable") or {}
    thread_id, ns = named.get("thread_id"), named.get("checkpoint_ns")
    return Scope(
        None if thread_id is None else text(thread_id, "thread_id"),
        None if ns is None else text(ns, "checkpoint_ns"),
        get_checkpoint_id(config),
        bound,
    )


def matcher(filter: Mapping[str, Any] | None) -> Callable[[Mapping[str, Any]], bool] | None:
    """Whether metadata has all these keys with equal values; None when everything matches."""
    if not filter:
        return None
    wanted = dict(filter)
    return lambda metadata: all(key in metadata and metadata[key] == value for key, value in wanted.items())


def texts(names: Any) -> list[str]:
    """A list of ids; TypeError for a single text, whose letters nobody means."""
    if isinstance(names, str):
        raise TypeError(f"a list of ids is wanted, not the text {names!r}; write [{names!r}]")
    return [text(name, "an id") for name in names]
