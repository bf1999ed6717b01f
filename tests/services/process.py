"""One server as a child process: started, waited for, stopped."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 30.0
"""Seconds that a server has to come up, and to go down."""
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


class NotStarted(RuntimeError):
    """A server that the tests need did not come up."""


class Server:
    """A running child process that can be killed and started again on the same port and files."""

    def __init__(
        self, command: Sequence[str], folder: Path, probe: Callable[[], object], *, user: int | None = None
    ) -> None:
        self._command, self._probe, self._user = list(command), probe, user
        self._log = folder / "log"
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._log.parent,
                user=self._user,
                group=self._user,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._probe()
                return process
            except Exception as error:
                if process.poll() is not None or time.monotonic() > end:
                    process.kill()
                    raise NotStarted(f"{self._command[0]}: {error}\n{self._last_words()}") from error
            time.sleep(0.02)

    def _last_words(self) -> str:
        return self._log.read_bytes()[-2000:].decode(errors="replace")

    def kill(self) -> None:
        """As a power cut would: with the processes that it has started, which else may still answer for a moment."""
        family = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = family.read_text(encoding="ascii").split() if family.exists() else []
        self.process.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.process.wait(PATIENCE)

    def start(self) -> None:
        """Up again after ``kill``."""
        self.process = self._started()

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Down, in an orderly way if it can be. Idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(PATIENCE / 3)
            except subprocess.TimeoutExpired:
                self.kill()


def _die_with_parent() -> None:
    """In the child: a killed test run leaves no server behind."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder that other users may enter, removed at the end."""
    made = Path(tempfile.mkdtemp(prefix=f"threadmark-{prefix}-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
