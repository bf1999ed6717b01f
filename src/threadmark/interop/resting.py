"""Files that are read as they lie on the disk, and whether somebody has written to them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from threadmark.cli.traceless import marks, way_into
from threadmark.interop.rows import Changed

__all__ = ["Resting"]


class Resting:
    """A SQLite file that is opened so that nothing is made beside it.

    One that no process has open is read as a file that does not change. Whether it did not is looked up after
    each reading; if it did, what was read does not count.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._opened = ExitStack()

    def open(self) -> str:
        """A URI for ``sqlite3``, good until the next call or ``close``."""
        self._opened.close()
        self._marks = marks(self.path)
        way = self._opened.enter_context(way_into(self.path))
        self._is_still = way.is_still
        return way.uri

    def has_changed(self) -> bool:
        """Whether it has to be opened again to be read as it is now."""
        return self._is_still and marks(self.path) != self._marks

    @contextmanager
    def steady(self) -> Iterator[None]:
        """``Changed`` if somebody has written to the file by the end of the block, whatever was read in it."""
        try:
            yield
        except Exception as error:
            if self.has_changed():
                raise self._complaint() from error
            raise
        if self.has_changed():
            raise self._complaint()

    def _complaint(self) -> Changed:
        return Changed(f"{self.path} was written to while it was read; start the command again")

    def close(self) -> None:
        """Let go of it."""
        self._opened.close()
