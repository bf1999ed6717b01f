"""Names that tests of savers use: ids of version 6, and the checkpoint that follows another."""

from __future__ import annotations

from threadmark.channels import LastValue
from threadmark.checkpoint.base import create_checkpoint, empty_checkpoint
from threadmark.checkpoint.base.id import uuid6


def test_uuid6_rises_and_takes_its_parts() -> None:
    made = [uuid6(clock_seq=-2) for _ in range(50)]
    assert [str(one) for one in made] == sorted(str(one) for one in made)
    assert {one.version for one in made} == {6}
    assert str(uuid6(node=5, clock_seq=3))[19:] == "8003-000000000005"


def test_the_checkpoint_that_follows_holds_what_channels_hold() -> None:
    first = empty_checkpoint()
    first["channel_versions"] = {"full": 1, "empty": 1, "elsewhere": 1}
    channels = {
        "full": LastValue(int).from_checkpoint(3),
        "empty": LastValue(int),
        "unversioned": LastValue(int).from_checkpoint(4),
    }
    made = create_checkpoint(first, channels, 1)
    assert made["channel_values"] == {"full": 3}
    assert made["id"] > first["id"]
    assert made["channel_versions"] == first["channel_versions"]
    assert create_checkpoint(first, None, 1, id="given")["id"] == "given"
