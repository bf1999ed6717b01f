"""The few SQL statements that the fake of Cosmos DB understands. Whatever else it is asked is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Item: TypeAlias = dict[str, Any]
Test: TypeAlias = Callable[[Item], bool]

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)|(?P<param>@\w+)|(?P<text>'[^']*')"
    r"|(?P<number>-?\d+)|(?P<sign><=|>=|!=|[=<>(),*]))"
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_ABSENT = object()


class NotUnderstood(ValueError):
    """A statement that is no SQL for the fake: a syntax error, or something that it was never taught."""


@dataclass(frozen=True)
class Statement:
    """``SELECT fields FROM c WHERE test ORDER BY path``. ``fields`` None is everything."""

    fields: tuple[str, ...] | None
    value: bool
    test: Test
    order: str | None = None
    descending: bool = False

    def project(self, item: Item) -> Any:
        """What the statement selects of an item."""
        if self.fields is None:
            return item
        if self.value:
            return item[self.fields[0]]
        return {name: item[name] for name in self.fields if name in item}

    def shows(self, item: Item) -> bool:
        """Whether an item belongs to the result."""
        if self.value and self.fields is not None and self.fields[0] not in item:
            return False
        return self.test(item) and (self.order is None or self.order in item)


def parsed(text: str, params: Mapping[str, Any]) -> Statement:
    """A statement from its text; ``NotUnderstood`` unless every word of it is known."""
    return _Parser(text, params).statement()


class _Parser:
    def __init__(self, text: str, params: Mapping[str, Any]) -> None:
        self._params, self._used = params, set[str]()
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise NotUnderstood(f"cannot read {text[at : at + 20]!r}")
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        self._at = 0

    def statement(self) -> Statement:
        self._expect("SELECT")
        value = self._take("VALUE")
        fields = None if not value and self._take("*") else self._fields()
        if value and len(fields or ()) != 1:
            raise NotUnderstood("SELECT VALUE takes one field")
        self._expect("FROM")
        self._expect("c")
        test = self._either() if self._take("WHERE") else lambda item: True
        order, descending = None, False
        if self._take("ORDER"):
            self._expect("BY")
            order = self._path()
            descending = self._take("DESC") or not (self._take("ASC") or True)
        if self._at != len(self._tokens):
            raise NotUnderstood(f"cannot read on at {self._tokens[self._at][1]!r}")
        if unused := self._params.keys() - self._used:
            raise NotUnderstood(f"parameters that the statement does not have: {sorted(unused)}")
        return Statement(fields, value, test, order, descending)

    def _fields(self) -> tuple[str, ...]:
        found = [self._path()]
        while self._take(","):
            found.append(self._path())
        return tuple(found)

    def _either(self) -> Test:
        tests = [self._both()]
        while self._take("OR"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._take("AND"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda item: all(test(item) for test in tests)

    def _one(self) -> Test:
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        if self._take("ARRAY_CONTAINS"):
            self._expect("(")
            path = self._path()
            self._expect(",")
            wanted = self._operand()
            self._expect(")")
            return lambda item: isinstance(item.get(path), list) and wanted in item[path]
        path = self._path()
        kind, sign = self._next()
        if kind != "sign" or sign not in _SIGNS:
            raise NotUnderstood(f"{sign!r} is no comparison")
        compare, other = _SIGNS[sign], self._operand()

        def test(item: Item) -> bool:
            found = item.get(path, _ABSENT)
            return type(found) is type(other) and compare(found, other)  # else undefined, which is not true

        return test

    def _operand(self) -> Any:
        kind, text = self._next()
        if kind == "param":
            self._used.add(text)
            if text not in self._params:
                raise NotUnderstood(f"no value for {text}")
            return self._params[text]
        if kind == "text":
            return text[1:-1]
        if kind == "number":
            return int(text)
        raise NotUnderstood(f"{text!r} is no value")

    def _path(self) -> str:
        kind, text = self._next()
        if kind != "word" or not text.startswith("c.") or text.count(".") != 1:
            raise NotUnderstood(f"{text!r} is no path of one step below c")
        return text[2:]

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise NotUnderstood("the statement ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1] == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise NotUnderstood(f"{word} is missing before {found!r}")
