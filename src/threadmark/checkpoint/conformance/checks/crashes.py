"""Death before, during and after every call of a run: what was acknowledged is there, and doing it again repairs all.

A run is played as a list of calls. It dies at one of them, is played again from its start, as a run that goes on
does with what it does not know to be stored, and must leave what a run that never died leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from threadmark.checkpoint.conformance.kit import cases, checkpoint, config, content
from threadmark.checkpoint.conformance.payloads import Died, FailingSerializer

Play = list[Callable[[Any, Any, str], Any]]


def script(length: int = 4) -> Play:
    """The saver calls of a run: a checkpoint and its tasks' writes, step by step; one task fails and asks."""
    calls: Play = []
    rows: list[str] = []
    parent: str | None = None
    for number in range(length):
        rows = [*rows, f"line {number} " * 60]
        made = checkpoint({"rows": rows, "same": "x" * 900}, {"rows": f"{number + 1:032}", "same": f"{1:032}"})
        metadata = {"source": "loop", "step": number, "parents": {}}
        calls.append(partial(_put, parent, made, metadata))
        calls.append(partial(_write, made["id"], [("rows", rows[-1:]), ("n", number)], f"a{number}"))
        calls.append(partial(_write, made["id"], [("__interrupt__", [number])], f"b{number}"))
        parent = made["id"]
    return calls


def _put(parent: str | None, made: Any, metadata: Any, saver: Any, call: Any, thread: str) -> None:
    call(saver, "put", config(thread, parent), made, metadata, made["channel_versions"])


def _write(at: str, writes: Any, task: str, saver: Any, call: Any, thread: str) -> None:
    call(saver, "put_writes", config(thread, at), writes, task, f"~{task}")


def play(calls: Play, saver: Any, call: Any, thread: str) -> None:
    """Make all calls on one thread."""
    for one in calls:
        one(saver, call, thread)


class CrashChecks:
    """What a death leaves behind."""

    capability = "put"

    @cases("when", ["before", "after"])
    def test_death_between_calls(self, saver: Any, call: Any, when: str) -> None:
        calls = script()
        play(calls, saver, call, "alive")
        alive = content(saver, call, "alive")
        for place in range(len(calls)):
            thread = f"dies at {place}"
            done = place if when == "before" else place + 1
            play(calls[:done], saver, call, thread)
            acknowledged = {id(one) for one in calls[:done] if one.func is _put}  # type: ignore[attr-defined]
            assert len(content(saver, call, thread)) == len(acknowledged)
            play(calls, saver, call, thread)
            assert content(saver, call, thread) == alive

    def test_going_on_where_the_last_answer_was(self, saver: Any, call: Any) -> None:
        calls = script()
        play(calls, saver, call, "alive")
        for place in range(len(calls)):
            thread = f"goes on at {place}"
            play(calls[: place + 1], saver, call, thread)
            play(calls[place:], saver, call, thread)
            assert content(saver, call, thread) == content(saver, call, "alive")

    def test_death_while_a_call_is_under_way(self, saver: Any, call: Any) -> None:
        calls = script(3)
        play(calls, saver, call, "alive")
        alive = content(saver, call, "alive")
        serde = saver.serde = FailingSerializer(saver.serde)
        for place, one in enumerate(calls):
            for nth in range(1, 40):
                thread = f"{place} {nth}"
                play(calls[:place], saver, call, thread)
                before = content(saver, call, thread)
                serde.written, serde.fails_at = 0, nth
                try:
                    one(saver, call, thread)
                except Died:
                    assert content(saver, call, thread) == before
                    serde.fails_at = 0
                    play(calls, saver, call, thread)
                    assert content(saver, call, thread) == alive
                    continue
                finally:
                    serde.fails_at = 0
                break
