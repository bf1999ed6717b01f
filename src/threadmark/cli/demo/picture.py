"""The report's picture, one SVG: how much each package weighs, under which licence, and how many others need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from threadmark.cli.demo.census import Census
from threadmark.cli.demo.packages import Package
from threadmark.cli.demo.treemap import Box, treemap
from threadmark.cli.sizes import plural, size

WIDTH: Final = 1120
MAP_TOP: Final = 40
MAP_HEIGHT: Final = 470
BARS_TOP: Final = MAP_TOP + MAP_HEIGHT + 64
ROW: Final = 27
MOST_ROWS: Final = 12
TILES: Final = 90
"""The largest packages have tiles of their own; the rest share one."""
NARROW: Final = frozenset("fijlrt.,-'|!:;()[] 1…")
WIDE: Final = frozenset("mwMW@%")
REST: Final = "rest"
"""Stands for a family in the tile of the many small packages."""

COLOURS: Final = {
    "MIT": "#3a6ea5",
    "BSD": "#2f8577",
    "Apache": "#b4632d",
    "Python": "#7b5ea7",
    "MPL": "#a2497b",
    "GPL": "#a83f3f",
    "other": "#66717e",
    "not stated": "#8b8f96",
}
"""Each is dark enough for white letters (contrast 3:1 for the weakest, which is set bold)."""


def picture(census: Census) -> str:
    """The whole ``<svg>`` element. It scales to the width it is given and follows the page's text colour."""
    rows = max(len(census.shares), min(len(census.needed), MOST_ROWS), 1)
    height = BARS_TOP + rows * ROW + 12
    title = f"{plural(len(census.packages), 'package')}, {size(census.bytes)}: sizes, licences and fan-in"
    space = 'xmlns="http://www.w3.org/2000/svg" font-family="inherit"'
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="picture-title" {space}>',
        f'<title id="picture-title">{escape(title)}</title>',
        _heading(0, 20, "Weight on disk", "area: size, colour: licence"),
        *_tiles(census.packages),
        _heading(0, BARS_TOP - 16, "Licences", "packages and bytes"),
        *_shares(census),
        _heading(560, BARS_TOP - 16, "Most needed", "installed packages that require it"),
        *_needed(census),
        "</svg>",
    ]
    return "\n".join(parts)


def _heading(x: float, y: float, text: str, note: str) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="currentColor" font-size="17" font-weight="650">{text}'
        f'<tspan dx="10" font-size="13" font-weight="400" fill-opacity="0.65">{note}</tspan></text>'
    )


# -- sizes -----------------------------------------------------------------------------------------------------------


def _tiles(packages: Sequence[Package]) -> Iterator[str]:
    weighty = [package for package in packages if package.bytes]
    large, small = weighty[:TILES], weighty[TILES:]
    entries = [(p.bytes, p.family, p.name, _about(p)) for p in large]
    if small:
        rest = sum(p.bytes for p in small)
        label = f"{len(small)} smaller ones"
        entries.append((rest, REST, label, f"{label} · {size(rest)}"))
        entries.sort(key=lambda entry: -entry[0])
    boxes = treemap([entry[0] for entry in entries], Box(0, MAP_TOP, WIDTH, MAP_HEIGHT))
    for (weight, family, name, about), box in zip(entries, boxes, strict=True):
        yield f"<g><title>{escape(about)}</title>{''.join(_tile(box, family, name, size(weight)))}</g>"


def _about(package: Package) -> str:
    licence = package.licence or "licence not stated"
    return f"{package.name} {package.version} · {size(package.bytes)} · {licence} · {package.place}"


def _tile(box: Box, family: str, name: str, weight: str) -> Iterator[str]:
    """A coloured tile with as much of the name, and below it the weight, as there is room for."""
    gap = min(1.0, box.width / 8, box.height / 8)
    inner = box.x + gap, box.y + gap, box.width - 2 * gap, box.height - 2 * gap
    x, y, width, height = (round(number, 2) for number in inner)
    fill = f'fill="{COLOURS[family]}"' if family != REST else 'fill="currentColor" fill-opacity="0.2"'
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{round(gap * 3, 2)}" {fill}/>'
    room = width - 10
    font = max(10.0, int(min(24.0, room / breadth(name), height / 2.6) * 10) / 10)
    name = shortened(name, room / font)
    if len(name) < 3 or height < font * 1.5:
        return
    ink, top = "#fff" if family != REST else "currentColor", y + font * 1.1 + 2
    yield _text(x + 6, top, ink, name, font_size=font, font_weight=600)
    below = max(round(font * 0.72, 1), 10)
    if height >= font * 1.5 + below * 1.5 and breadth(weight) * below <= room:
        yield _text(x + 6, top + below * 1.35, ink, weight, font_size=below, fill_opacity=0.85)


def breadth(text: str) -> float:
    """About how wide a bold text is, in units of its font's size; on the safe side for the fonts of most systems."""
    wide = ((c in WIDE and 1.05) or (c in NARROW and 0.45) or (0.8 if c.isupper() else 0.7) for c in text)
    return sum(wide) or 0.1


def shortened(name: str, room: float) -> str:
    """A name cut to so much breadth, with a dot-dot-dot; empty if hardly anything would be left."""
    if breadth(name) <= room:
        return name
    kept = next((at for at in range(len(name) - 1, 2, -1) if breadth(name[:at] + "…") <= room), 0)
    return name[:kept] + "…" if kept else ""


def _text(x: float, y: float, fill: str, text: str, **style: object) -> str:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{round(x, 1)}" y="{round(y, 1)}" fill="{fill}"{attributes}>{escape(text)}</text>'


# -- bars ------------------------------------------------------------------------------------------------------------


def _shares(census: Census) -> Iterator[str]:
    most = max((share.packages for share in census.shares), default=1)
    for row, share in enumerate(census.shares):
        value = f"{share.packages} · {size(share.bytes)}"
        yield _bar(0, row, 96, 270, share.packages / most, COLOURS[share.family], share.family, value)


def _needed(census: Census) -> Iterator[str]:
    shown = census.needed[:MOST_ROWS]
    for row, needed in enumerate(shown):
        yield _bar(560, row, 170, 330, needed.by / shown[0].by, COLOURS[needed.family], needed.name, str(needed.by))
    if not shown:
        yield f'<text x="560" y="{BARS_TOP + 16}" fill="currentColor" font-size="14">none needs another</text>'


def _bar(x: int, row: int, label: int, longest: int, part: float, colour: str, name: str, value: str) -> str:
    """One row: its name at the left, a bar as long as ``part`` says, the value behind it."""
    y, end = BARS_TOP + row * ROW, x + label + round(max(3.0, longest * part), 1)
    ink = "currentColor"
    return (
        f"<g><title>{escape(name)}: {escape(value)}</title>"
        + _text(x + label - 8, y + 16, ink, shortened(name, label / 12.5), font_size=14, text_anchor="end")
        + f'<rect x="{x + label}" y="{y + 2}" width="{round(end - x - label, 1)}" height="19" rx="3" fill="{colour}"/>'
        + _text(end + 8, y + 16, ink, value, font_size=13, fill_opacity=0.75)
        + "</g>"
    )
