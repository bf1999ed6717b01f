"""LangGraph's bytes (spec 12.2)."""

from __future__ import annotations

from typing import Any

DECODERS: dict[int, Any] = {}


def decoders(allowed: Any) -> Any:
    """x"""


def load_json(body: bytes, *allowed: Any) -> Any:
    """x"""
    raise NotImplementedError
