"""Threads in Azure Cosmos DB for NoSQL."""

from __future__ import annotations

try:
    import aiohttp  # noqa: F401
    import azure.cosmos  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "threadmark.checkpoint.cosmosdb needs azure-cosmos and aiohttp: pip install 'threadmark[cosmosdb]'",
        name=error.name,
    ) from error

from threadmark.checkpoint.cosmosdb.aio import CosmosDBSaver
from threadmark.checkpoint.cosmosdb.saver import CosmosDBSaverSync

__all__ = ["CosmosDBSaver", "CosmosDBSaverSync"]
