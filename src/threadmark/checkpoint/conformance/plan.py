"""Which checks are run, in which colours and over which serializers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from threadmark.checkpoint.capabilities import Capabilities, Colour
from threadmark.checkpoint.conformance.checks import CHECKS
from threadmark.checkpoint.conformance.kit import cases_of
from threadmark.checkpoint.conformance.payloads import PAYLOADS


class Check(NamedTuple):
    """One check, ready to run."""

    kind: type[Any]
    method: str
    case: str | None
    colour: Colour
    payload: str

    @property
    def capability(self) -> str:
        """What it is about."""
        return str(self.kind.capability)

    @property
    def name(self) -> str:
        """How it is shown: the method without its prefix, and its case."""
        short = self.method.removeprefix("test_")
        return short if self.case is None else f"{short}[{self.case}]"

    def run(self, saver: Any, call: Any) -> None:
        """Run it; AssertionError, or whatever the saver raises, if it fails."""
        method = getattr(self.kind(), self.method)
        found = cases_of(method)
        if found is None or self.case is None:
            method(saver, call)
        else:
            name, values = found
            method(saver, call, **{name: values[self.case]})


def checks_for(
    capabilities: Capabilities, wanted: Collection[str] | None = None, payloads: Sequence[str] = PAYLOADS
) -> Iterator[Check]:
    """The checks for what a saver offers; ``wanted`` narrows them to some capabilities."""
    for kind in CHECKS:
        if wanted is not None and kind.capability not in wanted:
            continue
        colours = [colour for colour in capabilities.colours if capabilities.has(kind.capability, colour)]
        once = runs_once(kind)
        for colour in colours[:1] if once else colours:
            for payload in payloads[:1] if once else payloads:
                yield from _checks(kind, colour, payload)


def _checks(kind: type[Any], colour: Colour, payload: str) -> Iterator[Check]:
    for method in methods_of(kind):
        found = cases_of(getattr(kind, method))
        for case in [None] if found is None else found[1]:
            yield Check(kind, method, case, colour, payload)


def runs_once(kind: type[Any]) -> bool:
    """Whether one colour and one serializer are enough: the check is slow, and these change nothing about it."""
    return bool(getattr(kind, "once", False))


def methods_of(kind: type[Any]) -> list[str]:
    """The names of a class's checks, in the order in which they are written."""
    return [name for name in vars(kind) if name.startswith("test_")]
