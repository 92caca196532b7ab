"""Links between the pages of a report lead to a file of it, and to a part of that page."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.results.pages import build_report, prepare, small

_LINK = re.compile(r'\b(?:href|src)="([^"]+)"')


def broken_links(folder: Path) -> list[tuple[str, str]]:
    """(page, target) of the relative links of all pages that lead nowhere."""
    pages = {path.resolve(): path.read_text() for path in folder.rglob("*.html")}
    parts = {path: {*re.findall(r'\bid="([^"]+)"', text)} for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        # scripts make links of their own
        for target in _LINK.findall(re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, part = target.partition("#")
            place = (path.parent / file).resolve() if file else path
            if not place.exists() or (part and part not in parts.get(place, ())):
                broken.append((path.name, target))
    return broken


def test_links_of_a_report_lead_somewhere(tmp_path):
    datasets = {"eurosat": small(), "a name with spaces": small("a name with spaces")}
    inputs = prepare(tmp_path, datasets=datasets, backbones=["a", "b/c"])
    (tmp_path / "a.log").write_text("a on eurosat/test: 30/30 images, 10.0/s\n")
    build_report(**inputs | {"logs": {("eurosat", "a"): tmp_path / "a.log"}})
    assert len([*(tmp_path / "report").rglob("*.html")]) == 5
    assert broken_links(tmp_path / "report") == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="#y">2</a><p id="z">')
    (tmp_path / "b.html").write_text(
        '<a href="a.html#z">3</a><img src="no.png"><a href="https://e">'
    )
    expected = {("a.html", "b.html#x"), ("a.html", "#y"), ("b.html", "no.png")}
    assert {*broken_links(tmp_path)} == expected
