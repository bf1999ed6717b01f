"""The arrows between layers, as drawn in ARCHITECTURE.md: an import never points upwards."""

from __future__ import annotations

import pytest

from tests.house.source import PACKAGE, Import, imports, modules

GROUND = frozenset({"errors", "ids", "constants", "tuples"})
WORDS = GROUND | {"types", "config", "colour", "later"}
SAVING = WORDS | {"checkpoint.base", "checkpoint.serde"}
RUNNING = WORDS | {"channels", "checkpoint.base", "store", "cache", "runtime", "managed"}

# A layer and the layers it may import. A module belongs to the longest prefix that names it.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "constants": frozenset(),
    "origin": frozenset(),
    "ids": frozenset({"errors", "constants"}),
    "later": frozenset(),
    "tuples": frozenset(),
    "colour": frozenset({"errors", "later"}),
    "types": GROUND,
    "config": GROUND | {"types"},
    "channels": WORDS,
    "managed": frozenset(),
    "checkpoint.serde": WORDS,
    "checkpoint.base": WORDS | {"checkpoint.serde"},
    "checkpoint.layout": GROUND | {"types", "config", "checkpoint.base", "checkpoint.serde"},
    "checkpoint": SAVING | {"checkpoint.layout"},
    "checkpoint.memory": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.sqlite": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.postgres": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.mongodb": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.redis": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.cosmosdb": SAVING | {"checkpoint.layout", "checkpoint"},
    "checkpoint.open": SAVING
    | {"checkpoint", "checkpoint.memory", "checkpoint.sqlite", "checkpoint.postgres", "checkpoint.mongodb"}
    | {"checkpoint.redis", "checkpoint.cosmosdb"},
    "checkpoint.conformance": SAVING | {"checkpoint", "origin"},
    "store": WORDS | {"checkpoint.serde"},
    "cache": WORDS | {"checkpoint.serde"},
    "runtime": WORDS | {"store"},
    "engine": RUNNING,
    "graph": RUNNING | {"engine"},
    "func": RUNNING | {"engine", "graph"},
    "pregel": RUNNING | {"engine", "graph"},
}
# Upward on purpose, each with its reason.
EXCEPTIONS = {
    # NodeInterrupt keeps its old signature, a bare value, and wraps it when it is raised.
    ("threadmark.errors", "threadmark.types"),
    # The types that a graph's annotations name are found at compile time by the walker that serde has for them.
    ("threadmark.graph.state", "threadmark.checkpoint.serde.allow"),
    ("threadmark.func", "threadmark.checkpoint.serde.allow"),
    ("threadmark.pregel.graph", "threadmark.checkpoint.serde.allow"),
}
# Nothing points at these; they may look at anything below.
TOPS = ("interop", "cli", "__main__")

# Packages of others that may be named in one place only, however late they are imported.
ONLY_IN = {
    "aiosqlite": ("checkpoint.sqlite",),
    "azure": ("checkpoint.cosmosdb",),
    "langgraph": ("interop",),
    "psycopg": ("checkpoint.postgres", "interop", "store"),
    "psycopg_pool": ("checkpoint.postgres", "store"),
    "pymongo": ("checkpoint.mongodb", "interop"),
    "redis": ("checkpoint.redis", "interop"),
    "rich": ("cli",),
    "sqlite3": ("checkpoint.sqlite", "store.sqlite", "cache.sqlite", "cli", "interop"),
    "typer": ("cli",),
}
# Slow to load, so below the tops they are imported by the function that needs them.
NEVER_AT_START = frozenset(
    {"attrs", "cryptography", "langchain_core", "msgspec", "numpy", "pandas", "polars", "pyarrow", "pydantic"}
)


def short(module: str) -> str:
    return module.removeprefix(PACKAGE).removeprefix(".")


def layer(module: str) -> str:
    """The layer of one of our modules; "" is the package's own ``__init__``."""
    name = short(module)
    known = [known for known in (*MAY_IMPORT, *TOPS) if within(name, known)]
    return max(known, key=len, default="")


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def ours() -> list[Import]:
    return [found for found in imports() if within(found.target, PACKAGE)]


def points_upwards(found: Import) -> bool:
    source, target = layer(found.module), layer(found.target)
    if source == target or source == "" or source in TOPS:
        return target in TOPS and source != target and source not in TOPS
    return target not in MAY_IMPORT[source]


def test_the_package_has_modules_and_each_has_a_layer() -> None:
    homeless = [name for name in modules() if name != PACKAGE and not layer(name)]
    assert modules()
    assert homeless == []


def test_no_import_points_upwards() -> None:
    upwards = [found for found in ours() if points_upwards(found)]
    assert [str(found) for found in upwards if (found.module, found.target) not in EXCEPTIONS] == []


def test_every_exception_is_still_needed() -> None:
    assert {(found.module, found.target) for found in ours() if points_upwards(found)} >= EXCEPTIONS


def test_the_table_itself_has_no_cycle() -> None:
    below: dict[str, frozenset[str]] = dict(MAY_IMPORT)
    while below:
        free = [name for name, needs in below.items() if not (needs & below.keys()) - {name}]
        assert free, f"these layers need each other: {sorted(below)}"
        for name in free:
            del below[name]


@pytest.mark.parametrize("driver", sorted(ONLY_IN))
def test_a_driver_is_named_only_in_its_own_folder(driver: str) -> None:
    strangers = [
        str(found)
        for found in imports()
        if within(found.target, driver) and not any(within(short(found.module), home) for home in ONLY_IN[driver])
    ]
    assert strangers == []


def test_slow_packages_are_imported_where_they_are_needed() -> None:
    eager = [
        str(found)
        for found in imports()
        if found.target.partition(".")[0] in NEVER_AT_START
        and found.at_module_level
        and not found.for_types_only
        and layer(found.module) not in TOPS
    ]
    assert eager == []
