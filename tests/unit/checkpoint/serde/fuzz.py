"""Throws mutants of valid values at the serializers: only typed errors, no import, no process, no file, bounded memory.

    python -m tests.unit.checkpoint.serde.fuzz --seconds 3600 [--form ours|peer|encrypted] [--coverage]

prints how many inputs it tried, how many got past their first extension, what became of them, the greatest memory it
saw and, with --coverage, the share of branches of ``threadmark.checkpoint.serde`` that were taken.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import random as random_module
import resource
import signal
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ormsgpack

import threadmark.checkpoint.serde
from tests.unit.checkpoint.serde.branches import Branches
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

MEMORY_PER_BYTE = 4000
MEMORY_FLOOR = 16 << 20
FORBIDDEN = (
    "import", "open", "os.", "subprocess.", "socket.", "ctypes.", "exec", "compile", "pickle.find_class", "shutil.",
    "urllib.", "winreg.", "webbrowser.", "tempfile.", "glob.",
)  # fmt: skip
# Reading a time zone that the system lists means opening its file.
_ALLOWED_FILES = ("zoneinfo", "tzdata")


def mutated(body: bytes, random: random_module.Random) -> bytes:
    """One mutant: bits flipped, bytes replaced, cut, doubled, moved, or lengths and extension codes exchanged."""
    out = bytearray(body)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        if not out:
            break
        at = random.randrange(len(out))
        kind = random.randrange(8)
        if kind == 0:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            out[at] = random.choice(
                (0, 1, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xC1, 0xC4, 0xC7, 0xCF, 0xD4, 0xDD, 0xDF, 0xFF)
            )
        elif kind == 2:
            del out[at : at + random.randrange(1, 9)]
        elif kind == 3:
            out[at:at] = out[at : at + random.randrange(1, 33)]
        elif kind == 4:
            other = random.randrange(len(out))
            size = random.randrange(1, 17)
            out[at : at + size] = out[other : other + size]
        elif kind == 5:
            out[at:at] = bytes(random.randrange(256) for _ in range(random.randrange(1, 5)))
        elif kind == 6:
            heads = [place for place, head in enumerate(out) if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8]
            if heads:
                place = random.choice(heads) + random.choice((1, 2, 3))
                if place < len(out):
                    out[place] = random.choice((*range(8), *range(0x10, 0x31), *range(0x50, 0x7F)))
        else:
            del out[at:]
    return bytes(out)


class Watch:
    """Counts what Python reports that it does while ``watching`` is on."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching or not event.startswith(FORBIDDEN):
            return
        shown = " ".join(str(arg)[:80] for arg in args[:1])
        if event in ("os.listdir", "os.scandir", "open") and any(name in shown for name in _ALLOWED_FILES):
            return
        # numpy and pandas compile nothing; a pattern is compiled by Python's own code without this event.
        self.seen.append(f"{event} {shown}")


_watch: Watch | None = None


def watch() -> Watch:
    """The one audit hook of this process; hooks cannot be taken off."""
    global _watch
    if _watch is None:
        _watch = Watch()
    return _watch


def first_extension_passed(body: bytes) -> bool:
    """Whether a decoder gets as far as a second token behind the head of the first extension."""
    passed: list[int] = []

    def hook(code: int, data: bytes) -> Any:
        passed.append(code)
        return None

    try:
        ormsgpack.unpackb(body, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)
    except ValueError:
        pass
    return bool(passed)


def seeds(form: str) -> list[tuple[str, bytes]]:
    """Valid stored values of one form."""
    from tests.unit.checkpoint.serde.samples import ALLOWED, each

    serde = JsonPlusSerializer(allow=ALLOWED)
    if form == "ours":
        values = each()
        return [serde.dumps_typed(value) for value in (*values, *([value] for value in values), {"all": values})]
    if form == "peer":
        from tests.unit.checkpoint.serde.test_legacy import CASES

        stored = [ormsgpack.packb({"k": [part]}) for part, _ in CASES]
        envelope = b'{"lc":2,"type":"constructor","id":["datetime","date"],"args":[2020,1,1]}'
        return [*(("msgpack", body) for body in stored), ("json", envelope)]
    encrypted = _encrypted()
    return [encrypted.dumps_typed(value) for value in each()[:60]]


def _encrypted() -> Any:
    from tests.unit.checkpoint.serde.samples import ALLOWED
    from threadmark.checkpoint.serde.encrypted import EncryptedSerializer

    return EncryptedSerializer.from_pycryptodome_aes(serde=JsonPlusSerializer(allow=ALLOWED), key=b"k" * 16)


def targets(form: str) -> list[Callable[[tuple[str, bytes]], Any]]:
    """What is fed: default settings, the tests' classes allowed, and the viewer."""
    from tests.unit.checkpoint.serde.samples import ALLOWED
    from threadmark.checkpoint.serde.view import ViewSerializer

    if form == "encrypted":
        return [_encrypted().loads_typed]
    loads = (JsonPlusSerializer().loads_typed, JsonPlusSerializer(allow=ALLOWED).loads_typed)
    return [*loads, ViewSerializer().loads_typed]


def inputs(valid: Sequence[tuple[str, bytes]], seed: int) -> Iterator[tuple[str, bytes]]:
    """Mutants for ever, the same for the same seed."""
    random = random_module.Random(seed)
    while True:
        tag, body = random.choice(valid)
        yield tag, mutated(body, random)


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings of numpy and pandas about odd values are no failures."""
    import numpy as np

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def run(form: str, *, seed: int, enough: Callable[[int], bool]) -> collections.Counter[str]:
    """Feeds mutants until ``enough(tried)``. Raises AssertionError with the input when anything else happens."""
    outcome: collections.Counter[str] = collections.Counter()
    hook, loads, valid = watch(), targets(form), seeds(form)
    whole = {body for _, body in valid} if form == "encrypted" else None
    # The libraries load parts of themselves when they first need them.
    importlib.import_module("pandas.core.arrays.arrow._arrow_utils")
    with quiet():
        for load in loads:
            for stored in valid:
                _try(load, stored)  # modules and caches of the libraries are loaded now
        for tag, body in inputs(valid, seed):
            outcome["tried"] += 1
            outcome["past the first extension"] += form == "encrypted" or first_extension_passed(body)
            for load in loads:
                result = _feed(load, (tag, body), hook, outcome)
                assert result != "loaded" or whole is None or body in whole, (tag, body.hex())
            if enough(outcome["tried"]):
                break
    return outcome


def _feed(
    load: Callable[[tuple[str, bytes]], Any], stored: tuple[str, bytes], hook: Watch, outcome: collections.Counter[str]
) -> str:
    shown = (stored[0], stored[1].hex())
    hook.seen.clear()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak() if tracemalloc.is_tracing() else None
    hook.watching = True
    try:
        result = _try(load, stored)
    finally:
        hook.watching = False
    assert not hook.seen, (hook.seen, shown)
    assert result in ("loaded", "DeserializationError") or result.endswith("Value"), (result, shown)
    outcome[result] += 1
    if tracemalloc.is_tracing():
        peak = tracemalloc.get_traced_memory()[1] - before
        outcome["peak"] = max(outcome["peak"], peak)
        assert peak < MEMORY_FLOOR + MEMORY_PER_BYTE * len(stored[1]), (peak, shown)
    return result


def _try(load: Callable[[tuple[str, bytes]], Any], stored: tuple[str, bytes]) -> str:
    try:
        load(stored)
    except DeserializationError as error:
        if _ran_out(error):
            return "out of memory"
        kind = type(error)
        return kind.__name__ if kind.__module__.startswith("threadmark.") else repr(error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    return "loaded"


def _ran_out(error: BaseException | None) -> bool:
    """Whether an error hides that memory was asked for which is not there: some smaller number would have got it."""
    seen = set[int]()  # an error and its cause can be each other's context
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def until(seconds: float) -> Callable[[int], bool]:
    """Whether so much processor time has passed, or somebody has asked the process to end."""
    end, asked = time.process_time() + seconds, list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    return lambda _: bool(asked) or time.process_time() > end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--form", choices=("ours", "peer", "encrypted"), default="ours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="watch the peak of Python's memory at each input (slow)")
    parser.add_argument("--coverage", action="store_true", help="count the branches taken in the package (slow)")
    print(_measured(parser.parse_args()))


def _measured(options: argparse.Namespace) -> str:
    """Runs as the options say, and the figures in words."""
    if options.memory:
        tracemalloc.start()
    branches = Branches(Path(str(threadmark.checkpoint.serde.__file__)).parent)
    with branches if options.coverage else nullcontext():
        outcome = run(options.form, seed=options.seed, enough=until(options.seconds))
    passed = outcome["past the first extension"] / outcome["tried"]
    lines = [f"{options.form}: {outcome['tried']} mutants, {passed:.0%} past the first extension"]
    lines += [f"  {name}: {count}" for name, count in sorted(outcome.items())]
    lines.append(f"  processor time: {time.process_time():.0f} s")
    lines.append(f"  resident memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
    if options.coverage:
        counts = branches.counts()
        taken, there = map(sum, zip(*counts.values(), strict=True))
        lines.append(f"  branches taken: {taken} of {there}, {taken / there:.0%}")
        lines += [f"    {name}: {taken} of {there}" for name, (taken, there) in counts.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
