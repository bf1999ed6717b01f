"""Stores that commands name by path or URL, and the serializer that reads their values."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from threadmark.checkpoint.serde.encrypted import KEY_VARIABLES, EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import SaverError
from threadmark.interop.listed import check_listed

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="MODULE[:CLASS]",
        help="A class of yours that values may hold, or all of a module; it is imported. May be repeated.",
        show_default=False,
    ),
]


def serializer(allow: list[str] | None) -> Any:
    """Strict, with the classes that were named; behind the key in the environment if there is one.

    ``BadParameter`` for a module or class that is not there.
    """
    sys.path.insert(0, "")  # as `python -m` does: their modules lie where the command is run
    try:
        check_listed(list(allow or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--allow") from error
    inner = JsonPlusSerializer(allow=list(allow or ()))
    if not any(os.environ.get(name) for name in KEY_VARIABLES):
        return inner
    try:
        return EncryptedSerializer.from_pycryptodome_aes(serde=inner)
    except (ValueError, ImportError) as error:
        raise SaverError(str(error)) from error
