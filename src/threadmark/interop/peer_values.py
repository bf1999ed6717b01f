"""LangGraph's stored values taken apart: one blob of a whole checkpoint into channels, ciphertext into bytes.

Nothing is imported for a value and no pickle is loaded: what cannot be made from the tables is carried as bytes.
"""

from __future__ import annotations

import json
import pickletools
from typing import Any, Final

from ormsgpack import OPT_NON_STR_KEYS, Ext, packb, unpackb

from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.interop.carried import Carried, CarryingSerializer
from threadmark.interop.rows import Unreadable

__all__ = ["PeerValues", "named_in_pickle"]

_PLAIN_TAGS: Final = frozenset({"null", "bytes", "bytearray", "msgpack", "json", "pickle", "empty"})


class PeerValues:
    """Reads LangGraph's values. ``serde`` makes them; one that encrypts also opens what LangGraph encrypted."""

    def __init__(self, serde: Any = None) -> None:
        self._cipher: Any = serde.cipher if isinstance(serde, EncryptedSerializer) else None
        inner: Any = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        self.serde = CarryingSerializer(inner if inner is not None else JsonPlusSerializer())

    def opened(self, tag: str | None, data: bytes) -> tuple[str, bytes, bool]:
        """Tag and bytes without encryption, and whether there was one. ``Unreadable`` without the key."""
        tag = tag or ("json" if data[:1] in (b"{", b"[") else "msgpack")
        inner, plus, name = tag.rpartition("+")
        if not plus:
            return tag, data, False
        if self._cipher is None:
            raise Unreadable(f"encrypted with {name!r}; put the key into LANGGRAPH_AES_KEY")
        opens = getattr(self._cipher, "open", None)
        try:
            plain = opens(inner, name, data) if opens is not None else self._cipher.decrypt(name, data)
        except Exception as error:
            raise Unreadable(f"encrypted with {name!r}, and this key does not open it ({error})") from error
        return inner, plain, True

    def value(self, tag: str | None, data: bytes | None) -> tuple[Any, bool]:
        """A value by itself, decoded or carried, and whether it was encrypted."""
        if data is None or tag in ("null", "empty"):
            return None, False
        tag, plain, sealed = self.opened(tag, data)
        return self.serde.loads_typed((tag, plain)), sealed

    def checkpoint(self, tag: str | None, data: bytes) -> tuple[dict[str, Any], dict[str, int], bool]:
        """A whole checkpoint: its fields, the bytes of each channel's value, and whether it was encrypted."""
        tag, plain, sealed = self.opened(tag, data)
        if tag == "msgpack":
            found, sizes = self._packed(plain)
        elif tag == "json":
            found, sizes = self._json(plain)
        else:
            raise Unreadable(f"stored as {tag!r}: {_advice(tag, plain)}")
        if not isinstance(found.get("channel_versions"), dict) or not isinstance(found.get("id"), str):
            raise Unreadable("a checkpoint without an id or versions")
        found.setdefault("v", 1)
        found.setdefault("versions_seen", {})
        return found, sizes, sealed

    def metadata(self, tag: str | None, data: Any) -> dict[str, Any]:
        """Metadata: JSON, or what an old release stored by its serializer."""
        if isinstance(data, dict):
            return data
        raw = data.encode() if isinstance(data, str) else bytes(data or b"{}")
        try:
            found = json.loads(raw)
        except ValueError:
            found = self.serde.loads_typed((tag or "msgpack", raw))
        return found if isinstance(found, dict) else {}

    def _packed(self, plain: bytes) -> tuple[dict[str, Any], dict[str, int]]:
        try:
            found = unpackb(plain, ext_hook=Ext, option=OPT_NON_STR_KEYS)
        except Exception as error:
            raise Unreadable(f"damaged msgpack ({error})") from error
        if not isinstance(found, dict):
            raise Unreadable("no checkpoint")
        values, sizes = {}, {}
        for channel, value in (found.get("channel_values") or {}).items():
            part = packb(value, None, OPT_NON_STR_KEYS)
            sizes[channel] = len(part)
            values[channel] = None if value is None else self.serde.loads_typed(("msgpack", part))
        rest = {
            key: self.serde.loads_typed(("msgpack", packb(value, None, OPT_NON_STR_KEYS)))
            for key, value in found.items()
            if key != "channel_values"
        }
        return {**rest, "channel_values": values}, sizes

    def _json(self, plain: bytes) -> tuple[dict[str, Any], dict[str, int]]:
        try:
            found = json.loads(plain)
        except ValueError as error:
            raise Unreadable(f"damaged JSON ({error})") from error
        values, sizes = {}, {}
        for channel, value in (found.get("channel_values") or {}).items():
            part = json.dumps(value, ensure_ascii=False).encode()
            sizes[channel] = len(part)
            values[channel] = self.serde.loads_typed(("json", part))
        rest = {key: self._json_part(value) for key, value in found.items() if key != "channel_values"}
        return {**rest, "channel_values": values}, sizes

    def _json_part(self, value: Any) -> Any:
        made = self.serde.loads_typed(("json", json.dumps(value, ensure_ascii=False).encode()))
        return made.shown if type(made) is Carried else made


def _advice(tag: str, plain: bytes) -> str:
    if tag != "pickle":
        return "no serializer here wrote that"
    return (
        f"loading it would run {', '.join(named_in_pickle(plain)) or 'code'}; let LangGraph store it without "
        f"pickle_fallback first"
    )


def named_in_pickle(data: bytes) -> list[str]:
    """What a pickle would import, read without loading it."""
    found, texts = set(), list[str]()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL" and isinstance(argument, str):
                found.add(argument.replace(" ", "."))
            elif opcode.name == "STACK_GLOBAL" and len(texts) >= 2:
                found.add(".".join(texts[-2:]))
            elif isinstance(argument, str):
                texts.append(argument)
    except Exception:
        found.add("something unreadable")
    return sorted(found)
