"""Go back to a checkpoint, change something, and let both histories stand.

python examples/what_if.py
"""

from __future__ import annotations

from typing import Any, TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "loan"}}


class Loan(TypedDict, total=False):
    """A loan being worked out."""

    sum: float
    rate: float
    yearly: float


def rate(loan: Loan) -> Loan:
    """Large sums are cheaper."""
    return {"rate": 0.05 if loan["sum"] < 10_000 else 0.04}


def price(loan: Loan) -> Loan:
    """The interest of a year."""
    return {"yearly": loan["sum"] * loan["rate"]}


def main() -> None:
    """Work out a loan, then the same with another rate."""
    builder: StateGraph[Loan] = StateGraph(Loan)
    builder.add_sequence([("rate", rate), ("price", price)])
    builder.add_edge(START, "rate")
    graph = builder.compile(checkpointer=InMemorySaver())

    asked = graph.invoke({"sum": 8_000}, CONFIG)
    before_price = next(state for state in graph.get_state_history(CONFIG) if state.next == ("price",))
    cheaper = graph.update_state(before_price.config, {"rate": 0.03})
    offered = graph.invoke(None, cheaper)
    print("as asked:", asked, "what if:", offered)
    assert (asked["yearly"], offered["yearly"]) == (400.0, 240.0)

    # Both ends are there, and their histories part at the checkpoint before the price.
    history = list(graph.get_state_history(CONFIG))
    ends = [state for state in history if not state.next]
    assert [state.values["yearly"] for state in ends] == [240.0, 400.0]
    children = [state for state in history if state.parent_config == before_price.config]
    assert len(children) == 2


if __name__ == "__main__":
    main()
