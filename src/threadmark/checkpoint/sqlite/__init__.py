"""Threads in a SQLite file."""

from __future__ import annotations

from threadmark.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["SqliteSaver"]
