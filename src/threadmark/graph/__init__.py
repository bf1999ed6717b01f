"""Building graphs (spec 2)."""

from threadmark.constants import END, START
from threadmark.graph.message import MessagesState, add_messages
from threadmark.graph.state import CompiledStateGraph, StateGraph

__all__ = ["END", "START", "CompiledStateGraph", "MessagesState", "StateGraph", "add_messages"]
