"""How long a thread is kept.

The server removes documents one by one. So rows are kept longer than their thread, without which nobody sees them: no
thread ever loses a part of itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pymongo import UpdateMany

from threadmark.checkpoint.mongodb.documents import THREAD, Document, Standing
from threadmark.checkpoint.mongodb.errors import door
from threadmark.checkpoint.mongodb.store import Store


def life_of(ttl: float | None, standing: Standing) -> tuple[Document, Document, datetime | None]:
    """What to set and unset in a thread's document, and until when its new rows are kept."""
    if ttl is None:
        return {}, {"expires": "", "kept": ""} if standing.expires is not None else {}, None
    now, life = datetime.now(UTC), timedelta(seconds=ttl)
    kept = now + 2 * life
    if standing.version and not _is_short(standing, now, life):
        kept = min(kept, standing.kept)
    return {"expires": now + life, "kept": kept}, {}, now + 2 * life


def _is_short(standing: Standing, now: datetime, life: timedelta) -> bool:
    """Whether rows of a thread might go before it, or never."""
    kept: datetime | None = standing.kept
    return kept is None or kept < now + 1.25 * life


async def renew(store: Store, standing: Standing) -> None:
    """Let a thread's rows live as long as the thread is about to."""
    ttl = store.settings.ttl
    change: Document | None = None
    if ttl is None:
        change = {"$unset": {"expires": ""}} if standing.expires is not None else None
    elif standing.version:
        now, life = datetime.now(UTC), timedelta(seconds=ttl)
        change = {"$set": {"expires": now + 2 * life}} if _is_short(standing, now, life) else None
    if change is not None:
        rows = {"thread": standing.key.object_id, "kind": {"$ne": THREAD}}
        with door(store.settings.place):
            await store.driver.write([UpdateMany(rows, change)])
