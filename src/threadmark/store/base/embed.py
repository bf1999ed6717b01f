"""Texts to vectors: which parts of a value are text, and whoever makes vectors of them (spec 15)."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from threadmark.errors import ColourError
from threadmark.later import asyncio
from threadmark.store.base.items import StoreError

Vector: TypeAlias = list[float]
EmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], list[Vector]]
AEmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Vector]]]


class Embeddings:
    """Makes vectors of texts. LangChain's class of this name has the same methods.

    Derive from it and write ``embed_documents``; the others build on it.
    """

    def embed_documents(self, texts: list[str]) -> list[Vector]:
        """One vector a text."""
        raise NotImplementedError

    def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[Vector]:
        """The same as ``embed_documents``, in a thread."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> Vector:
        """The same as ``embed_query``, in a thread."""
        return await asyncio.to_thread(self.embed_query, text)


class _Function(Embeddings):
    def __init__(self, function: EmbeddingsFunc) -> None:
        self._function = function

    def embed_documents(self, texts: list[str]) -> list[Vector]:
        return list(self._function(texts))


class _AsyncFunction(Embeddings):
    def __init__(self, function: AEmbeddingsFunc) -> None:
        self._function = function

    def embed_documents(self, texts: list[str]) -> list[Vector]:
        raise ColourError("this store's embed function is async; use the store's methods whose names start with 'a'")

    async def aembed_documents(self, texts: list[str]) -> list[Vector]:
        return list(await self._function(texts))

    async def aembed_query(self, text: str) -> Vector:
        return (await self.aembed_documents([text]))[0]


def ensure_embeddings(embed: Any) -> Any:
    """Something with the methods of ``Embeddings`` out of what an index config names.

    Raises ``StoreError`` for anything else, and for a model's name when LangChain is not there.
    """
    if embed is None:
        raise StoreError("an index needs 'embed': a function from a list of texts to a list of vectors")
    if isinstance(embed, str):
        return _named_model(embed)
    if hasattr(embed, "embed_documents") and hasattr(embed, "embed_query"):
        return embed
    call = type(embed).__call__ if callable(embed) else None
    if inspect.iscoroutinefunction(embed) or inspect.iscoroutinefunction(call):
        return _AsyncFunction(embed)
    if callable(embed):
        return _Function(embed)
    raise StoreError(f"'embed' must be a function or have embed_documents and embed_query; {embed!r} has not")


def _named_model(name: str) -> Any:
    try:
        from langchain.embeddings import init_embeddings  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise StoreError(f"the model {name!r} is looked up by LangChain: pip install langchain") from error
    return init_embeddings(name)


# -- the texts of a value ------------------------------------------------------------------------------------------

_WHOLE = ("", "$")
_TOKEN = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|[^.\[\]{}]+|.")


def tokenize_path(path: str) -> list[str]:
    """The steps of a path: ``"a[*].{b,c}"`` -> ``["a", "[*]", "{b,c}"]``."""
    return [token for token in _TOKEN.findall(path) if token != "."]


def get_text_at_path(obj: Any, path: str | list[str]) -> list[str]:
    """The texts that a path leads to; none where it leads nowhere.

    Steps: a key; ``*``, every value of a dict; ``[0]``, ``[-1]``, ``[*]``; ``{a,b.c}``, several paths at once. An
    empty path or ``$`` is all of it. Numbers become texts, dicts and lists JSON.
    """
    if path in _WHOLE:
        return [json.dumps(obj, sort_keys=True, ensure_ascii=False)] if obj is not None else []
    steps = tokenize_path(path) if isinstance(path, str) else list(path)
    return [_text(found) for found in _walk(obj, steps) if found is not None]


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return str(value)


def _walk(value: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step.startswith("{") and step.endswith("}"):
        for path in step[1:-1].split(","):
            for found in _walk(value, tokenize_path(path.strip())):
                yield from _walk(found, rest)
        return
    for inner in _step(value, step):
        yield from _walk(inner, rest)


def _step(value: Any, step: str) -> Sequence[Any]:
    if isinstance(value, Mapping):
        if step == "*":
            return list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list):
        if step in ("[*]", "*"):
            return value
        if re.fullmatch(r"\[-?\d+\]", step) and -len(value) <= int(step[1:-1]) < len(value):
            return [value[int(step[1:-1])]]
    return []


# -- likeness --------------------------------------------------------------------------------------------------------


def unit(vector: Sequence[float], dims: int | None) -> Vector:
    """A vector of length 1 in the same direction; ``StoreError`` when it has not ``dims`` numbers."""
    if dims is not None and len(vector) != dims:
        raise StoreError(f"the embed function made a vector of {len(vector)} numbers; the index is for {dims}")
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else [0.0] * len(vector)


def likeness(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine between two unit vectors."""
    return sum(x * y for x, y in zip(a, b, strict=True))
