"""A folder for Zenodo: what its deposit API asks for, checksums, and nothing half-written."""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.report.archive.deposit import write_deposit
from permafrost.stages.archive import _check_deposit

PLAN = {
    "plan": "f" * 32,
    "backbones": {"a": {}, "b": {}},
    "datasets": {"x": {}},
    "probes": {"knn": {}, "linear": {}},
}
SAID = {
    "licence": "CC-BY-4.0",
    "methods": "One <b>.\n\nTwo & three.\n",
    "tables": "| a |\n",
    "cited": "@misc{x}\n",
}


def deposit(
    tmp_path: Path, creators=("Curie, Marie; 0000-0002-1825-0097", "Noether, Emmy")
) -> Path:
    results = tmp_path / "results"
    results.mkdir(exist_ok=True)
    (results / "leaderboard.csv").write_text("a,b\n")
    archive = results / "run.zip"
    archive.write_bytes(b"zip")
    plan = {**PLAN, "results": str(results)}
    write_deposit(tmp_path / "deposit", archive, plan, creators=creators, **SAID)
    return tmp_path / "deposit"


def test_metadata_are_what_the_deposit_api_asks_for(tmp_path):
    (key, about), *rest = json.loads((deposit(tmp_path) / "metadata.json").read_text()).items()
    assert (key, rest) == ("metadata", [])
    # required of every deposit, and of open ones a licence
    assert {"upload_type", "title", "creators", "description", "access_right", "license"} <= set(
        about
    )
    assert about["upload_type"] == "dataset" and about["access_right"] == "open"
    assert about["license"] == "cc-by-4.0"
    assert about["creators"] == [
        {"name": "Curie, Marie", "orcid": "0000-0002-1825-0097"},
        {"name": "Noether, Emmy"},
    ]
    assert about["description"] == "<p>One &lt;b&gt;.</p><p>Two &amp; three.</p>"
    assert "2 backbones, 1 dataset, 2 probes" in about["title"]


def test_all_files_are_there_and_their_checksums_hold(tmp_path):
    folder = deposit(tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "run.zip", "leaderboard.csv", "methods.txt", "cited.bib", "README.txt", "metadata.json", "SHA256SUMS",
    }  # fmt: skip
    checked = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(checked, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK") == len(names) - 1
    (folder / "cited.bib").write_text("another")
    assert subprocess.run(checked, cwd=folder, capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("creator", ["", " ; 0000-0002-1825-0097", "Curie, Marie; 12"])
def test_a_creator_that_is_none_is_refused_and_nothing_is_left(tmp_path, creator):
    with pytest.raises(PermafrostError, match="--creator"):
        deposit(tmp_path, (creator,))
    assert not (tmp_path / "deposit").exists()


def test_a_folder_that_holds_something_stays_as_it_is(tmp_path):
    folder = deposit(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(PermafrostError, match="exists already"):
        deposit(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_a_deposit_lacks_is_said_before_anything_is_packed():
    with pytest.raises(PermafrostError, match="needs --creator and --licence"):
        _check_deposit(Namespace(zenodo=Path("d"), creator=None, licence=None))
    with pytest.raises(PermafrostError, match="--licence needs --zenodo"):
        _check_deposit(Namespace(zenodo=None, creator=None, licence="cc0-1.0"))
    _check_deposit(Namespace(zenodo=None, creator=None, licence=None))
