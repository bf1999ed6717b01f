"""Rows for our own values: sends, commands, interrupts, overwrites, delta snapshots."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.serde.kinds import Kind
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

__all__ = ["KINDS"]


def _send_down(send: Send) -> list[Any]:
    return [send.node, send.arg] if send.timeout is None else [send.node, send.arg, send.timeout]


def _send(parts: list[Any]) -> Send:
    node, arg, *timeout = parts
    made = Send(node, arg)
    # Not through the constructor: a stored policy was valid when it was made.
    made.timeout = timeout[0] if timeout else None
    return made


def _command(parts: list[Any]) -> Command[Any]:
    graph, update, resume, goto = parts
    return Command(graph=graph, update=update, resume=resume, goto=goto)


def _interrupt_down(asked: Interrupt) -> list[Any]:
    return [asked.value, asked.id] if asked.response_schema is None else [asked.value, asked.id, asked.response_schema]


KINDS: tuple[Kind, ...] = (
    Kind(0x60, "threadmark.types:Send", _send_down, _send),
    Kind(0x61, "threadmark.types:Command", lambda c: [c.graph, c.update, c.resume, c.goto], _command),
    Kind(0x62, "threadmark.types:Interrupt", _interrupt_down, lambda parts: Interrupt(*parts)),
    Kind(0x63, "threadmark.types:Overwrite", lambda o: [o.value], lambda parts: Overwrite(*parts)),
    Kind(0x64, "threadmark.checkpoint.serde.types:_DeltaSnapshot", lambda d: [d.value],
         lambda parts: _DeltaSnapshot(*parts)),
    Kind(0x65, "threadmark.types:TimeoutPolicy", lambda t: [t.run_timeout, t.idle_timeout, t.refresh_on],
         lambda parts: TimeoutPolicy(*parts)),
)  # fmt: skip
