"""The table of quirks: complete, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from permafrost.evaluators.detection import QUIRKS

TESTS = Path(__file__).resolve().parents[2]
# words that stand for a file, as the head of the document says
SHORT = {
    "parity": "parity/test_detection_pycocotools.py",
    "lvis": "parity/test_detection_lvis.py",
    "boundary": "parity/test_detection_boundary.py",
    "rules": "unit/metrics/test_detection_rules.py",
    "inputs": "reliability/test_detection_inputs.py",
    "fuzz": "reliability/test_detection_fuzz.py",
}
# what the peers do and strict mode repeats, by the names that the peers' users know
LETTERS = """A1 A2 A3 A4 B1 B2 B3 B4 B6 B7 C1 C8 D1 D2 D3 D4 D5 D6 D7 E1 E2 F1 F2 F6 F9 G1 G6 H1 H2 H3 H6
    I2 I4 I7 J1 J2 J3 J4 J5 J6 K1 K2 L4 L7 L9 M P AA1 AA2 AA3 AA4 AA5 AA7 AB1 AB2 AC1 AC5 AE1 NaN"""
KNOWN = [*LETTERS.split(), "identity 0", "ties", "no categories"]


def rows() -> list[list[str]]:
    """Cells of every row of every table but the heads."""
    lines = [line for line in QUIRKS.read_text().splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] not in ("quirk", "what") and set(row[0]) != {"-"}]


def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def named(cell: str) -> list[tuple[str, str]]:
    """(file, name or beginning of a name) of every test in a cell; a name keeps the file before it."""
    found, path = [], None
    for word, code in re.findall(r"([A-Za-z]+)|`([^`]+)`", cell):
        if word:
            path = SHORT.get(word.lower(), path)
        elif "test_" in code:
            file, _, name = code.rpartition("::")
            if name.endswith(".py"):
                file, name = name, "test_…"
            path = file or path
            assert path, f"{code}: of which file?"
            found.append((path, name))
    return found


def test_every_test_that_is_named_exists():
    count = 0
    for row in rows():
        for path, name in named(row[-1]):
            names = names_in(path)
            beginning = name.rstrip("…")
            fits = [
                n for n in names if n == name or (name != beginning and n.startswith(beginning))
            ]
            assert fits, f"{row[0]}: no {name} in {path}"
            count += 1
    assert count > 40


def test_every_case_that_is_quoted_exists():
    for row in rows():
        files = [SHORT[w.lower()] for w in re.findall(r"\w+", row[-1]) if w.lower() in SHORT]
        text = "".join((TESTS / path).read_text() for path in files)
        for quoted in re.findall(r'"([^"]+)"', row[-1]):
            assert quoted in text, f"{row[0]}: no {quoted!r} in {files}"


def test_every_row_says_what_each_mode_does_and_what_shows_it():
    for row in rows():
        if len(row) == 5:
            assert row[2] and row[3] and row[4], row
        else:
            assert len(row) == 3 and all(row), row


@pytest.mark.parametrize("quirk", KNOWN)
def test_every_known_quirk_has_a_row(quirk):
    firsts = [row[0] + " " + (row[1] if len(row) == 5 else "") for row in rows()]
    if quirk == "ties":
        assert any("equal score" in first for first in firsts)
        return
    names = {name for first in firsts for name in re.findall(r"\b[A-Z]{1,2}\d*\b", first)}
    assert quirk in names or any(first.startswith(quirk) for first in firsts)


def test_the_document_explains_its_short_names():
    head = QUIRKS.read_text().split("##")[0]
    for path in SHORT.values():
        assert path in head
