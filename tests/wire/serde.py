"""Golden files of the serializers: bytes that must load for ever.

    python -m tests.wire.serde

adds entries for samples that have none; an entry is never changed, whatever the code writes today.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.checkpoint.serde.samples import ALLOWED, SAMPLES
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

HERE = Path(__file__).parent
OURS = HERE / "serde_v1.json"
SEALED = HERE / "sealed_v1.json"
PEER = HERE / "langgraph.json"
KEY = b"golden key, 32 bytes, never used"
PLACE = ("value", "ns", 7, None, b"\x00")

SERDE = JsonPlusSerializer(allow=ALLOWED)
ENCRYPTED = EncryptedSerializer.from_keys({"golden": KEY}, serde=SERDE)


def read(path: Path) -> dict[str, list[list[str]]]:
    """Entries by name; each is a list of ``[tag, hex]``."""
    found: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def write(path: Path, entries: dict[str, list[list[str]]]) -> None:
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def stored(value: Any) -> list[str]:
    tag, body = SERDE.dumps_typed(value)
    return [tag, body.hex()]


def main() -> None:
    entries = read(OURS)
    for name, values in SAMPLES.items():
        have = entries.setdefault(name, [])
        have += [stored(value) for value in values[len(have) :]]
    write(OURS, entries)
    sealed = read(SEALED)
    if not sealed:
        tag, body = ENCRYPTED.dumps_typed({"a": (1, {2})})
        sealed["by itself"] = [[tag, body.hex()]]
        sealed["in a row"] = [["", ENCRYPTED.bind("thread").seal(PLACE, b"row").hex()]]
        write(SEALED, sealed)


if __name__ == "__main__":
    main()
