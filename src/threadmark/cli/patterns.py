"""Threads chosen by shell patterns, as the option ``--thread`` of several commands gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from threadmark.errors import SaverError


class NoMatch(SaverError, LookupError):
    """Patterns that no thread matches. ``lister`` is the command that lists what could have been meant."""

    def __init__(self, patterns: Sequence[str], place: str, lister: str) -> None:
        told = " or ".join(map(repr, patterns))
        super().__init__(f"no thread in {place} matches {told}; `threadmark {lister}` lists what there is")
        self.patterns = tuple(patterns)


class Chosen(NamedTuple):
    """Threads that match one of the patterns, and the patterns that none of them matches."""

    threads: list[str]
    unmatched: list[str]


def chosen(thread_ids: Iterable[str], patterns: Sequence[str]) -> Chosen:
    """The threads that match one of these patterns; all of them without any."""
    known = list(thread_ids)
    if not patterns:
        return Chosen(known, [])
    threads = [one for one in known if any(fnmatchcase(one, pattern) for pattern in patterns)]
    return Chosen(threads, [pattern for pattern in patterns if not any(fnmatchcase(one, pattern) for one in threads)])
