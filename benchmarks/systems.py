"""The systems that are measured, as a table of module names: a workload knows neither by name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = "threadmark"
PEER = "langgraph"
SYSTEMS = (OURS, PEER)

# What a workload asks for -> (module below the package, name in it).
NAMES = {
    "StateGraph": ("graph", "StateGraph"),
    "START": ("constants", "START"),
    "END": ("constants", "END"),
    "Send": ("types", "Send"),
    "Command": ("types", "Command"),
    "interrupt": ("types", "interrupt"),
    "add_messages": ("graph.message", "add_messages"),
    "DeltaChannel": ("channels", "DeltaChannel"),
    "InMemorySaver": ("checkpoint.memory", "InMemorySaver"),
    "SqliteSaver": ("checkpoint.sqlite", "SqliteSaver"),
    "AsyncSqliteSaver": ("checkpoint.sqlite.aio", "AsyncSqliteSaver"),
    "PostgresSaver": ("checkpoint.postgres", "PostgresSaver"),
    "AsyncPostgresSaver": ("checkpoint.postgres.aio", "AsyncPostgresSaver"),
    "RedisSaver": ("checkpoint.redis", "RedisSaver"),
    "AsyncRedisSaver": ("checkpoint.redis.aio", "AsyncRedisSaver"),
    "MongoDBSaver": ("checkpoint.mongodb", "MongoDBSaver"),
    "CosmosDBSaverSync": ("checkpoint.cosmosdb", "CosmosDBSaverSync"),
}


@dataclass(frozen=True, slots=True)
class System:
    """Names of one system, imported when they are first asked for, and a folder of its own to write into."""

    package: str
    folder: Path

    def __getattr__(self, name: str) -> Any:
        module, attribute = NAMES[name]
        return getattr(importlib.import_module(f"{self.package}.{module}"), attribute)

    @property
    def database(self) -> Path:
        return self.folder / "benchmark.db"
