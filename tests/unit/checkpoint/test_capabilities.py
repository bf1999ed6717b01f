"""What a saver can do: detected from its class, or declared."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.capabilities import BASE, CAPABILITIES, Capabilities, capabilities_of
from threadmark.checkpoint.memory import InMemorySaver


class Getter(BaseCheckpointSaver[int]):
    def get_tuple(self, config: Any) -> Any:
        return None

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return config


def test_ours_can_do_everything_in_both_colours() -> None:
    found = capabilities_of(InMemorySaver())
    assert found.to_dict() == {each.name: ["async", "sync"] for each in CAPABILITIES}
    assert found.colours == ("sync", "async")
    assert found.missing("async") == ()
    assert found.inherited == frozenset()


def test_own_methods_count_and_the_base_s_do_not() -> None:
    found = capabilities_of(Getter())
    assert found.to_dict() == {"put": ["async"], "get_tuple": ["sync"], "delta_channel_history": ["sync"]}
    assert found.inherited == {"delta_channel_history"}
    assert found.missing("sync") == ("put", "put_writes", "list", "delete_thread")
    assert found.has("put")
    assert not found.has("put", "sync")
    assert capabilities_of(BaseCheckpointSaver()) == Capabilities({})


def test_a_class_will_do() -> None:
    assert capabilities_of(Getter).to_dict() == capabilities_of(Getter()).to_dict()


def test_what_is_declared_is_believed() -> None:
    class Passes:
        declared_capabilities = ("put", "get_tuple")

        def __getattr__(self, name: str) -> Any:
            return getattr(InMemorySaver, name)

    assert capabilities_of(Passes()).to_dict() == {"put": ["async", "sync"], "get_tuple": ["async", "sync"]}

    class Narrow(InMemorySaver):
        declared_capabilities = BASE

    assert set(capabilities_of(Narrow()).offers) == set(BASE)


def test_a_declaration_must_make_sense() -> None:
    class Wrong(InMemorySaver):
        declared_capabilities = ("putt",)

    with pytest.raises(ValueError, match="putt"):
        capabilities_of(Wrong())


def test_an_own_put_switches_steps_off() -> None:
    class Watches(InMemorySaver):
        def put(self, *args: Any, **kwargs: Any) -> Any:
            return super().put(*args, **kwargs)

    found = capabilities_of(Watches())
    assert not found.has("put_step")
    assert not found.has("open_writer")
    assert found.has("put")


def test_a_colour_can_be_taken_off() -> None:
    found = capabilities_of(Getter()).without("sync")
    assert found.to_dict() == {"put": ["async"]}
