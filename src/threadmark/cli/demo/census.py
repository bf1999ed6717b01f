"""Conclusions from measured packages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from threadmark.cli.demo.licences import FAMILIES
from threadmark.cli.demo.packages import Package, normalised


@dataclass(frozen=True, slots=True)
class Share:
    """The packages under one family of licences."""

    family: str
    packages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Needed:
    """How many installed packages require this one."""

    name: str
    family: str
    by: int


@dataclass(frozen=True, slots=True)
class Census:
    """All packages of an installation, largest first, with totals. ``needed`` has the most needed first."""

    python: str
    packages: tuple[Package, ...]
    bytes: int
    files: int
    shares: tuple[Share, ...]
    needed: tuple[Needed, ...]


def census(python: str, packages: Sequence[Package]) -> Census:
    """Add up: the same packages give the same census, whatever order they were measured in."""
    ranked = tuple(sorted(packages, key=lambda p: (-p.bytes, p.name.lower(), p.place)))
    return Census(
        python=python,
        packages=ranked,
        bytes=sum(p.bytes for p in ranked),
        files=sum(p.files for p in ranked),
        shares=_shares(ranked),
        needed=_needed(ranked),
    )


def _shares(packages: Sequence[Package]) -> tuple[Share, ...]:
    of_family = defaultdict[str, list[Package]](list)
    for package in packages:
        of_family[package.family].append(package)
    shares = [Share(name, len(members), sum(p.bytes for p in members)) for name, members in of_family.items()]
    return tuple(sorted(shares, key=lambda share: (-share.packages, FAMILIES.index(share.family))))


def _needed(packages: Sequence[Package]) -> tuple[Needed, ...]:
    """Fan-in. A package that is installed twice counts once, as one that needs and as one that is needed."""
    by_name = {normalised(p.name): p for p in reversed(packages)}
    needs = {(normalised(p.name), name) for p in packages for name in p.requires}
    fan_in = Counter(name for needer, name in needs if name in by_name and needer != name)
    ranked = sorted(fan_in.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Needed(by_name[name].name, by_name[name].family, count) for name, count in ranked)
