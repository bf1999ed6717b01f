"""The text of a LangChain message is a class of its own; people put it into their state as if it were a str."""

from __future__ import annotations

from langchain_core.messages import HumanMessage

from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer


def test_the_text_of_a_message_comes_back_as_it_was() -> None:
    serde = JsonPlusSerializer()
    text = HumanMessage("hi").text
    back = serde.loads_typed(serde.dumps_typed({"answer": text}))["answer"]
    assert back == "hi"
    assert type(back) is type(text)
