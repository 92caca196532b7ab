"""Tutorials: every block in order, in an empty folder, as a reader would type it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import permafrost as pf
import pytest
from helpers.project import REPOSITORY

pytestmark = pytest.mark.slow
TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)


def steps(page: Path) -> list[tuple[str, str | None, str]]:
    """(language, file, text) of every block of a page."""
    return [(found[1], found[2], found[3]) for found in _BLOCK.finditer(page.read_text())]


class Reader:
    """A shell that stays in the folder where a block has left it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, folder / "where"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY / "workflow")}

    def types(self, text: str) -> str:
        script = f"set -eo pipefail\n{text}\npwd > {self.where}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        self.folder = Path(self.where.read_text().strip())
        return done.stdout + done.stderr

    def writes(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_as_it_is_printed(page, tmp_path):
    reader, said = Reader(tmp_path), []
    for language, file, text in steps(page):
        assert language == "bash" or file, f"{page.name}: what is a block without a file for?"
        if file:
            reader.writes(file, text)
        else:
            said.append(reader.types(text))
    everything = "\n".join(said)
    assert "Leaderboard: results/leaderboard.csv" in everything
    assert (reader.folder / "results/report/index.html").exists()
    EXPECTED[page.stem](everything, reader)


def first_run(said: str, reader: Reader) -> None:
    folder = reader.folder
    planned = said[said.index("Leaderboard") :]
    # one probe changed, as the table of a dry run says: features stay
    counts = dict(re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE))
    assert counts["probe_embeddings"] == "2" and "extract" not in counts
    # "120 small images", "With 40 test images, nobody is"
    results = pf.Results(folder / "results")
    card = json.loads((folder / "results/images/my-scenes/card.json").read_text())
    assert sum(one["count"] for one in card["splits"].values()) == 120
    tested = results.predictions("my-scenes", "imagestats", "linear")
    told_apart = set(results.standings["letters"].dropna())
    assert len(tested) == 40 and told_apart <= {"a", ""}
    assert "We evaluated 2 frozen backbones" in said and list(folder.glob("results/archive/*.zip"))
    # a new project, as it is written, runs: eight classes in equal parts
    with open(folder / "results/leaderboard.csv") as table:
        rows = [row for row in csv.DictReader(table) if row["metric"] == "accuracy"]
    values = {(row["backbone"], row["probe"]): float(row["value"]) for row in rows}
    names = {(b, p) for b in ("imagestats", "my-backbone") for p in ("knn", "linear")}
    assert set(values) == names and min(values.values()) > 2 / 8
    assert "Nothing to be done" in reader.types("permafrost run -n")


def own_backbone(said: str, reader: Reader) -> None:
    assert "nothing strange was found" in said
    assert "pyramid" in (reader.folder / "results/leaderboard.csv").read_text()


def own_dataset(said: str, reader: Reader) -> None:
    assert "datasets: [parcels]" in said and "nothing strange was found" in said
    assert (
        "spatially random"
        not in (reader.folder / "results/report/datasets/parcels.html").read_text().lower()
    )


EXPECTED = {"first-run": first_run, "own-backbone": own_backbone, "own-dataset": own_dataset}
