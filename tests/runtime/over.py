"""Small graphs over channels."""

from __future__ import annotations

from typing import Any

from threadmark.channels import LastValue
from threadmark.pregel import NodeBuilder, Pregel


def double(number: int) -> int:
    return 2 * number


def node(channel: str, *steps: Any, to: Any = ()) -> NodeBuilder:
    """A node that takes one channel, does the steps and writes to the named channels."""
    made = NodeBuilder().subscribe_only(channel)
    for step in steps:
        made.do(step)
    return made.write_to(*(to if isinstance(to, (list, tuple)) else [to]))


def over(nodes: dict[str, Any], *, input: Any = "in", output: Any = "out", **more: Any) -> Pregel:
    """A graph over channels that each hold one value; ``more["channels"]`` are put over them."""
    plain: dict[str, Any] = {name: LastValue(int) for name in ("in", "mid", "out", "more")}
    return Pregel(
        nodes=nodes,
        channels={**plain, **more.pop("channels", {})},
        input_channels=input,
        output_channels=output,
        **more,
    )


def pair(**more: Any) -> Pregel:
    """in -> double -> mid -> double -> out."""
    return over({"first": node("in", double, to="mid"), "second": node("mid", double, to="out")}, **more)


def seen_by() -> tuple[list[Any], Any]:
    """A list, and a step that keeps its input there."""
    seen: list[Any] = []

    def look(value: Any) -> Any:
        seen.append(value)
        return value

    return seen, look


def several(**more: Any) -> Pregel:
    """A graph whose input is a dict of two channels, and whose output is what it was given of them."""
    return over({"n": NodeBuilder().subscribe_to("in", "mid").do(dict).write_to("out")}, input=["in", "mid"], **more)
