"""What LangGraph's Redis savers make of values, in the form in which LangGraph itself stored JSON. Pure.

Each release of theirs has marks of its own for what JSON does not know. All are turned into calls by name, which the
serializer's tables know. What a release stored without its content is noted: nobody can bring it back.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any, Final

from threadmark.checkpoint.serde.legacy import BUILDERS

__all__ = ["blob", "standard", "write_value"]

_TYPES: Final = ("langgraph", "types")
_SNAPSHOT: Final = ("langgraph", "checkpoint", "serde", "types", "_DeltaSnapshot")
_ERROR, _QUESTIONS = "__error__", "__interrupt__"


def standard(value: Any, lost: set[str]) -> Any:
    """A value out of a document. ``lost`` takes the names of classes that were stored without content."""
    if isinstance(value, list):
        return [standard(each, lost) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: standard(each, lost) for key, each in value.items()}
    if found.get("__send__") is True:
        return _call((*_TYPES, "Send"), found.get("node"), found.get("arg"))
    if found.get("__interrupt__") is True:
        return _question(found)
    if found.get("__delta_snapshot__") is True:
        return _call(_SNAPSHOT, found.get("value"))
    if found.keys() == {"__bytes__"} and isinstance(found["__bytes__"], str):
        return _call(("builtins", "bytes"), base64.b64decode(found["__bytes__"]).hex())
    if found.get("lc") == 2 and isinstance(found.get("id"), list):
        return _called(found, lost)
    return found


def _call(name: tuple[str, ...], /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": list(name), "args": list(args), "kwargs": kwargs}


def _question(found: dict[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in found.items() if key != "__interrupt__"}
    return _call((*_TYPES, "Interrupt"), **fields)


def _called(found: dict[str, Any], lost: set[str]) -> dict[str, Any]:
    kwargs = found.get("kwargs") or {}
    if isinstance(kwargs, dict) and kwargs.keys() == {"__set_items__"}:
        return _call(tuple(found["id"]), kwargs["__set_items__"])
    *module, name = map(str, found["id"])
    known = f"{'.'.join(module)}:{name}" in BUILDERS or module[:1] == ["numpy"] or module[0] in sys.stdlib_module_names
    if known and not kwargs and not found.get("args"):
        lost.add(".".join((*module, name)))
    return found


def write_value(channel: str, value: Any, lost: set[str]) -> Any:
    """What a task wrote. Some releases stored questions as bare fields, and errors without what they say."""
    if channel == _ERROR and isinstance(value, dict) and isinstance(value.get("id"), list):
        return f"{value['id'][-1]}()"
    if channel == _QUESTIONS and isinstance(value, list):
        value = [{"__interrupt__": True, **each} if _is_bare(each) else each for each in value]
    return standard(value, lost)


def _is_bare(value: Any) -> bool:
    return isinstance(value, dict) and "value" in value and "lc" not in value


def blob(tag: str, text: str | None) -> tuple[str, Any]:
    """The blob of a document: ("json", what it says) or a tag and bytes.

    The first releases stored JSON as it is, later ones in base64. Nothing is both: what base64 makes of a JSON text
    begins with no letter of ASCII's.
    """
    if text is None or tag in ("null", "empty"):
        return "null", b""
    if tag != "json":
        return "bytes" if tag == "base64" else tag, base64.b64decode(text)
    try:
        return tag, json.loads(text)
    except ValueError:
        return tag, json.loads(base64.b64decode(text))
