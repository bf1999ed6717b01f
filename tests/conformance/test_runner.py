"""``validate``: it finds faults, counts fairly, takes factories in every form, and reports in words and JSON."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tests.conformance.broken import BROKEN, HalfAsync, Plain
from tests.conformance.broken_more import FAULTS, SOUND, KnowsItsBytes, Stepping
from threadmark.checkpoint.capabilities import BASE, Capabilities
from threadmark.checkpoint.conformance import Report, Result, checkpointer_test, validate
from threadmark.checkpoint.conformance.factory import opened
from threadmark.checkpoint.memory import InMemorySaver

QUICK = ["put_writes", "delete_thread"]


async def test_a_saver_without_faults_passes_all() -> None:
    report = await validate(Plain, payloads=["own"])
    assert report.failures() == []
    assert report.passed_all_base()
    assert report.conformance_level() == "FULL"
    assert report.capabilities.colours == ("sync",)


@pytest.mark.parametrize("saver", BROKEN, ids=lambda kind: kind.__name__)
async def test_a_fault_is_found(saver: type[Any]) -> None:
    report = await validate(saver, payloads=["own"], capabilities=BROKEN[saver])
    assert {failure.capability for failure in report.failures()} >= BROKEN[saver] - {"list"}
    assert not report.passed_all()


@pytest.mark.parametrize("saver", FAULTS, ids=lambda kind: kind.__name__)
async def test_a_fault_in_races_bytes_or_what_is_optional_is_found(saver: type[Any]) -> None:
    report = await validate(saver, payloads=["own"], capabilities=FAULTS[saver])
    assert {failure.capability for failure in report.failures()} == FAULTS[saver]


@pytest.mark.parametrize("saver", SOUND, ids=lambda kind: kind.__name__)
async def test_without_the_fault_nothing_is_found(saver: type[Any]) -> None:
    report = await validate(saver, payloads=["own"], capabilities=SOUND[saver])
    assert report.failures() == []
    assert {result.capability for result in report.results} == SOUND[saver]


async def test_a_saver_that_looks_into_bytes_is_found_by_bytes_that_it_does_not_know() -> None:
    own = await validate(KnowsItsBytes, payloads=["own"], capabilities=["get_tuple"])
    assert own.failures() == []
    assert (await validate(KnowsItsBytes, payloads=["hex"], capabilities=["get_tuple"])).failures()


async def test_a_colour_that_is_half_there_is_a_fault() -> None:
    report = await validate(HalfAsync, payloads=["own"])
    assert "async: put, put_writes, list, delete_thread is missing" in report.notes
    assert not report.passed_all_base()


async def test_a_colour_that_only_says_that_it_is_not_there_is_none() -> None:
    class SaysNo(Plain):
        async def aget_tuple(self, config: Any) -> Any:
            raise NotImplementedError("use another saver")

    report = await validate(SaysNo, payloads=["own"], capabilities=QUICK)
    assert report.capabilities.colours == ("sync",)
    assert report.notes == ["async: not offered (use another saver)"]


async def test_a_step_that_graphs_would_not_use_is_noted() -> None:
    class StepsOnly(Plain):
        def put_step(self, *args: Any, **more: Any) -> Any:
            return self.inner.put_step(*args, **more)

    class PutsAnew(Stepping):
        def put(self, *args: Any, **more: Any) -> Any:
            return super().put(*args, **more)

    for saver, names in ((StepsOnly, "put_step"), (PutsAnew, "put_step and open_writer")):
        report = await validate(saver, payloads=["own"], capabilities=["delete_thread"])
        assert [note.partition(" not used")[0] for note in report.notes] == [names]
    assert (await validate(Stepping, payloads=["own"], capabilities=["delete_thread"])).notes == []


async def test_a_check_that_hangs_is_a_failure() -> None:
    class Hangs(Plain):
        async def hang(self) -> None:
            await asyncio.Event().wait()

        def delete_thread(self, thread_id: str) -> None:
            asyncio.run_coroutine_threadsafe(self.hang(), loop).result()

    loop = asyncio.get_running_loop()
    report = await validate(Hangs, payloads=["own"], capabilities=["delete_thread"], patience=0.05)
    assert "hangs" in str(report.failures()[0].error)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@asynccontextmanager
async def in_async_context() -> AsyncIterator[Any]:
    yield InMemorySaver()


@contextmanager
def in_context() -> Iterator[Any]:
    yield InMemorySaver()


async def in_async_generator() -> AsyncIterator[Any]:
    yield InMemorySaver()


def in_generator() -> Iterator[Any]:
    yield InMemorySaver()


async def in_coroutine() -> Any:
    return InMemorySaver()


FORMS = [in_async_context, in_context, in_async_generator, in_generator, in_coroutine, InMemorySaver]


@pytest.mark.parametrize("factory", FORMS, ids=lambda factory: factory.__name__)
async def test_any_form_of_factory_will_do(factory: Any) -> None:
    async with opened(factory) as saver:
        assert isinstance(saver, InMemorySaver)
    report = await validate(factory, payloads=["own"], capabilities=["delete_thread"])
    assert report.name == factory.__name__
    assert report.passed("delete_thread", "sync")
    assert report.passed("delete_thread", "async")


async def test_registered_with_a_lifespan_and_without_some_capabilities() -> None:
    entered: list[str] = []

    async def lifespan() -> AsyncIterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    @checkpointer_test(name="Mine", skip_capabilities={"delete_thread"}, lifespan=lifespan)
    async def mine() -> AsyncIterator[Any]:
        assert entered == ["in"]
        yield InMemorySaver()

    seen: list[Result] = []
    report = await validate(mine, capabilities=QUICK, payloads=["own"], progress=seen.append)
    assert entered == ["in", "out"]
    assert seen == report.results
    assert {result.capability for result in seen} == {"put_writes"}
    assert {result.colour for result in seen} == {"sync", "async"}


async def test_unknown_capabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="frobnicate"):
        await validate(InMemorySaver, capabilities=["frobnicate"])


def some_report(*failing: str) -> Report:
    names = (*BASE, "prune", "copy_thread")
    report = Report("Some", Capabilities({name: frozenset({"sync"}) for name in names}))
    error = "AssertionError\nputs.py:1: assert a == b"
    report.results = [Result(n, "one", "sync", "own", error if n in failing else None) for n in names]
    return report


@pytest.mark.parametrize(
    ("failing", "level"),
    [
        ((), "FULL"),
        (("prune",), "BASE+PARTIAL"),
        (("prune", "copy_thread"), "BASE"),
        (("put",), "NONE"),
    ],
)
def test_levels(failing: tuple[str, ...], level: str) -> None:
    report = some_report(*failing)
    assert report.conformance_level() == level
    assert report.passed_all_base() == (level != "NONE")
    assert report.passed_all() == (level == "FULL")


def test_the_report_in_words_and_in_json() -> None:
    report, text = some_report("prune"), io.StringIO()
    report.print_report(file=text)
    assert text.getvalue().startswith("Some: BASE+PARTIAL\n")
    assert "FAILED prune: one (sync, own)\n      AssertionError\n      puts.py:1" in text.getvalue()
    shown = json.loads(json.dumps(report.to_dict()))
    assert shown["counts"]["prune"] == {"sync": {"passed": 0, "of": 1}}
    assert [failure["check"] for failure in shown["failures"]] == ["one"]


def test_nothing_checked_is_nothing_passed() -> None:
    report = Report("Empty", Capabilities({}))
    assert not report.passed_all_base()
    assert report.conformance_level() == "NONE"


async def test_a_failure_shows_the_values() -> None:
    report = await validate(next(iter(BROKEN)), payloads=["own"], capabilities=["put"])
    error = str(report.failures()[0].error)
    assert "puts.py:" in error
    assert "assert " in error
