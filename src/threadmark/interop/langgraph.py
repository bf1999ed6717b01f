"""Savers of ours for graphs of LangGraph's."""

from __future__ import annotations

from typing import Any, Final

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.serde.allow import Allow, types_in
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.interop.classes import PeerDecoders, PeerEncoders
from threadmark.interop.listed import check_listed

__all__ = ["as_langgraph_saver"]

ADVICE: Final = "list it where the saver is wrapped: as_langgraph_saver(saver, allow=[{}])"


def as_langgraph_saver(saver: Any, allow: Allow = ()) -> Any:
    """A saver for LangGraph's ``compile(checkpointer=...)`` that keeps everything in ``saver``, in both colours.

    LangGraph's own classes in the state (``Send``, ``Interrupt``, ``Command`` ...) and messages come back as they
    were. Classes of yours are listed in ``allow``, as for ``JsonPlusSerializer``; of a state schema that is listed
    (a TypedDict, dataclass or model) the classes that its fields name count as well. Another class raises an error
    that says what to add. LangGraph's strict mode adds the classes of the graph by itself.

    ``saver`` stays as it is, and may serve graphs of ours on the same threads. Its serializer is asked for values; one
    that is not ours is used unchanged. Raises ImportError without LangGraph, TypeError for what is no saver of ours,
    ValueError for a name in ``allow`` whose module or class is not there.
    """
    if allow is not None and not isinstance(allow, (bool, str, type)):
        allow = list(allow)
    check_listed(allow)
    try:
        from threadmark.interop.drop_in import LangGraphSaver, adapter_class
    except ModuleNotFoundError as error:
        raise ImportError("a saver for LangGraph's graphs needs LangGraph: pip install langgraph") from error
    if isinstance(saver, LangGraphSaver):
        return saver.with_allowlist(_entries(allow)) if allow else saver
    if not isinstance(saver, BaseCheckpointSaver):
        raise TypeError(
            f"as_langgraph_saver takes a saver that derives from threadmark.checkpoint.base.BaseCheckpointSaver, not "
            f"{type(saver).__name__}; a saver of LangGraph's goes into its graphs as it is"
        )
    return adapter_class(saver)(saver.with_serde(peer_serde(saver.serde, allow)))


def peer_serde(serde: Any, allow: Allow = ()) -> Any:
    """The serializer that writes LangGraph's classes as ours and gives back LangGraph's."""
    if isinstance(serde, EncryptedSerializer):
        return type(serde)(serde.cipher, peer_serde(serde.serde, allow))
    if isinstance(serde, JsonPlusSerializer):
        return serde._with_tables(PeerEncoders, PeerDecoders, _entries(allow), ADVICE)
    extend = getattr(serde, "with_msgpack_allowlist", None)
    return serde if extend is None or not allow else extend(_entries(allow))


def _entries(allow: Allow) -> Allow:
    """The list with what the fields of its schemas name."""
    if allow is None or isinstance(allow, (bool, str)):
        return allow
    listed = [allow] if isinstance(allow, type) else list(allow)
    named = {cls for entry in listed if isinstance(entry, type) for cls in types_in(entry)}
    return [*listed, *sorted(named - set(listed), key=lambda cls: (cls.__module__, cls.__qualname__))]
