"""Graphs written directly over channels: nodes that start when a channel changes, and write to channels."""

from __future__ import annotations

from threadmark.pregel.builder import ChannelWriteEntry, NodeBuilder
from threadmark.pregel.graph import Pregel

__all__ = ["ChannelWriteEntry", "NodeBuilder", "Pregel"]
