"""Threads in a SQLite file."""

from threadmark.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["SqliteSaver"]
