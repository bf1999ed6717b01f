"""Sync and async are twins: where a class has ``x`` and ``ax``, they differ in colour and in nothing else."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, modules
from tests.house.test_layers import TOPS, layer

# Public methods that do no I/O, or hand back an object that serves both colours, and so have no twin.
ONE_COLOUR = frozenset(
    {
        # savers
        "add",
        "beside",
        "follow",
        "hold",
        "journal",
        "close",  # ends what both colours use; an event loop may also leave an "async with" block
        "from_conn_info",
        "from_conn_string",
        "named_types",
        "open_read_only",
        "open_writer",
        "port",
        "setup",  # awaitable itself where people await it, in AsyncSqliteSaver
        "get_next_version",
        "with_allowlist",
        "with_serde",
        # compiled graphs: facts about the graph, and copies of it
        "attach_branch",
        "attach_edge",
        "attach_node",
        "copy",
        "get_graph",
        "get_input_jsonschema",
        "get_output_jsonschema",
        "get_input_schema",
        "get_output_schema",
        "get_config_jsonschema",
        "get_context_jsonschema",
        "get_name",
        "get_subgraphs",
        "map",
        "validate",
        "with_config",
    }
)
COLOUR_WORDS = (
    (re.compile(r"\bAsync(Iterator|Iterable|Generator|ContextManager)\b"), r"\1"),
    (re.compile(r"\bAbstractAsyncContextManager\b"), "AbstractContextManager"),
    (re.compile(r"\b(?:Awaitable|Coroutine\[Any, Any,)\s*\[?(.*)\]$"), r"\1"),
    (re.compile(r"\bGenerator\[(.*), None, None\]$"), r"Generator[\1, None]"),
)


def public_classes() -> Iterator[type]:
    for name in modules():
        if layer(name) in TOPS or name.startswith(f"{PACKAGE}.checkpoint.conformance"):
            continue
        module = importlib.import_module(name)
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == name and not value.__name__.startswith("_"):
                yield value


def methods(cls: type) -> dict[str, object]:
    """The public functions that ``cls`` has from this package."""
    functions = inspect.getmembers(cls, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
    return {
        name: member
        for name, member in functions
        if not name.startswith("_") and (getattr(member, "__module__", None) or "").startswith(PACKAGE)
    }


def twins(cls: type) -> dict[str, str]:
    """Sync name -> async name, for every pair that the class has."""
    names = methods(cls)
    return {name[1:]: name for name in names if name.startswith("a") and name[1:] in names}


TWINNED = sorted({cls for cls in public_classes() if twins(cls)}, key=lambda cls: (cls.__module__, cls.__name__))


def bleached(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for pattern, plain in COLOUR_WORDS:
        text = pattern.sub(plain, text)
    return text


def shape(function: object) -> tuple[list[tuple[str, object, object, str]], str]:
    """A signature without its colour: names, kinds, defaults and annotations."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    parameters: list[tuple[str, object, object, str]] = [
        (one.name, one.kind, one.default, bleached(one.annotation)) for one in signature.parameters.values()
    ]
    return parameters, bleached(signature.return_annotation)


def test_the_known_pairs_are_found() -> None:
    found = {cls.__name__ for cls in TWINNED}
    assert {"CompiledStateGraph", "BaseCheckpointSaver", "InMemorySaver", "SqliteSaver"} <= found


@pytest.mark.parametrize("cls", TWINNED, ids=lambda cls: cls.__qualname__)
def test_twins_have_equal_signatures(cls: type) -> None:
    known = methods(cls)
    different = {
        name: (shape(known[name]), shape(known[twin]))
        for name, twin in twins(cls).items()
        if shape(known[name]) != shape(known[twin])
    }
    assert different == {}


@pytest.mark.parametrize("cls", TWINNED, ids=lambda cls: cls.__qualname__)
def test_every_method_that_does_io_has_a_twin(cls: type) -> None:
    known, pairs = methods(cls), twins(cls)
    alone = [name for name in known if name not in pairs and name not in pairs.values()]
    assert sorted(set(alone) - ONE_COLOUR) == []
