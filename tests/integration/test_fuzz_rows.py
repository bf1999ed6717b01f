"""A short run over damaged files; the long one is behind its command."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("form", ["plain", "encrypted"])
def test_damaged_rows_end_in_typed_errors_and_nothing_else_happens(form: str) -> None:
    # In a process of its own, since an audit hook cannot be taken off again.
    program = (
        "from tests.integration import fuzz_rows;"
        f"out = fuzz_rows.run({form!r}, seed=7, memory=True, enough=lambda tried: tried >= 25);"
        "print(out['tried'], out['read'], sum(count for name, count in out.items() if name[0].isupper()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    tried, read, refused = map(int, done.stdout.split())
    assert tried == 25
    assert refused > 25
    assert read > 25
