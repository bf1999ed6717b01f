"""Operations are run again when others are in the way, and only then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import DictPort
from threadmark.checkpoint.records import Conflict
from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.transact import look
from threadmark.colour import drive
from threadmark.errors import HeadMoved


class Spoilt(DictPort):
    """A port whose views and changes other writers spoil, so many times, when a thread or a checkpoint is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.spoils = 0
        self.pauses = 0

    def _spoil(self) -> None:
        if self.spoils:
            self.spoils -= 1
            raise Conflict

    async def thread(self, thread_id: str) -> Any:
        self._spoil()
        return await super().thread(thread_id)

    async def checkpoint(self, thread: Any, ns: str, id: str | None) -> Any:
        self._spoil()
        return await super().checkpoint(thread, ns, id)

    async def open_thread(self, thread_id: str, salt: bytes) -> Any:
        await self.thread(thread_id)
        return await super().open_thread(thread_id, salt)

    async def pause(self, seconds: float) -> None:
        self.pauses += 1


class Alone(Spoilt):
    """A port with several writers at a time, which counts those that are at it."""

    grouped = False
    waits = True  # a port that waits for nothing has no writers to keep apart

    def __init__(self) -> None:
        super().__init__()
        self.inside = threading.Barrier(2)

    async def foresee(self, thread_id: str, needs: Any) -> None:
        """Waits until two writers are here at once."""
        self.inside.wait(60)


@pytest.fixture
def port() -> Spoilt:
    return Spoilt()


def filled(port: Spoilt) -> Saver:
    saver = Saver(port)
    saver.put(config(), checkpoint({"a": "x" * 500}), {"step": 1}, {"a": 1})
    return saver


@pytest.mark.parametrize("spoils", [1, 5])
def test_a_look_that_others_spoil_is_taken_again(port: Spoilt, spoils: int) -> None:
    saver = filled(port)
    for read in (
        lambda: saver.get(config())["channel_values"],
        lambda: next(saver.list(config())).checkpoint["channel_values"],
    ):
        port.spoils, port.pauses = spoils, 0
        assert read() == {"a": "x" * 500}
        assert (port.spoils, port.pauses) == (0, spoils)


def test_a_step_that_others_spoil_is_stored_once(port: Spoilt) -> None:
    saver = Saver(port)
    port.spoils = 3
    saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1}, expected_head=None)
    assert (port.spoils, port.pauses) == (0, 3)
    assert len(list(saver.list(config()))) == 1


def test_other_errors_are_not_tried_again(port: Spoilt) -> None:
    saver = filled(port)
    with pytest.raises(HeadMoved):
        saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1}, expected_head=None)

    async def fails(view: Any) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        drive(look(port, fails))
    assert port.pauses == 0


def test_threads_store_by_themselves_where_a_port_has_several_writers() -> None:
    port = Alone()
    port.far = True
    # The lock of the dicts is held by one writer at a time: here each has its own.
    port.write = lambda: Unlocked(port)  # type: ignore[method-assign,assignment,return-value]
    saver = Saver(port)
    made = [
        threading.Thread(target=saver.put, args=(config(f"t{n}"), checkpoint({"a": n}), {}, {"a": 1})) for n in range(2)
    ]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    assert [saver.get(config(f"t{n}"))["channel_values"] for n in range(2)] == [{"a": 0}, {"a": 1}]


class Unlocked:
    def __init__(self, port: Alone) -> None:
        self.port = port

    async def __aenter__(self) -> Alone:
        return self.port

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is locked."""
