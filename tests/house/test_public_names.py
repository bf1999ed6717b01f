"""The names that programs import. Removing one is a breaking change, so each stands here by hand."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from pathlib import Path

import pytest

PUBLIC: dict[str, str] = {
    "threadmark": (
        "END START AsyncSqliteSaver BaseCheckpointSaver CachePolicy Command DeltaChannel EmptyInputError "
        "GraphRecursionError InMemorySaver Interrupt InvalidUpdateError MessagesState Overwrite "
        "RetryPolicy RunnableConfig Runtime Send SqliteSaver StateGraph StateSnapshot ThreadmarkError "
        "__version__ add_messages entrypoint get_config get_runtime get_store get_stream_writer "
        "interrupt open_saver task "
    ),
    "threadmark.graph": "StateGraph START END MessagesState add_messages",
    "threadmark.graph.state": "StateGraph CompiledStateGraph",
    "threadmark.graph.message": "MessagesState add_messages",
    "threadmark.types": (
        "All CachePolicy Command Durability Interrupt Overwrite PregelTask RetryPolicy Send StateSnapshot "
        "StateUpdate StreamMode StreamWriter interrupt"
    ),
    "threadmark.errors": (
        "EmptyChannelError EmptyInputError GraphBubbleUp GraphInterrupt GraphRecursionError "
        "InvalidUpdateError NodeInterrupt ParentCommand ThreadmarkError"
    ),
    "threadmark.constants": "START END TAG_HIDDEN TAG_NOSTREAM",
    "threadmark.config": "RunnableConfig get_config get_store get_stream_writer",
    "threadmark.channels": (
        "AnyValue BinaryOperatorAggregate DeltaChannel EphemeralValue LastValue NamedBarrierValue Topic UntrackedValue"
    ),
    "threadmark.channels.base": "BaseChannel MISSING",
    "threadmark.runtime": "Runtime get_runtime",
    "threadmark.func": "entrypoint task",
    "threadmark.pregel": "ChannelWriteEntry NodeBuilder Pregel",
    "threadmark.store.base": "BaseStore Item",
    "threadmark.store.memory": "InMemoryStore",
    "threadmark.cache.base": "BaseCache",
    "threadmark.cache.memory": "InMemoryCache",
    "threadmark.checkpoint.open": "open_saver",
    "threadmark.checkpoint.base": (
        "BaseCheckpointSaver ChannelVersions Checkpoint CheckpointMetadata CheckpointTuple PendingWrite "
        "PruneReport Retention WRITES_IDX_MAP empty_checkpoint"
    ),
    "threadmark.checkpoint.memory": "InMemorySaver MemorySaver",
    "threadmark.checkpoint.cosmosdb": "CosmosDBSaver CosmosDBSaverSync",
    "threadmark.checkpoint.mongodb": "AsyncMongoDBSaver MongoDBSaver",
    "threadmark.checkpoint.mongodb.aio": "AsyncMongoDBSaver",
    "threadmark.checkpoint.postgres": "PostgresSaver",
    "threadmark.checkpoint.postgres.aio": "AsyncPostgresSaver",
    "threadmark.checkpoint.redis": "RedisSaver",
    "threadmark.checkpoint.redis.aio": "AsyncRedisSaver",
    "threadmark.checkpoint.sqlite": "SqliteSaver",
    "threadmark.checkpoint.sqlite.aio": "AsyncSqliteSaver",
    "threadmark.checkpoint.serde.base": "CipherProtocol SerializerProtocol",
    "threadmark.checkpoint.serde.types": "ERROR INTERRUPT RESUME",
    "threadmark.checkpoint.serde.jsonplus": "JsonPlusSerializer",
    "threadmark.checkpoint.serde.encrypted": "EncryptedSerializer",
    "threadmark.interop.langgraph": "as_langgraph_saver",
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_module_offers_its_public_names(module: str) -> None:
    offered = importlib.import_module(module)
    assert [name for name in PUBLIC[module].split() if not hasattr(offered, name)] == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_all_lists_only_what_exists(module: str) -> None:
    offered = importlib.import_module(module)
    assert [name for name in getattr(offered, "__all__", ()) if not hasattr(offered, name)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.import_module("threadmark").__version__ == version("threadmark")


def test_type_checkers_may_read_the_package() -> None:
    package = importlib.import_module("threadmark")
    assert (Path(package.__path__[0]) / "py.typed").is_file()
