"""The driver's errors, translated at one door."""

from __future__ import annotations

from typing import Final

from redis import exceptions as driver

from threadmark.errors import DamagedRow, ForeignDatabase, SaverError, Unavailable

_MAY_BE_RETRIED: Final = {
    "OOM": "has no memory left for it; free some, or raise maxmemory",
    "READONLY": "takes no writes: it is a replica, or a failover is going on",
    "LOADING": "is still loading its data",
    "MISCONF": "cannot save to its disk and so takes no writes; look at its log and the free space",
    "CLUSTERDOWN": "is a cluster that is down or lacks a part",
    "MASTERDOWN": "is a replica that has lost its master",
    "NOREPLICAS": "has fewer replicas than it wants (min-replicas-to-write)",
    "TRYAGAIN": "is moving these keys to another server of the cluster",
    "BUSY": "is busy with a script",
    "NOTREADY": "is not ready yet",
}
"""What is wrong with a server that may be well again later, by the first word of its error."""
_FOR_GOOD: Final = {
    "NOAUTH": "wants a user or a password; put them into the URL, redis://USER:PASSWORD@HOST",
    "WRONGPASS": "wants another user or password; put them into the URL, redis://USER:PASSWORD@HOST",
    "NOPERM": "does not allow this user what a saver needs: EVAL, EVALSHA and the keys below the prefix",
    "MOVED": "is part of a cluster; use redis+cluster:// for the URL, or a RedisCluster client",
    "ASK": "is part of a cluster; use redis+cluster:// for the URL, or a RedisCluster client",
    "CROSSSLOT": "is a cluster that found keys of a thread in different slots; give the saver a RedisCluster client",
}
_SERVER_SAYS: Final = {
    driver.OutOfMemoryError: "OOM",
    driver.ReadOnlyError: "READONLY",
    driver.BusyLoadingError: "LOADING",
    driver.ClusterDownError: "CLUSTERDOWN",
    driver.MasterDownError: "MASTERDOWN",
    driver.TryAgainError: "TRYAGAIN",
    driver.AuthenticationError: "WRONGPASS",
    driver.NoPermissionError: "NOPERM",
    driver.MovedError: "MOVED",
    driver.AskError: "ASK",
    driver.ClusterCrossSlotError: "CROSSSLOT",
}
"""The driver has errors of their own for some, without the first word."""
_LOST: Final = (driver.ConnectionError, driver.TimeoutError, OSError)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is to blame, so that nobody knows if the command was carried out."""
    return isinstance(error, _LOST) and not isinstance(error, (driver.AuthenticationError, driver.BusyLoadingError))


def translated(error: Exception, server: str) -> Exception:
    """The error of ours that says what happened and what to do; the driver's own where it says it better."""
    word = _word(error)
    if word in _MAY_BE_RETRIED:
        return Unavailable(f"{server} {_MAY_BE_RETRIED[word]}; the same call may be tried again ({error})")
    if word in _FOR_GOOD:
        return SaverError(f"{server} {_FOR_GOOD[word]} ({error})")
    if isinstance(error, driver.MaxConnectionsError):
        return Unavailable(f"all connections to {server} are in use; allow more (max_connections), or try again")
    if "Cluster mode is not enabled" in str(error):
        return SaverError(f"{server} is one server and no cluster; take +cluster, or cluster=1, out of the URL")
    if isinstance(error, driver.RedisClusterException):
        return Unavailable(f"the cluster at {server} could not be used ({error}); the same call may be tried again")
    if is_lost(error):
        return Unavailable(
            f"{server} could not be reached, or went away ({error}); what was under way is whole or not there, "
            f"and the same call may be tried again"
        )
    if word == "WRONGTYPE":
        return ForeignDatabase(f"{server} has other things under our keys; give the saver another prefix ({error})")
    if word == "DAMAGED":
        return DamagedRow(
            f"{server} has lost a part of a thread ({error}): it may evict keys that are in use. Set maxmemory-policy "
            f"to noeviction, and restore the thread from a backup"
        )
    if "unknown command" in str(error):
        return SaverError(f"{server} is too old, or lacks what a saver needs: {error}")
    return SaverError(f"{server} refused: {error}") if isinstance(error, driver.RedisError) else error


def _word(error: Exception) -> str:
    """The first word of the server's error, which is its kind."""
    told = next((word for kind, word in _SERVER_SAYS.items() if isinstance(error, kind)), "")
    return told or str(error).partition(" ")[0]
