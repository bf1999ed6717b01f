"""Where an account is and how to be let in: from arguments, a connection string, or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

ENDPOINT_VARIABLE: Final = "COSMOSDB_ENDPOINT"
KEY_VARIABLE: Final = "COSMOSDB_KEY"
DATABASE: Final = "threadmark"
CONTAINER: Final = "checkpoints"
"""What a connection string means that names no database and no container."""
_RETRIES: Final = 9
_LONGEST_RETRY: Final = 30
"""How often, and for how many seconds in all, the SDK waits for request units (429) before ``Unavailable``."""
_SCHEMES: Final = {"cosmosdb": "https", "cosmosdb+http": "http"}
_KNOWN: Final = frozenset(("accountendpoint", "accountkey", "database", "container"))


@dataclass(frozen=True, kw_only=True)
class Address:
    """A container of an account. ``credential`` is a key, a token credential, or None for the default identity."""

    endpoint: str
    database: str
    container: str
    credential: Any = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """What messages call the container."""
        return f"container {self.container!r} of database {self.database!r} at {self.endpoint}"

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of the SDK's client: ours, unless the user said otherwise."""
        return {"retry_throttle_total": _RETRIES, "retry_throttle_backoff_max": _LONGEST_RETRY, **self.options}


def address(
    database: Any, container: Any, *, endpoint: str | None, credential: Any, options: Mapping[str, Any] | None
) -> Address:
    """An address, completed from the environment. ValueError without an endpoint, TypeError for names of no text."""
    for name, given in (("database_name", database), ("container_name", container)):
        if not isinstance(given, str) or not given:
            raise TypeError(f"{name} must be a name, not {type(given).__name__}; for example {name}='threads'")
    endpoint = endpoint or os.environ.get(ENDPOINT_VARIABLE)
    if not endpoint:
        raise ValueError(
            f"no endpoint of a Cosmos DB account: pass endpoint='https://NAME.documents.azure.com:443/' or set "
            f"{ENDPOINT_VARIABLE}"
        )
    return Address(
        endpoint=endpoint,
        database=database,
        container=container,
        credential=credential or os.environ.get(KEY_VARIABLE) or None,
        options=options or {},
    )


def address_from(text: str) -> Address:
    """The address in a connection string as the Azure portal shows it, or in a URL.

    ``AccountEndpoint=...;AccountKey=...`` may be followed by ``Database=...;Container=...``. A URL is
    ``cosmosdb://NAME.documents.azure.com/DATABASE/CONTAINER``, with ``?key=...`` unless the environment or an
    identity is to let us in; ``https://`` is the same, ``cosmosdb+http://`` or ``http://`` an emulator without TLS.
    """
    if "://" in text.partition(";")[0].partition("=")[0]:
        return _from_url(text)
    pairs = [part.partition("=") for part in text.split(";") if part]
    parts = {name.strip().lower(): value for name, _, value in pairs}
    if "accountendpoint" not in parts or not parts.keys() <= _KNOWN:
        raise ValueError(
            "a connection string of Cosmos DB is AccountEndpoint=...;AccountKey=...;Database=...;Container=..., the "
            "last three of them optional"
        )
    return address(
        parts.get("database", DATABASE),
        parts.get("container", CONTAINER),
        endpoint=parts["accountendpoint"],
        credential=parts.get("accountkey"),
        options=None,
    )


def _from_url(text: str) -> Address:
    url = urlsplit(text)
    names = [unquote(part) for part in url.path.split("/") if part]
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    host = url.netloc.rpartition("@")[2]
    if not host or len(names) > 2 or not query.keys() <= {"key"}:
        raise ValueError("a URL of Cosmos DB is cosmosdb://NAME.documents.azure.com/DATABASE/CONTAINER?key=KEY")
    scheme = _SCHEMES.get(url.scheme, url.scheme)
    names += (DATABASE, CONTAINER)[len(names) :]
    # A plus in a query is a blank to most readers, and to none in a key.
    key = query["key"].replace(" ", "+") if "key" in query else None
    return address(*names, endpoint=f"{scheme}://{host}/", credential=key, options=None)
