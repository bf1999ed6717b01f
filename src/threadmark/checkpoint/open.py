"""Opening a saver by the name of its store."""

from __future__ import annotations

import logging
import os
from typing import Any

from threadmark.checkpoint.serde.encrypted import KEY_VARIABLES, EncryptedSerializer

__all__ = ["open_saver"]

_log = logging.getLogger("threadmark")


def open_saver(name: str, *, serde: Any = None, read_only: bool = False) -> Any:
    """A saver on the store that ``name`` says: a path, ``:memory:`` or a ``sqlite:///`` URL.

    Without ``serde`` and with ``THREADMARK_AES_KEY`` or ``LANGGRAPH_AES_KEY`` in the environment everything is
    encrypted with that key, which is logged. ``read_only`` opens what exists and changes nothing. ValueError for a
    URL that no saver of this version opens.
    """
    scheme, separator, _ = name.partition("://")
    if separator and scheme not in ("sqlite", "file"):
        raise ValueError(f"no saver for {scheme}:// here; use a path or sqlite:///path")
    from threadmark.checkpoint.sqlite import SqliteSaver

    serde = serde if serde is not None else _from_environment(name)
    if read_only:
        return SqliteSaver.open_read_only(name, serde=serde)
    return SqliteSaver.from_conn_string(name, serde=serde)


def _from_environment(name: str) -> Any:
    variable = next((each for each in KEY_VARIABLES if os.environ.get(each)), None)
    if variable is None:
        return None
    serde = EncryptedSerializer.from_pycryptodome_aes()
    _log.info("%s is set: what is stored in %s is encrypted with it", variable, name)
    return serde
