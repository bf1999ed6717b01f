"""A disk that is small, and can be filled and freed: a file system in memory of a fixed size."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.process import folder

_SYS_ADMIN = 21


def may_mount() -> bool:
    """Whether this process may mount anything: root may, unless a container took that from it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> _SYS_ADMIN & 1)


class Disk:
    """A mounted file system at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, *, left: int) -> None:
        """Leave only so many bytes."""
        state = os.statvfs(self.path)
        with self._ballast.open("ab") as file:
            file.write(b"\0" * max(0, state.f_bavail * state.f_frsize - left))

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink()


@contextmanager
def small_disk(megabytes: int) -> Iterator[Disk]:
    """A disk of so many MB for as long as the block lasts."""
    with folder("disk") as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", place], check=True)
        try:
            yield Disk(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
