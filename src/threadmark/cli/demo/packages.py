"""Finding the packages of a Python installation, and measuring one of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from threadmark.cli.demo import licences
from threadmark.errors import ThreadmarkError


@dataclass(frozen=True, slots=True)
class Found:
    """An installed package before it is measured: its metadata's path, and the installation that it belongs to."""

    path: str
    place: str


@dataclass(frozen=True, slots=True)
class Package:
    """What one installed package weighs, permits and needs. ``requires`` are normalised names."""

    name: str
    version: str
    place: str
    bytes: int
    files: int
    licence: str
    family: str
    requires: tuple[str, ...]


class NoMatch(ThreadmarkError):
    """A pattern that no installed package matches."""

    def __init__(self, pattern: str, names: list[str]) -> None:
        some = ", ".join(sorted(names)[:3])
        super().__init__(f"none of {len(names)} packages matches {pattern!r}; there are {some} and others, see --only")


class NoPython(ThreadmarkError):
    """There is no Python interpreter where the user said."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"no Python answers at {place}: {reason}; name an interpreter or a virtual environment")


# -- finding ---------------------------------------------------------------------------------------------------------

# Runs in the interpreter that is asked, which may be older than ours.
_PROBE = """
import json, sys
print(json.dumps({"version": sys.version.split()[0], "prefix": sys.prefix, "base_prefix": sys.base_prefix,
                  "base": getattr(sys, "_base_executable", None), "path": [p for p in sys.path if p]}))
"""


def interpreter(python: str | None) -> str:
    """The path of an interpreter from what a user gives: a path, a command, a virtual environment, or nothing."""
    if python is None:
        return sys.executable
    given = Path(python).expanduser()
    inside = [given / "bin" / "python", given / "bin" / "python3", given / "Scripts" / "python.exe"]
    for path in inside if given.is_dir() else [given]:
        if path.is_file():
            return os.path.abspath(path)
    command = shutil.which(python)
    if command is None:
        raise NoPython(python, "there is nothing of that name")
    return os.path.abspath(command)


def find(python: str) -> tuple[str, list[Found]]:
    """The version of an interpreter, and all packages of it and of the base installation under it."""
    asked = _ask(python)
    seen: set[str] = set()
    if asked["prefix"] == asked["base_prefix"]:
        return asked["version"], list(_listed(asked["path"], "installation", seen))
    base = _ask(asked["base"]) if asked["base"] else {"path": []}
    own = [folder for folder in asked["path"] if folder not in base["path"]]
    return asked["version"], [*_listed(own, "environment", seen), *_listed(base["path"], "base", seen)]


def _ask(python: str) -> dict[str, Any]:
    try:
        done = subprocess.run([python, "-E", "-c", _PROBE], capture_output=True, text=True, check=True, cwd=os.sep)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise NoPython(python, str(error)) from error
    return answer


def _listed(folders: Sequence[str], place: str, seen: set[str]) -> Iterator[Found]:
    """Packages in import order: of two with one name in one place, Python sees the first only."""
    for folder in folders:
        if not os.path.isdir(folder):
            continue
        for entry in sorted(os.listdir(folder), key=str.lower):
            found = Found(os.path.join(folder, entry), place)
            key = f"{place}/{name_of(found)}"
            if entry.endswith((".dist-info", ".egg-info")) and not entry.startswith("~") and key not in seen:
                seen.add(key)
                yield found


def name_of(found: Found) -> str:
    """A package's normalised name, by the name of its metadata's folder."""
    return normalised(os.path.splitext(os.path.basename(found.path))[0].partition("-")[0])


# -- measuring -------------------------------------------------------------------------------------------------------


def measured(found: Found) -> Package:
    """Weigh a package's files on disk and read its metadata."""
    distribution = Distribution.at(found.path)
    about: Any = distribution.metadata
    stem = os.path.splitext(os.path.basename(found.path))[0].split("-")
    sizes = [path.lstat().st_size for path in files(distribution, Path(found.path))]
    licence = licences.stated(
        about.get("License-Expression") or "", about.get_all("Classifier") or (), about.get("License") or ""
    ) or _licence_by_text(distribution, about)
    return Package(
        name=about.get("Name") or stem[0],
        version=about.get("Version") or (stem[1] if len(stem) > 1 else ""),
        place=found.place,
        bytes=sum(sizes),
        files=len(sizes),
        licence=licence,
        family=licences.family(licence),
        requires=required(distribution.requires or ()),
    )


def files(distribution: Distribution, metadata: Path) -> Iterator[Path]:
    """The package's files that are there: those on its record, or, when it has none, those of its modules."""
    recorded = {Path(os.path.normpath(str(file.locate()))) for file in distribution.files or ()}
    there = [path for path in recorded if path.is_file()]
    return iter(there) if there else _walked(distribution, metadata)


def _walked(distribution: Distribution, metadata: Path) -> Iterator[Path]:
    named = (distribution.read_text("top_level.txt") or "").split()
    names = named or [metadata.name.partition("-")[0]]
    roots = [metadata, *(metadata.parent / name for name in names), *(metadata.parent / f"{name}.py" for name in names)]
    for root in roots:
        if root.is_file():
            yield root
        for folder, _, inside in os.walk(root):
            yield from (path for name in inside if (path := Path(folder, name)).is_file())


def _licence_by_text(distribution: Distribution, about: Any) -> str:
    names = about.get_all("License-File") or ()
    texts = (distribution.read_text(place + name) for name in names for place in ("", "licenses/"))
    return next((found for text in texts if text and (found := licences.recognised(text))), "")


def required(lines: Sequence[str]) -> tuple[str, ...]:
    """Names of the packages in requirement lines, without those that only an extra wants."""
    wanted = (line for line in lines if not re.search(r";.*\bextra\s*==", line))
    names = (re.match(r"\s*([A-Za-z0-9][\w.-]*)", line) for line in wanted)
    return tuple(dict.fromkeys(normalised(match[1]) for match in names if match))


def normalised(name: str) -> str:
    """The spelling under which package names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()
