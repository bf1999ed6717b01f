"""What a workload is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.systems import SYSTEMS, System

Figures = dict[str, float]
Measure = Callable[[System], Figures]


@dataclass(frozen=True, slots=True)
class Workload:
    """A measurement with a name. It asserts its own results before it reports a figure."""

    name: str
    measure: Measure
    about: str
    systems: tuple[str, ...] = SYSTEMS
    # metric -> the most that Threadmark may need; only things that are counted have a limit
    limits: Mapping[str, float] = field(default_factory=dict)
    # metric -> how many times less than the peer Threadmark should need; for what is timed
    goals: Mapping[str, float] = field(default_factory=dict)
    # metric -> the most that Threadmark should need by itself; for what is timed
    bounds: Mapping[str, float] = field(default_factory=dict)


WORKLOADS: dict[str, Workload] = {}


def enter_all(found: tuple[Workload, ...]) -> None:
    """Enters workloads made from a table of variants."""
    for one in found:
        if one.name in WORKLOADS:
            raise ValueError(f"two workloads are called {one.name}")
        WORKLOADS[one.name] = one


def chosen(prefixes: list[str]) -> list[Workload]:
    """The workloads whose names begin with one of ``prefixes``, dot by dot; all of them for none."""
    if not prefixes:
        return list(WORKLOADS.values())
    picked = [one for one in WORKLOADS.values() if any(f"{one.name}.".startswith(f"{p}.") for p in prefixes)]
    if not picked:
        raise SystemExit(f"no workload begins with {' or '.join(prefixes)}; --list names them")
    return picked
