"""Classes that the serializer tests store."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
import msgspec
import pydantic
import pydantic.v1

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Perm(enum.IntFlag):
    R = 4
    W = 2


class Mode(enum.Flag):
    A = 1
    B = 2


class Outer:
    class Inner(enum.Enum):
        A = 1

    @dataclasses.dataclass
    class Nested:
        n: int


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Basket:
    items: list[str]
    total: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: Any = None


@dataclasses.dataclass(slots=True)
class One:
    only: Any


@dataclasses.dataclass(repr=False)
class Unset:
    a: int
    later: int = dataclasses.field(init=False)
    hidden: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self.beside = self.a * 2


@dataclasses.dataclass(kw_only=True)
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Message(pydantic.BaseModel):
    role: str
    content: Any
    tags: list[str] = []


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 1
    _note: str = pydantic.PrivateAttr(default="n")
    _empty: int = pydantic.PrivateAttr()


class Alias(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    inner: int = pydantic.Field(alias="Inner")
    secret: pydantic.SecretStr = pydantic.SecretStr("s")
    link: pydantic.HttpUrl | None = None


class Root(pydantic.RootModel[list[int]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class Old(pydantic.v1.BaseModel):
    a: int
    b: list[int] = []
    _private: int = pydantic.v1.PrivateAttr(default=3)


@attrs.define
class Slotted:
    a: int
    b: list[int] = attrs.Factory(list)


@attrs.define(frozen=True, slots=False)
class Plain:
    a: int


@attrs.frozen(cache_hash=True)
class Hashed:
    a: int


class Packed(msgspec.Struct):
    a: int
    b: str = "b"


class Hooked(msgspec.Struct, frozen=True):
    a: int

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "a", self.a + 1)


class Problem(Exception):
    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code
        self.why = why


class SlottedError(Exception):
    __slots__ = ("extra",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.extra = (text,)


class UserId(str):
    pass


class Tagged(dict[str, int]):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tag = "t"


class Scores(list[int]):
    pass


ALL = [value for value in list(vars().values()) if isinstance(value, type) and value.__module__ == __name__]
ALL += [Outer.Inner, Outer.Nested, Box[int]]
