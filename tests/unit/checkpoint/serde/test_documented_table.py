"""The table of kinds in the documentation is made of the table in the code.

    python -m tests.unit.checkpoint.serde.test_documented_table

writes it anew after a row was added.
"""

from __future__ import annotations

from pathlib import Path

from threadmark.checkpoint.serde.kinds import kinds
from threadmark.checkpoint.serde.records import SORTS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "serializers.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
SAME = "the same"
PLAIN = ("None", "builtins:bool", "builtins:float", "builtins:bytes", "builtins:list")

# What the peer's serializer gives back, from running it (spec 12.3).
PEER = {
    "None": SAME, "builtins:bool": SAME, "builtins:float": SAME, "builtins:bytes": SAME, "builtins:list": SAME,
    "builtins:str": "lone surrogates become `?`", "builtins:int": "refused beyond 64 bits",
    "builtins:tuple": "a list", "builtins:bytearray": "bytes, unless it is the whole value",
    "builtins:memoryview": "bytes",
    "builtins:dict": "tuple and text keys only", "builtins:set": "refused or None with tuples in it",
    "builtins:frozenset": "refused or None with tuples in it", "collections:deque": "loses its maxlen",
    "collections:OrderedDict": "a dict", "collections:defaultdict": "a dict", "collections:Counter": "a dict",
    "datetime:datetime": SAME, "datetime:date": SAME, "datetime:time": SAME, "datetime:timedelta": SAME,
    "datetime:timezone": SAME, "zoneinfo:ZoneInfo": SAME, "decimal:Decimal": SAME, "uuid:UUID": SAME,
    "re:Pattern": SAME, "pathlib:PosixPath": SAME, "pathlib:WindowsPath": SAME,
    "pydantic:SecretStr": SAME, "pydantic:AnyUrl": "text",
    "numpy:ndarray": "the same, read-only", "threadmark.checkpoint.serde.arrays:_ObjectArray": "None",
    "threadmark.types:Send": SAME, "threadmark.types:Command": "`goto` becomes a list",
    "threadmark.types:Interrupt": SAME, "threadmark.types:Overwrite": SAME, "threadmark.types:TimeoutPolicy": SAME,
    "threadmark.checkpoint.serde.types:_DeltaSnapshot": SAME,
}  # fmt: skip
PEER |= {f"ipaddress:{name}": SAME for name in (
    "IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface")}  # fmt: skip
PEER_SORTS = {
    "enum": "its bare value, when nested in a class", "exception": "its repr as text",
    "namedtuple": "tuples in it are lists", "dataclass": "bare fields, when it cannot be made",
    "pydantic": "validated again; bare fields, when that fails",
    "pydantic v1": "validated again", "subclass": "the bare value",
}  # fmt: skip
SORT_NAMES = {
    "enum": "`Enum` and its kin, flags combined too", "exception": "exceptions; builtin ones need no permission",
    "pydantic": "pydantic models, extra and private values included", "pydantic v1": "pydantic v1 models",
    "msgspec": "msgspec structs", "attrs": "attrs classes", "namedtuple": "`NamedTuple`",
    "dataclass": "dataclasses, slots and frozen ones too", "subclass": "subclasses of `str`, `int`, `list`, `dict` ...",
}  # fmt: skip


def table() -> str:
    rows = [f"| `{name.removeprefix('builtins:')}` |  | == | {PEER[name]} |" for name in PLAIN]
    for kind in sorted(kinds(), key=lambda row: row.code):
        name = kind.type.replace("threadmark.checkpoint.serde.arrays:_ObjectArray", "numpy:ndarray of objects")
        shown = name.removeprefix("builtins:").replace("threadmark.checkpoint.serde.types:", "").replace(":", ".")
        shown = shown.replace("numpy.generic", "numpy scalars").replace("ellipsis", "...")
        rows.append(f"| `{shown}` | {kind.note} | {kind.equal} | {PEER.get(kind.type, 'refused')} |")
    allowed = [
        f"| {SORT_NAMES[sort.name]} | {sort.runs} | {sort.equal} | {PEER_SORTS.get(sort.name, 'refused')} |"
        for sort in SORTS
    ]
    return "\n".join([
        "### What needs no permission", "",
        "Each comes back as the type it was; the third column says by what it is the same.", "",
        "| type | note | the same by | in LangGraph |", "|---|---|---|---|", *rows, "",
        "LangChain's messages and `Document` need no permission either.", "",
        "### What needs permission", "",
        "| class | what of its code runs when an instance is made | the same by | in LangGraph |", "|---|---|---|---|",
        *allowed, "", "",
    ])  # fmt: skip


def with_table(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + table() + END + tail


def test_the_page_shows_the_table_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_table(text), f"run python -m {__name__}"


def test_every_row_of_the_peer_is_a_row_of_ours() -> None:
    known = {kind.type for kind in kinds()} | set(PLAIN)
    assert PEER.keys() <= known
    assert PEER_SORTS.keys() <= SORT_NAMES.keys() == {sort.name for sort in SORTS}


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
