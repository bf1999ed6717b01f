"""Messages by random writes: the reducer for delta channels does not care how writes are batched (spec 8.1)."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from threadmark.graph.message import REMOVE_ALL_MESSAGES, MessageFold, _messages_delta_reducer, add_messages

IDS = st.sampled_from("abcd")
MESSAGE = st.builds(lambda id, text: {"role": "user", "content": text, "id": id}, IDS, st.text(max_size=3))
REMOVAL = st.builds(lambda id: {"role": "remove", "id": id}, IDS | st.just(REMOVE_ALL_MESSAGES))
WRITES = st.lists(st.lists(MESSAGE | REMOVAL, max_size=4), max_size=6)
STATE = st.lists(MESSAGE, max_size=4, unique_by=lambda message: message["id"])


def folded(state: Any, writes: Any) -> Any:
    with mock.patch.dict(sys.modules):
        sys.modules.pop("langchain_core.messages", None)
        return _messages_delta_reducer(state, writes)


@given(STATE, WRITES, st.data())
def test_any_batching_gives_the_same_messages(state: Any, writes: Any, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(writes)))
    whole = folded(state, writes)
    assert folded(folded(state, writes[:at]), writes[at:]) == whole
    assert folded(state, [[message for write in writes for message in write]]) == whole


@given(STATE, st.lists(WRITES, max_size=5))
def test_a_fold_that_remembers_gives_what_a_fresh_one_gives(state: Any, steps: Any) -> None:
    with mock.patch.dict(sys.modules):
        sys.modules.pop("langchain_core.messages", None)
        fold, mine, fresh = MessageFold(), state, state
        for writes in steps:
            mine, fresh = fold(mine, writes), _messages_delta_reducer(fresh, writes)
            assert mine == fresh


@given(STATE, st.lists(MESSAGE, max_size=6))
def test_without_removals_both_reducers_agree(state: Any, new: Any) -> None:
    with mock.patch.dict(sys.modules):
        sys.modules.pop("langchain_core.messages", None)
        assert add_messages(state, new) == _messages_delta_reducer(state, [new])
