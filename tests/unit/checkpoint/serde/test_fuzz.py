"""A short run of the fuzzer; the long one is behind its command."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("form", ["ours", "peer", "encrypted"])
def test_mutants_end_in_typed_errors_and_nothing_else_happens(form: str) -> None:
    # In a process of its own, since an audit hook cannot be taken off again.
    program = (
        "import sys, tracemalloc; from tests.unit.checkpoint.serde import fuzz; tracemalloc.start();"
        f"out = fuzz.run({form!r}, seed=7, enough=lambda tried: tried >= 1500);"
        "print(out['tried'], out['past the first extension'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    tried, passed = map(int, done.stdout.split())
    assert passed > 0.2 * tried
