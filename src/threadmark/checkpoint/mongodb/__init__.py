"""Threads in MongoDB."""

from __future__ import annotations

try:
    import pymongo  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "threadmark.checkpoint.mongodb needs pymongo: pip install 'threadmark[mongodb]'", name=error.name
    ) from error

from threadmark.checkpoint.mongodb.aio import AsyncMongoDBSaver
from threadmark.checkpoint.mongodb.saver import MongoDBSaver

__all__ = ["AsyncMongoDBSaver", "MongoDBSaver"]
