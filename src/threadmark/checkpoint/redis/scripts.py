"""The Lua programs that the server runs, each in one step that nobody sees half of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, TypeAlias

Command: TypeAlias = tuple[Any, ...]


class Script:
    """A program that the server knows by its digest once it has run."""

    __slots__ = ("digest", "text")

    def __init__(self, name: str) -> None:
        self.text = files("threadmark.checkpoint.redis").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def on(self, keys: Sequence[bytes], args: Sequence[Any] = ()) -> Command:
        """The command that runs it on these keys, if the server knows it."""
        return ("EVALSHA", self.digest, len(keys), *keys, *args)


def in_full(command: Command) -> Command:
    """The same command with the program itself."""
    return ("EVAL", _BY_DIGEST[command[1]].text, *command[2:]) if command[0] == "EVALSHA" else command


def key_of(command: Command) -> bytes:
    """The key that says which server of a cluster a command is for."""
    key: bytes = command[3] if command[0].startswith("EVAL") else command[1]
    return key


LOOK: Final = Script("look")
CHANGE: Final = Script("change")
ENLIST: Final = Script("enlist")
ENTERED: Final = Script("entered")
LISTED: Final = Script("listed")
OLDEST: Final = Script("oldest")
STRIKE: Final = Script("strike")
_BY_DIGEST: Final = {script.digest: script for script in (LOOK, CHANGE, ENLIST, ENTERED, LISTED, OLDEST, STRIKE)}
