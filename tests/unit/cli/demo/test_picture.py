"""The report's picture and pages, from whatever census."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.cli.demo import html, markdown
from threadmark.cli.demo.census import census
from threadmark.cli.demo.licences import FAMILIES
from threadmark.cli.demo.packages import Package
from threadmark.cli.demo.picture import COLOURS, MAP_HEIGHT, MAP_TOP, TILES, WIDTH, breadth, picture, shortened
from threadmark.cli.demo.treemap import Box, treemap

SVG = "{http://www.w3.org/2000/svg}"


def package(name: str, bytes: int, requires: tuple[str, ...] = (), licence: str = "MIT") -> Package:
    return Package(name, "1", "base", bytes, 1, licence, "MIT" if licence == "MIT" else "other", requires)


# -- treemaps --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 10**9), max_size=60), st.floats(10, 2000), st.floats(10, 2000))
def test_tiles_fill_the_box_by_size_and_do_not_overlap(sizes: list[int], width: float, height: float) -> None:
    sizes.sort(reverse=True)
    boxes = treemap(sizes, Box(3, 4, width, height))
    assert len(boxes) == len(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(size * width * height / sum(sizes), rel=1e-6)
        assert box.x >= 3 - 1e-6
        assert box.y >= 4 - 1e-6
        assert box.x + box.width <= 3 + width * (1 + 1e-6) + 1e-6
        assert box.y + box.height <= 4 + height * (1 + 1e-6) + 1e-6
    for at, one in enumerate(boxes):
        assert all(apart(one, other) for other in boxes[at + 1 :])


def apart(one: Box, other: Box) -> bool:
    gap = 1e-6 * (one.x + one.y + one.width + one.height + 1)
    return (
        one.x + one.width <= other.x + gap
        or other.x + other.width <= one.x + gap
        or one.y + one.height <= other.y + gap
        or other.y + other.height <= one.y + gap
    )


def test_equal_sizes_give_nearly_squares() -> None:
    boxes = treemap([1] * 12, Box(0, 0, 400, 300))
    assert {(round(box.width), round(box.height)) for box in boxes} == {(100, 100)}


# -- the picture -----------------------------------------------------------------------------------------------------


def drawn(packages: list[Package]) -> ET.Element:
    return ET.fromstring(picture(census("3.11", packages)))


@pytest.mark.parametrize("count", [0, 1, 2, 30, TILES + 40])
def test_everything_stays_inside_the_picture(count: int) -> None:
    packages = [package(f"package-{n}", 10 + n**4, tuple(f"package-{m}" for m in range(n % 7))) for n in range(count)]
    root = drawn(packages)
    height = float(root.attrib["viewBox"].split()[3])
    rects = [{k: float(r.attrib[k]) for k in ("x", "y", "width", "height")} for r in root.iter(f"{SVG}rect")]
    assert all(r["x"] >= 0 and r["x"] + r["width"] <= WIDTH for r in rects)
    assert all(r["y"] >= MAP_TOP and r["y"] + r["height"] <= height for r in rects)
    assert len([r for r in rects if r["y"] < MAP_TOP + MAP_HEIGHT]) == min(count, TILES + 1)
    texts = [float(text.attrib["y"]) for text in root.iter(f"{SVG}text")]
    assert all(0 < y <= height for y in texts)


def test_names_of_strangers_are_text_and_not_markup() -> None:
    evil = "<script>alert('&\"')</script>"
    result = census("3.11<b>", [package(evil, 5000, (evil,), evil), package("b|c", 10, (evil,))])
    page = html.page(result)
    assert "<script" not in page
    assert "<b>" not in page
    ET.fromstring(picture(result))
    assert "b\\|c" in markdown.page(result)


def test_weightless_packages_have_no_tile_but_are_counted() -> None:
    root = drawn([package("light", 0), package("heavy", 10)])
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert not any(title.startswith("light") for title in titles)
    assert "MIT: 2 · 10 B" in titles


def test_every_family_has_a_colour_on_which_white_is_legible() -> None:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    assert set(COLOURS) == set(FAMILIES)
    assert min(1.05 / (light(colour) + 0.05) for colour in COLOURS.values()) >= 3


def test_names_are_cut_to_the_room_there_is() -> None:
    whole = breadth("numpy")
    assert shortened("numpy", whole) == "numpy"
    assert shortened("numpy", whole - 0.01) == "nump…"
    assert shortened("numpy", breadth("nu…")) == ""


def test_wide_letters_need_more_room_than_narrow_ones() -> None:
    assert breadth("MWMW") > breadth("abcd") > breadth("till")


def test_an_empty_installation_still_has_a_report() -> None:
    result = census("3.11", [])
    assert "0 packages" in markdown.page(result)
    assert "0 packages" in html.page(result)
