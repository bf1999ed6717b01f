"""Channels: the values of a state and the rules by which writes change them (spec 2.2)."""

from threadmark.channels.any_value import AnyValue
from threadmark.channels.base import MISSING, BaseChannel
from threadmark.channels.binop import BinaryOperatorAggregate
from threadmark.channels.delta import DeltaChannel
from threadmark.channels.ephemeral_value import EphemeralValue
from threadmark.channels.last_value import LastValue, LastValueAfterFinish
from threadmark.channels.named_barrier_value import NamedBarrierValue, NamedBarrierValueAfterFinish
from threadmark.channels.topic import Topic
from threadmark.channels.untracked_value import UntrackedValue

__all__ = [
    "MISSING",
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
