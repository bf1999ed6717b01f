"""What a saver can do, as one value that the conformance suite, the command line and a server read."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from threadmark.checkpoint.base import steps_supported

__all__ = ["BASE", "CAPABILITIES", "EXTENDED", "OWN", "Capabilities", "Capability", "Colour", "capabilities_of"]

Colour: TypeAlias = Literal["sync", "async"]
COLOURS: Final[tuple[Colour, Colour]] = ("sync", "async")
Level: TypeAlias = Literal["base", "extended", "own"]


class Capability(NamedTuple):
    """One thing that a saver may be able to do. ``method`` is the blocking one; its twin's name starts with ``a``."""

    name: str
    method: str
    level: Level
    enables: str


CAPABILITIES: Final = (
    Capability("put", "put", "base", "storing checkpoints"),
    Capability("put_writes", "put_writes", "base", "going on after a failure or a pause"),
    Capability("get_tuple", "get_tuple", "base", "resuming, looking back, forking"),
    Capability("list", "list", "base", "histories"),
    Capability("delete_thread", "delete_thread", "base", "deleting threads"),
    Capability("delete_for_runs", "delete_for_runs", "extended", "rolling a run back"),
    Capability("copy_thread", "copy_thread", "extended", "copying a thread"),
    Capability("prune", "prune", "extended", "dropping old checkpoints"),
    Capability("delta_channel_history", "get_delta_channel_history", "extended", "delta channels in few reads"),
    Capability("prune_rules", "prune", "own", "keeping the last N or the young ones, with a forecast"),
    Capability("put_step", "put_step", "own", "a superstep in one transaction"),
    Capability("open_writer", "open_writer", "own", "several supersteps in one transaction"),
    Capability("expected_head", "put", "own", "two writers on a thread never lose an update"),
)
"""Everything, in the order in which it is shown."""

BASE: Final = tuple(each.name for each in CAPABILITIES if each.level == "base")
EXTENDED: Final = tuple(each.name for each in CAPABILITIES if each.level == "extended")
OWN: Final = tuple(each.name for each in CAPABILITIES if each.level == "own")
_BY_NAME: Final = {each.name: each for each in CAPABILITIES}
_STEPS: Final = ("put_step", "open_writer")
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "expected_head": ("expected_head",),
    "prune_rules": ("keep_last", "older_than", "ns", "dry_run"),
}
"""Capabilities that are arguments of a method."""


@dataclass(frozen=True)
class Capabilities:
    """What one saver offers: for each capability the colours it is there in. Absent ones are not there."""

    offers: Mapping[str, frozenset[Colour]]
    inherited: frozenset[str] = frozenset()
    """Those that work by a default of the base class, on top of other methods."""

    def has(self, name: str, colour: Colour | None = None) -> bool:
        """Whether a capability is there, in this colour or in any."""
        found = self.offers.get(name, frozenset())
        return bool(found) if colour is None else colour in found

    @property
    def colours(self) -> tuple[Colour, ...]:
        """The colours in which at least one base method is there."""
        return tuple(colour for colour in COLOURS if any(self.has(name, colour) for name in BASE))

    def missing(self, colour: Colour) -> tuple[str, ...]:
        """Base methods that are not there in a colour."""
        return tuple(name for name in BASE if not self.has(name, colour))

    def without(self, colour: Colour) -> Capabilities:
        """The same without one colour."""
        left = {name: colours - {colour} for name, colours in self.offers.items()}
        return Capabilities({name: colours for name, colours in left.items() if colours}, self.inherited)

    def to_dict(self) -> dict[str, list[str]]:
        """Names of capabilities with their colours, for JSON."""
        return {each.name: sorted(self.offers[each.name]) for each in CAPABILITIES if self.has(each.name)}


def capabilities_of(saver: object) -> Capabilities:
    """What a saver, or a saver class, can do: which methods of the contract it has of its own.

    A class that says ``declared_capabilities = ("put", ...)`` is believed: nothing else counts, and what it names
    counts in every colour in which the method can be found at all. That is for savers that inherit what they cannot
    do, or pass calls on without having the methods.
    """
    kind = saver if isinstance(saver, type) else type(saver)
    instance = {} if isinstance(saver, type) else vars_of(saver)
    declared: Collection[str] | None = getattr(saver, "declared_capabilities", None)
    if declared is not None:
        _check(declared)
    offers: dict[str, frozenset[Colour]] = {}
    for each in CAPABILITIES:
        if declared is not None and each.name not in declared:
            continue
        colours = _colours(kind, instance, each, saver if declared is not None else None)
        if colours:
            offers[each.name] = colours
    inherited = set[str]()
    open_question = "get_tuple" in offers and "delta_channel_history" not in offers and declared is None
    if open_question and hasattr(kind, "get_delta_channel_history"):
        offers["delta_channel_history"] = offers["get_tuple"]
        inherited.add("delta_channel_history")
    if not isinstance(saver, type) and not steps_supported(saver):
        offers = {name: colours for name, colours in offers.items() if name not in _STEPS}
    return Capabilities(offers, frozenset(inherited))


def vars_of(saver: object) -> Mapping[str, Any]:
    """What was set on the object itself."""
    return getattr(saver, "__dict__", {})


def _check(declared: Collection[str]) -> None:
    unknown = sorted(set(declared) - _BY_NAME.keys())
    if unknown:
        raise ValueError(f"declared_capabilities: unknown {', '.join(unknown)}; known are {', '.join(_BY_NAME)}")


def _colours(kind: type, instance: Mapping[str, Any], each: Capability, proxy: object) -> frozenset[Colour]:
    found = dict[Colour, Any]()
    for colour, prefix in zip(COLOURS, ("", "a"), strict=True):
        method = instance.get(prefix + each.method) or own_method(kind, prefix + each.method)
        if method is None and proxy is not None:
            method = getattr(proxy, prefix + each.method, None)
        if method is not None:
            found[colour] = method
    if each.name == "open_writer":
        return frozenset(COLOURS) if "sync" in found else frozenset()
    if each.name in _ARGUMENTS:
        return frozenset(colour for colour, method in found.items() if _takes(method, _ARGUMENTS[each.name]))
    return frozenset(found)


def own_method(kind: type, name: str) -> Any:
    """A method that a class or one of its parents defines, other than the base of all savers: ours or the peer's."""
    for parent in kind.__mro__:
        if name in vars(parent):
            return None if parent.__name__ == "BaseCheckpointSaver" or parent is object else vars(parent)[name]
    return None


def _takes(method: Any, arguments: Collection[str]) -> bool:
    try:
        return set(arguments) <= inspect.signature(method).parameters.keys()
    except (TypeError, ValueError):  # built in C, or no function at all
        return False
