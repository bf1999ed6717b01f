"""What ``as_langgraph_saver`` promises beyond the conformance package."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import langgraph.errors
import langgraph.types as peer
import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver as PeersBase
from langgraph.checkpoint.conformance.capabilities import Capability, DetectedCapabilities
from langgraph.checkpoint.memory import InMemorySaver as PeersSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as PeersSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot as PeersSnapshot
from langgraph.graph import START
from langgraph.graph import StateGraph as PeersGraph
from langgraph.store.base import Item as PeersItem

from tests.conftest import Call
from threadmark.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import StateGraph
from threadmark.interop.classes import TWINS, to_ours, to_peers
from threadmark.interop.langgraph import as_langgraph_saver
from threadmark.store.base import Item
from threadmark.types import Command, Interrupt, Overwrite, Send, StateSnapshot, TimeoutPolicy, interrupt

NOW = "2024-01-01T00:00:00+00:00"
SNAPSHOT = ({"a": 1}, ("n",), {"configurable": {}}, None, None, None, (), ())
ITEM: dict[str, Any] = {
    "namespace": ("a",), "key": "k", "value": {"v": 1}, "created_at": NOW, "updated_at": NOW,
}  # fmt: skip
PAIRS: list[tuple[Any, Any]] = [
    (peer.Send("n", {"x": (1, 2)}), Send("n", {"x": (1, 2)})),
    (peer.Send("n", 1, timeout=2.0), Send("n", 1, timeout=2.0)),
    (
        peer.Command(graph="g", update={"a": 1}, resume="r", goto=["x", peer.Send("y", 1)]),
        Command(graph="g", update={"a": 1}, resume="r", goto=["x", Send("y", 1)]),
    ),
    (peer.Interrupt("v", id="i"), Interrupt("v", id="i")),
    (peer.Overwrite([1]), Overwrite([1])),
    (peer.TimeoutPolicy(run_timeout=1.0), TimeoutPolicy(run_timeout=1.0)),
    (PeersSnapshot([1, [2]]), _DeltaSnapshot([1, [2]])),
    (peer.StateSnapshot(*SNAPSHOT), StateSnapshot(*SNAPSHOT)),
    (PeersItem(**ITEM), Item(**ITEM)),
]


@dataclass
class Parcel:
    weight: int


class Depot(TypedDict, total=False):
    parcels: list[Parcel]


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as opened:
        yield opened


def stored(saver: Any, value: Any, thread: str = "t") -> Any:
    """The value after a way through a saver."""
    at = saver.put(config(thread), checkpoint({"v": value}), {}, {"v": 1})
    return saver.get_tuple(at).checkpoint["channel_values"]["v"]


def test_it_is_a_saver_of_langgraphs(saver: SqliteSaver) -> None:
    wrapped = as_langgraph_saver(saver)
    assert isinstance(wrapped, PeersBase)
    assert wrapped.saver is not saver
    assert as_langgraph_saver(wrapped) is wrapped
    assert int(wrapped.get_next_version(None, None).partition(".")[0]) == 1


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda value: type(value).__name__)
def test_a_class_of_langgraphs_comes_back_as_it_was_and_reads_as_ours_elsewhere(
    theirs: Any, ours: Any, saver: SqliteSaver
) -> None:
    wrapped = as_langgraph_saver(saver)
    again = stored(wrapped, {"deep": [theirs]})["deep"][0]
    assert type(again) is type(theirs)
    assert again == theirs
    seen_by_us = saver.get_tuple(config("t")).checkpoint["channel_values"]["v"]["deep"][0]
    assert type(seen_by_us) is type(ours)
    assert seen_by_us == ours
    stored(saver, ours, "ours")
    seen_by_them = wrapped.get_tuple(config("ours")).checkpoint["channel_values"]["v"]
    assert type(seen_by_them) is type(theirs)
    assert seen_by_them == theirs


def test_the_bytes_are_those_of_our_own_classes(saver: SqliteSaver) -> None:
    serde = as_langgraph_saver(saver).serde
    for theirs, ours in PAIRS:
        assert serde.dumps_typed([theirs]) == saver.serde.dumps_typed([ours]), ours


def test_every_pair_of_classes_has_the_fields_that_the_table_says() -> None:
    assert len({twin.peer for twin in TWINS}) == len({twin.own for twin in TWINS}) == len(TWINS) > 15
    for theirs, ours in PAIRS:
        assert to_peers(to_ours(theirs)) == theirs
        assert type(to_ours(theirs)) is type(ours)
    assert to_ours(3) == to_peers(3) == 3


def test_errors_of_langgraphs_come_back_as_theirs(saver: SqliteSaver) -> None:
    wrapped = as_langgraph_saver(saver)
    again = stored(wrapped, [langgraph.errors.GraphRecursionError("too far")])[0]
    assert type(again) is langgraph.errors.GraphRecursionError
    assert again.args == ("too far",)


def test_what_langgraph_stored_with_its_own_bytes_comes_back_as_theirs(saver: SqliteSaver) -> None:
    serde = as_langgraph_saver(saver).serde
    for value in (peer.Send("n", {"a": 1}), peer.Interrupt("v", id="i"), PeersSnapshot([1])):
        again = serde.loads_typed(PeersSerializer().dumps_typed([value]))[0]
        assert (type(again), again) == (type(value), value)


def test_tuples_stay_tuples(saver: SqliteSaver) -> None:
    assert stored(as_langgraph_saver(saver), {"a": (1, (2,))}) == {"a": (1, (2,))}


def test_an_error_write_is_stored_as_text(saver: SqliteSaver, call: Call) -> None:
    wrapped = as_langgraph_saver(saver)
    at = call(wrapped, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})

    class Odd(Exception):
        pass

    call(wrapped, "put_writes", at, [("__error__", Odd("x"))], "task")
    assert call(wrapped, "get_tuple", at).pending_writes == [("task", "__error__", repr(Odd("x")))]


# -- what may be revived -----------------------------------------------------------------------------------------


def test_an_unknown_class_is_refused_with_the_line_to_add(saver: SqliteSaver) -> None:
    name = f"{__name__}.Parcel"
    with pytest.raises(SerializationError, match=rf"as_langgraph_saver\(saver, allow=\[{name}\]\)"):
        stored(as_langgraph_saver(saver), {"parcel": Parcel(1)})
    stored(as_langgraph_saver(saver, allow=[Parcel]), Parcel(2))
    with pytest.raises(DeserializationError, match=rf"as_langgraph_saver\(saver, allow=\[{name}\]\)"):
        as_langgraph_saver(saver).get_tuple(config("t"))


@pytest.mark.parametrize("allow", [[Parcel], [Depot], Depot, [(__name__, "Parcel")], __name__, True])
def test_a_listed_class_or_a_class_of_a_listed_schema_travels(allow: Any, saver: SqliteSaver) -> None:
    assert stored(as_langgraph_saver(saver, allow=allow), [Parcel(1)]) == [Parcel(1)]


def test_an_allow_list_that_langgraph_hands_over_is_honoured(saver: SqliteSaver) -> None:
    wrapped = as_langgraph_saver(saver)
    extended = wrapped.with_allowlist([(__name__, "Parcel")])
    assert type(extended) is type(wrapped)
    assert stored(extended, Parcel(1)) == Parcel(1)
    assert stored(extended, peer.Send("n", 1)) == peer.Send("n", 1)
    with pytest.raises(SerializationError, match="not allowed"):
        stored(wrapped, Parcel(1))
    assert stored(as_langgraph_saver(wrapped, allow=[Parcel]), Parcel(1)) == Parcel(1)


def test_encryption_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    serde = EncryptedSerializer.from_keys({"k": b"0123456789abcdef"})
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
        wrapped = as_langgraph_saver(saver).with_allowlist([(__name__, "Parcel")])
        secret = {"pin": "hidden in plain sight", "p": Parcel(1), "s": peer.Send("n", "hidden in plain sight")}
        assert stored(wrapped, secret) == secret
    assert b"hidden in plain sight" not in path.read_bytes() + path.with_name("threads.db").read_bytes()


def test_a_serializer_that_is_not_ours_is_used_as_it_is() -> None:
    saver = InMemorySaver(serde=PeersSerializer())
    wrapped = as_langgraph_saver(saver, allow=[Parcel])
    assert stored(wrapped, [peer.Send("n", (1,)), Parcel(1)]) == [peer.Send("n", [1]), Parcel(1)]


def test_pickles_are_not_loaded(saver: SqliteSaver) -> None:
    with pytest.raises(DeserializationError, match="pickle"):
        as_langgraph_saver(saver).serde.loads_typed(("pickle", pickle.dumps(1)))


# -- what can be wrapped -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [PeersSaver(), None, object()])
def test_what_is_no_saver_of_ours_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="as_langgraph_saver"):
        as_langgraph_saver(given)


class Small(BaseCheckpointSaver[int]):
    """The five base methods, blocking only, on a saver that keeps the entries."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.inner.get_tuple(config)

    def list(self, config: Any, **query: Any) -> Iterator[CheckpointTuple]:
        return self.inner.list(config, **query)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


def test_a_saver_shows_langgraph_what_it_can_do_and_no_more(call: Call) -> None:
    wrapped = as_langgraph_saver(Small())
    found = DetectedCapabilities.from_instance(wrapped)
    assert found.missing == {Capability.DELETE_FOR_RUNS, Capability.COPY_THREAD, Capability.PRUNE}
    at = call(wrapped, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
    call(wrapped, "put_writes", at, [("a", 2)], "task")
    assert call(wrapped, "get_tuple", config()).pending_writes == [("task", "a", 2)]
    assert [one.config for one in call(wrapped, "list", config())] == [at]
    assert call(wrapped, "get_delta_channel_history", config=at, channels=["a"]) == {"a": {"writes": []}}
    call(wrapped, "delete_thread", "t")
    assert call(wrapped, "get_tuple", config()) is None
    with pytest.raises(NotImplementedError):
        call(wrapped, "prune", ["t"])


# -- one thread, both engines ------------------------------------------------------------------------------------


def _builder(kind: Any, ask: Any) -> Any:
    builder = kind(Log)
    builder.add_node("a", lambda state: {"log": ["a"]})
    builder.add_node("asks", lambda state: {"log": [ask("name?")]})
    builder.add_node("z", lambda state: {"log": ["z"]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "asks")
    builder.add_edge("asks", "z")
    return builder


def test_a_thread_that_pauses_in_one_engine_goes_on_in_the_other(saver: SqliteSaver, call: Call) -> None:
    theirs = _builder(PeersGraph, peer.interrupt).compile(checkpointer=as_langgraph_saver(saver))
    ours = _builder(StateGraph, interrupt).compile(checkpointer=saver)
    for first, second, command in ((theirs, ours, Command), (ours, theirs, peer.Command)):
        at = {"configurable": {"thread_id": f"to {type(second).__module__}"}}
        call(first, "invoke", {"log": []}, at)
        assert call(second, "get_state", at).interrupts[0].value == "name?"
        assert call(second, "invoke", command(resume="Ada"), at) == {"log": ["a", "Ada", "z"]}
        assert call(first, "get_state", at).next == ()
        assert call(first, "invoke", {"log": ["more"]}, at)["log"][:4] == ["a", "Ada", "z", "more"]
