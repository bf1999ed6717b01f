"""The facts about a checkpoint besides its maps and values: metadata, time, a record of writes. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import ormsgpack

from threadmark.checkpoint.entries import unpacked
from threadmark.checkpoint.layout import Policy
from threadmark.checkpoint.names import encodes, text
from threadmark.checkpoint.records import Columns
from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.errors import DamagedRow
from threadmark.tuples import tuple_of

Dumps: TypeAlias = Callable[[Any], bytes]
"""A value as it is stored: its tag and bytes, joined."""

METADATA, SHOWN, MORE = "\0metadata", "\0writes", "\0checkpoint"
"""Names of asides: large facts that are stored like values, under names that no channel may have."""
ASIDES: Final = frozenset((METADATA, SHOWN, MORE))

_KNOWN_KEYS: Final = frozenset(
    ("v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels")
)
_COLUMNS: Final = frozenset(("source", "step", "run_id", "parents"))
_LEAST: Final = frozenset(("source", "step", "parents"))
_INLINE: Final = Policy().inline
_STEPS: Final = range(-(1 << 63), 1 << 63)
_NO_ASIDES: Final[Mapping[str, bytes]] = {}
_USUAL: Final = ormsgpack.packb((4, True, None, None))
_PLAIN: Final[Mapping[str, Any]] = {**dict.fromkeys(_KNOWN_KEYS), "v": 4}


class Facts(NamedTuple):
    """What is readable by anyone, the small rest as one msgpack array, and the large rest."""

    columns: Columns
    extra: bytes
    asides: Mapping[str, bytes]


def facts_of(
    checkpoint: Mapping[str, Any], parent: str | None, metadata: Mapping[str, Any], shown_writes: Any, dumps: Dumps
) -> Facts:
    """All facts about a checkpoint, as they are stored."""
    if shown_writes is None and checkpoint.keys() == _KNOWN_KEYS and checkpoint["v"] == 4:
        # What a graph stores as a rule. To look at each part by itself costs four times as much.
        usual = _usual_columns(checkpoint["ts"], parent, metadata)
        if usual is not None:
            return tuple_of(Facts, (usual, _USUAL, _NO_ASIDES))
    columns, complete = _columns(checkpoint.get("ts", ""), parent, metadata)
    keys = checkpoint.keys()
    more = {key: checkpoint[key] for key in keys - _KNOWN_KEYS}
    if "updated_channels" not in keys:
        more["updated_channels"] = None  # absent, not None: the reader takes the key away again
    packed, asides = [checkpoint["v"]], dict[str, bytes]()
    for name, value in ((METADATA, None if complete else metadata), (SHOWN, shown_writes), (MORE, more or None)):
        part = None if value is None else dumped(value, name[1:], dumps)
        if part is not None and len(part) > _INLINE:
            asides[name], part = part, None
        packed.append(part)
    if complete:
        packed[1] = True
    return Facts(columns, ormsgpack.packb(packed), asides)


class Constant:
    """The facts about the checkpoints of one run but for their parents, numbers and times."""

    __slots__ = ("_metadata", "_run_id", "_source", "_told")

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        (_, self._source, _, self._run_id, _, self._told), complete = _columns("", None, metadata)
        if not complete or self._source is None:
            self._told = None

    def facts(self, parent: str, number: int, ts: str, dumps: Dumps) -> Facts:
        """Those of the checkpoint behind ``parent``; as ``facts_of`` tells them."""
        if self._told is not None:
            columns = tuple_of(Columns, (parent, self._source, number, self._run_id, ts, self._told))
            return tuple_of(Facts, (columns, _USUAL, _NO_ASIDES))
        return facts_of({**_PLAIN, "ts": ts}, parent, {**self._metadata, "step": number}, None, dumps)


def _usual_columns(ts: Any, parent: str | None, metadata: Mapping[str, Any]) -> Columns | None:
    """The columns if they say all of the metadata, and it is that of a graph's own superstep without a run id."""
    if metadata.keys() != _LEAST or type(ts) is not str or not ts.isascii():
        return None
    source, step = metadata["source"], metadata["step"]
    if type(source) is not str or not source.isascii() or type(step) is not int or step not in _STEPS:
        return None
    parents = metadata["parents"]
    told = "{}" if type(parents) is dict and not parents else _parents_text(parents)
    return None if told is None else tuple_of(Columns, (parent, source, step, None, ts, told))


def _columns(ts: Any, parent: str | None, metadata: Mapping[str, Any]) -> tuple[Columns, bool]:
    """The columns, and whether they say all of the metadata."""
    complete = metadata.keys() <= _COLUMNS
    source, step, run_id, parents = map(metadata.get, ("source", "step", "run_id", "parents"))
    if type(source) is not str or not encodes(source):
        complete, source = complete and "source" not in metadata, None
    if type(step) is not int or step not in _STEPS:
        complete, step = complete and "step" not in metadata, None
    if type(run_id) is not str or not encodes(run_id):
        complete, run_id = complete and "run_id" not in metadata, None
    told = _parents_text(parents)
    if told is None:
        complete = complete and "parents" not in metadata
    return Columns(parent, source, step, run_id, text(ts, "ts"), told), complete


def _parents_text(parents: Any) -> str | None:
    """The enclosing checkpoints as JSON; None unless they are texts by texts."""
    if type(parents) is not dict:
        return None
    if not parents:
        return "{}"
    try:
        return _json_of(*parents, *parents.values())
    except TypeError:  # something in it has no hash, so it is no text
        return None


# The steps of a child graph have the same ones.
@lru_cache(maxsize=256, typed=True)
def _json_of(*texts: Any) -> str | None:
    """As many keys, then their values, as a JSON object; None unless all are texts that can be encoded."""
    if not all(type(each) is str and encodes(each) for each in texts):
        return None
    half = len(texts) // 2
    return json.dumps(dict(zip(texts[:half], texts[half:], strict=True)), ensure_ascii=False)


def metadata_of(columns: Columns) -> dict[str, Any]:
    """The metadata that the columns say all of."""
    _, source, step, run_id, _, parents = columns
    found: dict[str, Any] = {}
    if source is not None:
        found["source"] = source
    if step is not None:
        found["step"] = step
    if run_id is not None:
        found["run_id"] = run_id
    if parents is not None:
        found["parents"] = enclosing(columns)
    return found


def enclosing(columns: Columns) -> dict[str, str]:
    """The checkpoints of the enclosing graphs by namespace; ``DamagedRow`` for a text that says none."""
    told = columns.parents
    if told is None or told == "{}":
        return {}
    try:
        found = json.loads(told)
    except ValueError:
        found = None
    if type(found) is not dict or not all(type(each) is str for each in found.values()):
        raise DamagedRow(
            f"a checkpoint's row names its enclosing checkpoints by {told[:40]!r}; restore it from a backup"
        )
    return found


class Extra(NamedTuple):
    """The small facts; None for one that is absent or an aside, ``metadata`` True if the columns say it."""

    v: Any
    metadata: bytes | None | bool
    shown: bytes | None
    more: bytes | None


_USUAL_EXTRA: Final = Extra(4, True, None, None)


def unpack_extra(data: bytes) -> Extra:
    """What the ``extra`` of a checkpoint row says."""
    if data == _USUAL:
        return _USUAL_EXTRA
    found = unpacked(data)
    if type(found) is not list or len(found) != 4 or not _are_parts(*found[1:]):
        raise DamagedRow("what a checkpoint's row says beside its maps cannot be read; restore it from a backup")
    return Extra(*found)


def _are_parts(metadata: Any, shown: Any, more: Any) -> bool:
    return all(part is None or type(part) is bytes for part in (None if metadata is True else metadata, shown, more))


def dumped(value: Any, where: str, dumps: Dumps) -> bytes:
    """A value as bytes; an error names ``where`` it stands."""
    try:
        return dumps(value)
    except SerializationError as error:
        raise located(error, where) from None


def located(error: SerializationError, channel: str) -> SerializationError:
    """The same error with the channel in front of its paths: ``messages[3].extra: ...``."""
    return type(error)(
        [(f"{channel}{'' if path.startswith('[') or not path else '.'}{path}", why) for path, why in error.problems]
    )
