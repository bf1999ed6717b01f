"""Text for a terminal."""

from __future__ import annotations

from rich.text import Text

from threadmark.cli.sizes import plural, size
from threadmark.cli.text import columns, moment, one_line, printable


def test_control_characters_are_shown_and_never_sent() -> None:
    assert printable("a\x1b[31mb\x00\u202e") == "a\\x1b[31mb\\x00\\u202e"


def test_surrogates_do_not_break_the_output() -> None:
    printable("\udcff").encode("utf-8")


def test_markup_in_stored_text_is_only_text() -> None:
    (_, line) = columns(("thread",), [("[bold]x[/bold]",)])
    assert line.plain == "[bold]x[/bold]"


def test_long_text_is_cut_to_a_line() -> None:
    assert one_line("one\n two   three", 8) == "one two…"
    assert one_line("short\nenough") == "short enough"


def test_columns_stand_under_each_other() -> None:
    lines = columns(("name", "n"), [("a", "5"), ("longer", "12")], right=(1,))
    assert [line.plain for line in lines] == ["name     n", "a        5", "longer  12"]


def test_wide_letters_count_twice() -> None:
    lines = columns(("x", "y"), [("日本", "1"), ("abcd", "2")])
    assert [line.plain for line in lines][1:] == ["日本  1", "abcd  2"]


def test_a_cell_keeps_its_style() -> None:
    (_, line) = columns(("x",), [(Text("a", "red"),)])
    assert [span.style for span in line.spans] == ["red"]


def test_times_lose_their_fraction_only() -> None:
    assert moment("2026-01-02T03:04:05.678901+00:00") == "2026-01-02 03:04:05"


def test_sizes_have_three_digits() -> None:
    shown = [size(n) for n in (0, 999, 1_000, 12_345, 999_960, 1_500_000, 178_088_122, 2_340_000_000)]
    assert shown == ["0 B", "999 B", "1.00 kB", "12.3 kB", "1.00 MB", "1.50 MB", "178 MB", "2.34 GB"]


def test_counts_know_the_singular() -> None:
    assert [plural(n, "task") for n in (0, 1, 1234)] == ["0 tasks", "1 task", "1,234 tasks"]
