"""Names of any kind are shown without what a terminal obeys, and are never longer than a line."""

from __future__ import annotations

import pytest
from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.text import LONGEST_LINE, bytes_of, bytes_words, printable, printable_name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("oak tree", "oak tree"),
        ("Öl, 木, 🌳", "Öl, 木, 🌳"),
        ("می‌خواهم", "می‌خواهم"),
        ("a\u00a0b", "a\u00a0b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\tc\0", r"a\rb\tc\x00"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("a\u2066b\u200f", r"a\u2066b\u200f"),
        ("\ufeffid", r"\ufeffid"),
        ("a\u2028b", r"a\u2028b"),
        ("half \udce4", r"half \udce4"),
        ("two\nlines", r"two\nlines"),
        (17, "17"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(name, text):
    assert printable_name(name) == text


def test_a_long_name_is_shortened_in_its_middle():
    name = "x" * 100_000 + "17"
    assert (
        len(printable_name(name)) == 60
        and printable_name(name).endswith("17")
        and "…" in printable_name(name)
    )
    assert len(printable_name("\x1b" * 100_000)) == 60
    assert printable_name("y" * 60) == "y" * 60


def test_lines_stay_lines():
    text = "two\nlines " + "z" * 2 * LONGEST_LINE
    first, second = printable(text).split("\n")
    assert first == "two" and len(second) == LONGEST_LINE


def test_an_error_shows_names_so_and_keeps_them_in_full():
    name = "\x1b]0;owned\x07" + "n" * 100_000
    error = PermafrostError(f"no class {name}", where=f"a\nb: {name}", remedy=f"leave out {name}")
    assert "\x1b" not in str(error) and "\x07" not in str(error) and "\n" not in str(error)
    assert len(str(error)) < 3 * LONGEST_LINE + 100
    assert name in error.problem and name in error.where and name in error.remedy


def test_long_names_are_compared_by_their_ends():
    assert near_names("oak" + "k" * 100_000, ["oak", "pine"]) == "known: oak, pine"
    assert len(near_names("b", ["n" * 100_000])) < 300


@pytest.mark.parametrize(
    ("words", "count"), [("500 GB", 5e11), ("1.5TB", 1.5e12), ("0.3 MB", 3e5), ("2 kB", 2000)]
)
def test_sizes_are_read_as_they_are_written(words, count):
    assert bytes_of(words) == pytest.approx(count, rel=1e-15)
    assert bytes_of(bytes_words(count)) == pytest.approx(count, rel=1e-15)
