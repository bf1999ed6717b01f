"""The core starts quickly and needs nothing but its four wheels."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.house.source import PACKAGE, modules
from tests.house.test_layers import TOPS, layer

HEAVY = (
    "pydantic",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "langchain_core",
    "langsmith",
    "cryptography",
    "typer",
    "rich",
    "httpx",
    "multiprocessing",
)
WHEELS = ("ormsgpack", "typing_extensions", "xxhash", "zstandard", "_cffi_backend", PACKAGE)
# Folders that exist to talk to a driver or library from an extra.
WITH_EXTRA = ("checkpoint.postgres", "checkpoint.mongodb", "checkpoint.redis", "checkpoint.cosmosdb")

REFUSE_ALL_BUT = """
    import sys
    from importlib.abc import MetaPathFinder

    class Refuse(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in {allowed!r}:
                return None
            raise ModuleNotFoundError(f"{{name}} is not part of a bare install", name=name)

    sys.meta_path.insert(0, Refuse())
"""


def run_python(program: str) -> str:
    """Runs a program in a process of its own and returns what it printed; its errors fail the test."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_builder_loads_nothing_heavy() -> None:
    loaded = run_python("import sys, threadmark.graph; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_a_blocking_program_never_loads_asyncio() -> None:
    program = """
    import sys
    from typing import TypedDict
    from threadmark.checkpoint.sqlite import SqliteSaver
    from threadmark.graph import START, StateGraph

    class State(TypedDict):
        number: int

    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"number": state["number"] + 1})
    builder.add_edge(START, "one")
    with SqliteSaver.from_conn_string(":memory:") as saver:
        graph, config = builder.compile(checkpointer=saver), {"configurable": {"thread_id": "1"}}
        for durability in ("sync", "async", "exit"):
            assert graph.invoke({"number": 1}, config, durability=durability) == {"number": 2}
        assert graph.get_state(config).values == {"number": 2}
        assert list(graph.stream({"number": 2}, config)) == [{"one": {"number": 3}}]
    print("asyncio" in sys.modules)
    """
    assert run_python(program).strip() == "False"


def test_every_core_module_imports_in_a_bare_install() -> None:
    core = [
        name
        for name in modules()
        if layer(name) not in (*TOPS, *WITH_EXTRA) and not name.startswith(f"{PACKAGE}.checkpoint.conformance")
    ]
    blocked = textwrap.dedent(REFUSE_ALL_BUT.format(allowed=WHEELS))
    run_python(blocked + "".join(f"import {name}\n" for name in core))


def test_a_graph_runs_in_a_bare_install() -> None:
    program = """
    from typing import Annotated, TypedDict
    from operator import add
    from threadmark.checkpoint.memory import InMemorySaver
    from threadmark.graph import END, START, StateGraph

    class State(TypedDict):
        seen: Annotated[list[str], add]

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"seen": ["a"]})
    builder.add_edge(START, "a")
    builder.add_edge("a", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    print(graph.invoke({"seen": []}, {"configurable": {"thread_id": "1"}}))
    """
    blocked = textwrap.dedent(REFUSE_ALL_BUT.format(allowed=WHEELS))
    assert run_python(blocked + textwrap.dedent(program)).strip() == "{'seen': ['a']}"
