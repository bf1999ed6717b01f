"""How deep a msgpack value nests, found without decoding it."""

from __future__ import annotations

from threadmark.checkpoint.serde.kinds import raw_codes

__all__ = ["deepest"]

_FIXED = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8,
}  # fmt: skip
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_CONTAINERS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}


def deepest(data: bytes) -> int:
    """The greatest number of containers and packed extensions around one token; wrong bytes end the count early."""
    open_items: list[int] = []
    most = at = 0
    size = len(data)
    raw = raw_codes()
    while at < size:
        head = data[at]
        at += 1
        items = 0
        if head < 0x80 or head >= 0xE0:
            pass
        elif head < 0x90:
            items = 2 * (head & 15)
        elif head < 0xA0:
            items = head & 15
        elif head < 0xC0:
            at += head & 31
        elif head in _FIXED:
            at += _FIXED[head]
        elif head in _SIZED:
            width = _SIZED[head]
            at += width + int.from_bytes(data[at : at + width], "big")
        elif head in _CONTAINERS:
            width, each = _CONTAINERS[head]
            items = each * int.from_bytes(data[at : at + width], "big")
            at += width
        elif 0xD4 <= head <= 0xD8 or head in _EXTENSIONS:
            width = _EXTENSIONS.get(head, 0)
            length = int.from_bytes(data[at : at + width], "big") if width else 1 << (head - 0xD4)
            code = data[at + width] if at + width < size else 0
            at += width + 1
            if code in raw:
                at += length
            else:
                items = 1
        else:
            return most
        if items:
            open_items.append(items)
            most = max(most, len(open_items))
            continue
        while open_items:
            open_items[-1] -= 1
            if open_items[-1]:
                break
            open_items.pop()
    return most
