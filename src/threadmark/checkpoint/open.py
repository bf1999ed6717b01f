"""Opening a saver by the name of its store."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.serde.encrypted import KEY_VARIABLES, EncryptedSerializer

__all__ = ["open_saver"]

_log = logging.getLogger("threadmark")

GROUP: Final = "threadmark.savers"
"""The entry points that add schemes: the name is the scheme, the object a saver class."""
SCHEMES: Final[Mapping[str, str]] = {
    "cosmosdb": "threadmark.checkpoint.cosmosdb:CosmosDBSaverSync",
    "cosmosdb+http": "threadmark.checkpoint.cosmosdb:CosmosDBSaverSync",
    "file": "threadmark.checkpoint.sqlite:SqliteSaver",
    "mongodb": "threadmark.checkpoint.mongodb:MongoDBSaver",
    "mongodb+srv": "threadmark.checkpoint.mongodb:MongoDBSaver",
    "postgres": "threadmark.checkpoint.postgres:PostgresSaver",
    "postgresql": "threadmark.checkpoint.postgres:PostgresSaver",
    "sqlite": "threadmark.checkpoint.sqlite:SqliteSaver",
    **dict.fromkeys(
        ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix"), "threadmark.checkpoint.redis:RedisSaver"
    ),
}
"""The savers that come with this package, by the scheme of their URLs."""


def open_saver(name: str, *, serde: Any = None, read_only: bool = False) -> Any:
    """A saver on the store that ``name`` says: a path, ``:memory:`` or a URL such as ``sqlite:///threads.db``.

    A URL's scheme chooses the class: one of ours, else the entry point of that name in the group
    ``threadmark.savers``. The class opens it by ``from_conn_string(url, serde=...)``, or by
    ``open_read_only(url, serde=...)`` with ``read_only``, which opens what exists and changes nothing.

    Without ``serde`` and with ``THREADMARK_AES_KEY`` or ``LANGGRAPH_AES_KEY`` in the environment everything is
    encrypted with that key, which is logged. ValueError for no name, for a scheme that nothing here opens,
    and for ``read_only`` where the class cannot do that.
    """
    given: object = name  # out of the environment, as often as not
    if not given or not isinstance(given, str):
        raise ValueError(f"name the store by a path or a URL, not {given!r}; is the variable with its name set?")
    if name.strip().lower() in ("memory", "memory:"):
        raise ValueError(f"{name!r} would be a file of that name; for a store in memory say ':memory:'")
    kind = saver_class(name)
    opens = kind.from_conn_string
    if read_only:
        opens = getattr(kind, "open_read_only", None)
        if opens is None:
            raise ValueError(f"{kind.__name__} cannot open a store read-only; leave read_only out")
    return opens(name, serde=serde if serde is not None else _from_environment(name))


def saver_class(name: str) -> Any:
    """The class that opens a store of this name."""
    scheme, separator, _ = name.partition("://")
    if not separator:
        scheme = "sqlite"
    if scheme in SCHEMES:
        module, _, found = SCHEMES[scheme].partition(":")
        return getattr(import_module(module), found)
    from importlib.metadata import entry_points

    known = entry_points(group=GROUP)
    if scheme not in known.names:
        schemes = ", ".join(f"{each}://" for each in sorted({*SCHEMES, *known.names}))
        raise ValueError(
            f"no saver for {scheme}:// here; there are {schemes}. Use one of them, a path or sqlite:///path, or "
            f"install a package with a saver for it (entry point group {GROUP})"
        )
    return known[scheme].load()


def _from_environment(name: str) -> Any:
    variable = next((each for each in KEY_VARIABLES if os.environ.get(each)), None)
    if variable is None:
        return None
    serde = EncryptedSerializer.from_pycryptodome_aes()
    _log.info("%s is set: what is stored in %s is encrypted with it", variable, without_secrets(name))
    return serde
