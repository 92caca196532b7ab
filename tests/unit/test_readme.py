"""What the README names exists; tests/workflow/test_documents.py runs what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_it_is_read_in_a_few_minutes():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_to_a_page_and_a_heading(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)", text):
        if "://" not in target:
            place = page.parent / target if target else page
            assert place.exists(), target
            assert not anchor or anchor in anchors(place), (target, anchor)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_every_page_is_reached_from_here():
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        text = page.read_text()
        pending += [
            (page.parent / name).resolve() for name in re.findall(r"\]\(([\w./-]+\.md)", text)
        ]
        pending += [ROOT / name for name in re.findall(r"\bdocs/[\w-]+\.md", text)]
        pending = [page for page in pending if page.exists()]
    assert set(PAGES) - reached == set()


def test_the_files_it_names_exist():
    named = re.findall(
        r"`((?:config|workflow|envs|profiles|benchmarks|results|tests)/[\w./{}-]*\w)`", README
    )
    made_by_a_run = tuple(
        f"results/{name}" for name in ("images", "archive", "leaderboard", "report", "snakemake")
    )
    missing = [
        name
        for name in named
        if "{" not in name and not name.startswith(made_by_a_run) and not (ROOT / name).exists()
    ]
    assert named and missing == []


def test_every_command_of_the_program_runs():
    from permafrost.stages.cli import COMMANDS, main

    shown = set(re.findall(r"^(?:envs/run )?permafrost ([\w-]+)", README, flags=re.MULTILINE))
    assert shown <= set(COMMANDS)
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
