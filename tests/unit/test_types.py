"""The values people meet every day: what they take and how they compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field
from xxhash import xxh3_128_hexdigest

from threadmark.errors import (
    EmptyInputError,
    ErrorCode,
    GraphBubbleUp,
    GraphInterrupt,
    GraphRecursionError,
    HeadMoved,
    InvalidUpdateError,
    MissingThreadId,
    NodeInterrupt,
    NodeTimeoutError,
    ThreadmarkError,
    ThreadNotFound,
    create_error_message,
)
from threadmark.runtime import RunControl, Runtime
from threadmark.types import (
    CachePolicy,
    Command,
    GraphOutput,
    Interrupt,
    RetryPolicy,
    Send,
    TimeoutPolicy,
    annotated_fields,
    changed_fields,
    default_retry_on,
)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (Exception(), True),
        (NodeTimeoutError("n", 1.0, run_timeout=1.0), True),
        (ValueError(), False),
        (KeyError(), False),
        (TimeoutError(), False),
        (OSError(), False),
        (RuntimeError(), False),
        (ZeroDivisionError(), False),
        (UnicodeDecodeError("utf-8", b"", 0, 1, ""), False),
        (ModuleNotFoundError(), False),
    ],
)
def test_which_errors_look_passing(error: Exception, again: bool) -> None:
    assert default_retry_on(error) is again


def test_answers_of_a_web_service_are_told_by_their_code() -> None:
    import httpx

    def answered(code: int) -> Exception:
        request = httpx.Request("GET", "http://example.invalid")
        return httpx.HTTPStatusError("", request=request, response=httpx.Response(code, request=request))

    assert [default_retry_on(answered(code)) for code in (404, 500, 503)] == [False, True, True]


def test_defaults_of_the_policies() -> None:
    assert tuple(RetryPolicy())[:5] == (0.5, 2.0, 128.0, 3, True)
    assert CachePolicy().ttl is None
    assert TimeoutPolicy.coerce(None) is None
    assert TimeoutPolicy.coerce(2) == TimeoutPolicy(run_timeout=2)
    assert TimeoutPolicy.coerce(timedelta(seconds=2)) == TimeoutPolicy(run_timeout=timedelta(seconds=2))
    for wrong in (0, -1, TimeoutPolicy(idle_timeout=0)):
        with pytest.raises(ValueError, match="greater than 0"):
            TimeoutPolicy.coerce(wrong)


def test_packets_compare_by_what_they_hold() -> None:
    assert Send("a", {"x": 1}) == Send("a", {"x": 1})
    assert hash(Send("a", {"x": 1})) == hash(Send("a", {"x": 1}))
    assert Send("a", 1) != Send("b", 1)
    assert Send("a", 1) != Send("a", 1, timeout=3)
    assert repr(Send("a", 1)) == "Send(node='a', arg=1)"


def test_questions_know_their_ids() -> None:
    digest = xxh3_128_hexdigest(b"a:1")
    assert Interrupt.from_ns("?", "a:1").id == Interrupt("?", ns=["a:1"]).id == digest
    assert Interrupt("?", interrupt_id="old").id == "old"
    assert hash(Interrupt("?", "1")) == hash(Interrupt(["unhashable"], "1"))
    with pytest.raises(TypeError, match="unknown"):
        Interrupt("?", unknown=1)


def test_commands_show_what_is_set() -> None:
    assert repr(Command(update={"a": 1}, goto="b")) == "Command(update={'a': 1}, goto='b')"
    assert Command.PARENT == "__parent__"
    with pytest.raises(AttributeError):
        Command().goto = "x"  # type: ignore[misc]


@dataclass
class Order:
    item: str
    count: int = 1
    notes: list[str] = field(default_factory=list)


class Account(BaseModel):
    owner: str
    balance: int = 0
    note: str | None = None
    seen: list[str] = Field(default_factory=lambda: ["bank"])
    last: str | None = Field(default_factory=lambda: None)


MADE = [("seen", ["bank"]), ("last", None)]
"""What the factories of an account make."""


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        (Order("lamp"), [("item", "lamp"), ("count", 1), ("notes", [])]),
        (Order("lamp", 2, ["x"]), [("item", "lamp"), ("count", 2), ("notes", ["x"])]),
        (Account(owner="ada"), [("owner", "ada"), ("balance", 0), *MADE]),
        (Account(owner="ada", balance=2), [("owner", "ada"), ("balance", 2), *MADE]),
        (Account(owner="ada", note=None), [("owner", "ada"), ("balance", 0), ("note", None), *MADE]),
    ],
)
def test_what_an_object_says_about_the_state(value: Any, pairs: Any) -> None:
    assert changed_fields(value, annotated_fields(type(value))) == pairs
    assert list(Command(update=value)._update_as_tuples()) == pairs


@pytest.mark.parametrize(
    ("update", "pairs"),
    [
        ({"a": 1}, [("a", 1)]),
        ([("a", 1), ("a", 2)], [("a", 1), ("a", 2)]),
        (None, []),
        (3, [("__root__", 3)]),
        ([1, 2], [("__root__", [1, 2])]),
    ],
)
def test_forms_of_an_update(update: Any, pairs: Any) -> None:
    assert list(Command(update=update)._update_as_tuples()) == pairs


def test_the_second_form_of_a_result_still_reads_like_the_first() -> None:
    found = GraphOutput({"a": 1}, (Interrupt("?", "1"),))
    assert found["a"] == 1
    assert found["__interrupt__"] == found.interrupts
    assert "a" in found
    assert "b" not in found


# -- errors


def test_every_error_is_one_of_ours_and_of_the_kind_people_expect() -> None:
    kinds: dict[type[Exception], tuple[type[Exception], ...]] = {
        GraphRecursionError: (RecursionError,),
        MissingThreadId: (KeyError, ValueError),
        ThreadNotFound: (LookupError,),
        GraphInterrupt: (GraphBubbleUp,),
        NodeInterrupt: (GraphInterrupt,),
        EmptyInputError: (),
        InvalidUpdateError: (),
    }
    for kind, others in kinds.items():
        assert issubclass(kind, (ThreadmarkError, *others))
        assert all(issubclass(kind, other) for other in others)


def test_messages_say_what_to_do() -> None:
    assert "configurable" in str(MissingThreadId())
    assert create_error_message(message="x", error_code=ErrorCode.GRAPH_RECURSION_LIMIT) == "x [GRAPH_RECURSION_LIMIT]"
    moved = HeadMoved("t", "", "1", "2")
    assert (moved.expected, moved.found) == ("1", "2")
    late = NodeTimeoutError("n", 3.0, kind="idle", idle_timeout=2.0)
    assert (late.kind, late.timeout, late.elapsed) == ("idle", 2.0, 3.0)
    assert NodeInterrupt("?").args[0][0].value == "?"


# -- runtime


def test_a_runtime_is_changed_by_copies() -> None:
    base: Runtime[Any] = Runtime(context=1)
    other: Runtime[Any] = Runtime(store="shop")
    assert (base.merge(other).context, base.merge(other).store) == (1, "shop")
    assert base.override(context=2).context == 2
    assert base.context == 1
    assert base.drain_requested is False


def test_a_run_is_asked_to_stop() -> None:
    control = RunControl()
    runtime: Runtime[Any] = Runtime(control=control)
    assert (runtime.drain_requested, runtime.drain_reason) == (False, None)
    control.request_drain()
    assert (runtime.drain_requested, runtime.drain_reason) == (True, "shutdown")
