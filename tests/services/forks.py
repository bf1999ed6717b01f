"""A program whose commands may die: each runs in a fork of it, and how that ended is told."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(run: Callable[..., Any]) -> None:
    """Call ``run`` in a fork with each line of arguments, JSON on standard input, and print the fork's exit code."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(*json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
