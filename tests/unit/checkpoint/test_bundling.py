"""Steps that are stored together by one call: what a task wrote twice, and heads that do not follow each other."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.bundling import bundled
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.draft import StepDraft, draft_step
from threadmark.checkpoint.entries import unpack_entries
from threadmark.checkpoint.names import ref_of
from threadmark.checkpoint.records import Bundle
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.writing import Bases, Prepared
from threadmark.errors import HeadMoved

CODEC = Codec(JsonPlusSerializer(), ())


def draft(step: Step) -> StepDraft:
    return draft_step(step, ref_of(step.config), CODEC.dumps, (), None)


def bundle(*steps: Step) -> Bundle:
    drafts = [draft(step) for step in steps]
    return bundled(Prepared(CODEC, "t", b"s" * 16, Bases(None), drafts), "t", drafts, None)


def writes(*pairs: tuple[str, Any], at: str = "1", **more: Any) -> Step:
    return Step(config=_at(at), writes=[("task", "~p", list(pairs))], **more)


def _at(id: str) -> Any:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}


def test_what_a_task_wrote_twice_is_one_row() -> None:
    found = bundle(writes(("a", 1)), writes(("a", 2), ("b", 3)))
    (task,) = found.tasks
    assert (task.id, task.task_id, task.path) == ("1", "task", "~p")
    both = bundle(Step(config=_at("1"), writes=[("task", "~p", [("a", 1)]), ("task", "~p", [("a", 2), ("b", 3)])]))
    assert both.tasks == found.tasks
    assert [channel for _, channel, _ in unpack_entries(task.body)] == ["a", "b"]


def test_of_two_checkpoints_with_one_name_the_later_one_counts() -> None:
    first, second = checkpoint({"n": 1}), checkpoint({"n": 2})
    second["id"] = first["id"]
    steps = [Step(config=config(), checkpoint=each, metadata={}, new_versions={"n": 1}) for each in (first, second)]
    found = bundle(*steps)
    assert [row.id for row in found.checkpoints] == [first["id"]]
    assert found.checkpoints[0].body == bundle(steps[1]).checkpoints[0].body


def test_only_the_first_head_of_a_namespace_is_compared_with_what_is_stored() -> None:
    first, second = checkpoint({"n": 1}), checkpoint({"n": 2})
    steps = [
        Step(config=_at("0"), checkpoint=first, metadata={}, new_versions={"n": 1}, expected_head="0"),
        Step(config=_at(first["id"]), checkpoint=second, metadata={}, new_versions={"n": 2}, expected_head=first["id"]),
    ]
    assert bundle(*steps).heads == {"": "0"}
    with pytest.raises(HeadMoved):
        bundle(steps[0], steps[1]._replace(expected_head="0"))
