"""A run stops to ask a person, and the answer comes from another process, days later if need be.

python examples/approved_later.py order.db             asks
python examples/approved_later.py order.db yes         answers
"""

from __future__ import annotations

import sys
from typing import Any, TypedDict

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "order-17"}}


class Order(TypedDict, total=False):
    """An order on its way."""

    item: str
    price: int
    status: str


def quote(order: Order) -> Order:
    """What it costs."""
    return {"price": 40 * len(order["item"])}


def approve(order: Order) -> Command[str]:
    """The node runs from its first line again when the answer is there: keep what must not happen twice behind it."""
    answer = interrupt(f"Buy {order['item']} for {order['price']}?")
    return Command(goto="buy") if answer == "yes" else Command(update={"status": "refused"}, goto=END)


def buy(order: Order) -> Order:
    """Only after a yes."""
    return {"status": "bought"}


def main() -> None:
    """Ask, or answer."""
    db, *answer = sys.argv[1:] or ["order.db"]
    builder: StateGraph[Order] = StateGraph(Order)
    builder.add_sequence([("quote", quote), ("approve", approve)])
    builder.add_node("buy", buy)
    builder.add_edge(START, "quote")
    with SqliteSaver.from_conn_string(db) as saver:
        graph = builder.compile(checkpointer=saver)
        if answer:
            print(graph.invoke(Command(resume=answer[0]), CONFIG)["status"])
        else:
            result = graph.invoke({"item": "a lathe"}, CONFIG)
            print(result["__interrupt__"][0].value)


if __name__ == "__main__":
    main()
