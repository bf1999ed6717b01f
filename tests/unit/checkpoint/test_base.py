"""The contract's own parts: what a class can do, metadata from a config, copies, versions."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from typing import Any

import pytest

from threadmark.checkpoint.base import (
    UNSET,
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_thread_id,
    implements,
    partial_reads_supported,
    steps_supported,
)
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import MissingThreadId

METHODS: dict[str, tuple[Any, ...]] = {
    "get_tuple": (config(),),
    "get": (config(),),
    "list": (config(),),
    "put": (config(), {}, {}, {}),
    "put_writes": (config(), [], "task"),
    "delete_thread": ("t",),
    "delete_for_runs": (["r"],),
    "copy_thread": ("t", "u"),
    "prune": (["t"],),
}


class Bare(BaseCheckpointSaver[int]):
    """A saver that defines nothing."""


@pytest.mark.parametrize("name", METHODS)
def test_a_missing_method_names_itself_and_its_class(name: str) -> None:
    asked = "get_tuple" if name == "get" else name
    with pytest.raises(NotImplementedError, match=rf"Bare has no {asked}\(\)"):
        getattr(Bare(), name)(*METHODS[name])


@pytest.mark.parametrize("name", METHODS)
def test_so_does_its_async_twin(name: str) -> None:
    asked = "aget_tuple" if name == "get" else f"a{name}"

    async def called() -> None:
        made = getattr(Bare(), f"a{name}")(*METHODS[name])
        if inspect.isawaitable(made):
            await made

    with pytest.raises(NotImplementedError, match=rf"Bare has no {asked}\(\)"):
        asyncio.run(called())


def test_a_saver_without_serde_has_the_default_one() -> None:
    class Quiet(BaseCheckpointSaver[int]):
        def __init__(self) -> None:
            """Does not call the base, as some savers do not."""

    saver = Quiet()
    assert isinstance(saver.serde, JsonPlusSerializer)
    assert saver.serde is saver.serde
    saver.serde = other = JsonPlusSerializer()
    assert saver.serde is other
    assert saver.config_specs == []


def test_base_versions_are_whole_numbers() -> None:
    saver = Bare()
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(4, None) == 5
    with pytest.raises(TypeError, match="get_next_version"):
        saver.get_next_version("0001.0.5", None)  # type: ignore[arg-type]


# -- putting steps in one go ------------------------------------------------------------------------------------------


class Plain(InMemorySaver):
    """Adds nothing."""


class OwnPut(InMemorySaver):
    def put(self, *args: Any, **kwargs: Any) -> Any:
        return super().put(*args, **kwargs)


class OwnWrites(InMemorySaver):
    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await super().aput_writes(*args, **kwargs)


class OwnStep(InMemorySaver):
    def put_step(self, *args: Any, **kwargs: Any) -> Any:
        return super().put_step(*args, **kwargs)


class OwnAll(OwnPut):
    def put_step(self, *args: Any, **kwargs: Any) -> Any:
        return super().put_step(*args, **kwargs)

    def open_writer(self, config: Any) -> Any:
        return super().open_writer(config)


class Loud:
    """Not a saver, but it has a put."""

    def put(self, *args: Any, **kwargs: Any) -> Any:
        return None


class Mixed(Loud, InMemorySaver):
    """Its put is not the saver's."""


class Reads(InMemorySaver):
    def get_tuple(self, config: Any) -> Any:
        return super().get_tuple(config)


@pytest.mark.parametrize(
    ("kind", "supported"),
    [
        (InMemorySaver, True),
        (Plain, True),
        (Reads, True),
        (OwnAll, True),
        (OwnPut, False),
        (OwnWrites, False),
        (OwnStep, False),
        (Mixed, False),
        (Bare, False),
    ],
)
def test_steps_are_put_in_one_go_only_by_the_class_whose_put_is_in_force(kind: Any, supported: bool) -> None:
    assert steps_supported(kind()) is supported


@pytest.mark.parametrize(
    ("kind", "supported"),
    [(InMemorySaver, True), (Plain, True), (OwnPut, True), (Reads, False), (Bare, False)],
)
def test_parts_are_read_only_by_the_class_whose_reading_is_in_force(kind: Any, supported: bool) -> None:
    assert partial_reads_supported(kind()) is supported


def test_a_method_set_on_the_object_counts_too() -> None:
    saver = InMemorySaver()
    saver.put = lambda *args, **kwargs: None  # type: ignore[method-assign]
    assert not steps_supported(saver)
    assert implements(saver, "put")


def test_what_a_saver_implements() -> None:
    assert implements(InMemorySaver(), "aprune")
    assert not implements(Bare(), "prune")
    assert implements(Bare(), "get_next_version") is False
    assert not implements(Bare(), "put_step")


# -- small things ----------------------------------------------------------------------------------------------------


def test_a_tuple_keeps_its_extra_through_copies() -> None:
    made = CheckpointTuple(config(), checkpoint({"a": 1}), {"step": 0})
    made.shown_writes = {"node": 1}
    assert (made.parent_config, made.pending_writes) == (None, None)
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made
        assert again.shown_writes == {"node": 1}
    assert made._replace(parent_config=config("t", "p")).parent_config == config("t", "p")
    assert CheckpointTuple(*made) == made


def test_an_empty_checkpoint_is_new_each_time() -> None:
    one, two = empty_checkpoint(), empty_checkpoint()
    assert one["id"] < two["id"]
    assert one["v"] == 4
    assert one["channel_values"] == one["channel_versions"] == one["versions_seen"] == {}


def test_a_copy_can_be_changed_without_the_original() -> None:
    made = checkpoint({"a": [1]}, versions_seen={"n": {"a": 1}}, pending_sends=[1])
    before = copy.deepcopy(made)
    again: Any = copy_checkpoint(made)
    assert again == made
    again["channel_values"]["b"] = 2
    again["channel_versions"]["b"] = 2
    again["versions_seen"]["n"]["b"] = 2
    again["updated_channels"].append("b")
    again["pending_sends"].append(2)
    assert made == before


def test_names_in_a_config() -> None:
    assert get_checkpoint_id(config("t", "c")) == "c"
    assert get_checkpoint_id(config("t")) is None
    assert get_checkpoint_id({"configurable": {"checkpoint_id": ""}}) is None
    assert get_checkpoint_id({}) is None
    assert get_thread_id(config(12)) == "12"
    for missing in ({}, {"configurable": {}}, {"configurable": None}):
        with pytest.raises(MissingThreadId):
            get_thread_id(missing)  # type: ignore[arg-type]


def test_metadata_from_a_config() -> None:
    given = config("t", run_id="r", graph_id="g", secret="s", tenant="acme")
    given["metadata"] = {
        "n": 1,
        "f": 0.5,
        "b": True,
        "list": [1],
        "none": None,
        "__x": 1,
        "langgraph_step": 3,
        "step": 9,
    }
    made = get_checkpoint_metadata(given, {"step": 0})
    assert made == {"step": 0, "n": 1, "f": 0.5, "b": True, "run_id": "r", "graph_id": "g"}
    assert get_checkpoint_metadata(given, {"step": 0}, ("tenant",))["tenant"] == "acme"  # type: ignore[typeddict-item]
    given["metadata"]["run_id"] = "of the metadata"
    assert get_checkpoint_metadata(given, {})["run_id"] == "of the metadata"
    assert get_checkpoint_metadata({}, {"step": 1}) == {"step": 1}


def test_more_keys_of_a_config_can_be_listed() -> None:
    saver = InMemorySaver(config_keys=["tenant"])
    at = saver.put(config("t", tenant="acme", secret="s", run_id="r"), checkpoint({"a": 1}), {}, {"a": 1})
    found = saver.get_tuple(at)
    assert found is not None
    assert found.metadata == {"tenant": "acme", "run_id": "r"}


def test_special_writes_have_fixed_places() -> None:
    assert WRITES_IDX_MAP == {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
    assert not UNSET
    assert repr(UNSET) == "UNSET"


# -- the default walk ------------------------------------------------------------------------------------------------


class ByHand(BaseCheckpointSaver[int]):
    """A saver of the least kind: it can be read."""

    def __init__(self, inner: InMemorySaver) -> None:
        super().__init__()
        self.inner = inner

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    async def aget_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)


def test_the_default_walk_agrees_with_our_savers(call: Any) -> None:
    saver, at, configs = InMemorySaver(), config(), []
    for number in range(6):
        values = {"d": f"seed {number}"} if number == 2 else {}
        made = checkpoint(values, {"d": number, "e": number})
        at = saver.put(at, made, {}, {"d": number, "e": number})
        saver.put_writes(at, [("d", number), ("e", number), ("other", 0)], "t", "~p")
        configs.append(at)
    for target in (*configs, config(), config("nobody")):
        wanted = saver.get_delta_channel_history(config=target, channels=["d", "e"])
        assert call(ByHand(saver), "get_delta_channel_history", config=target, channels=["d", "e"]) == wanted
    assert call(ByHand(saver), "get_delta_channel_history", config=at, channels=[]) == {}
