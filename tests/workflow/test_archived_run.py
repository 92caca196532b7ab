"""A run that was packed, and unpacked beside another clone, is a finished run there."""

from __future__ import annotations

import json
import subprocess
import zipfile

import pytest
from helpers.project import ONE_BACKBONE, Project


@pytest.mark.slow
def test_a_deposit_holds_the_archive_and_its_checksum(project):
    project.permafrost(
        *("archive", "--zenodo", "deposit", "--creator", "Frost, Ada", "--licence", "cc-by-4.0"),
    )
    folder = project.path("deposit")
    (archive,) = folder.glob("*.zip")
    with zipfile.ZipFile(archive) as packed:
        assert "ro-crate-metadata.json" in packed.namelist()
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0 and f"{archive.name}: OK" in done.stdout
    described = json.loads((folder / "metadata.json").read_text())["metadata"]
    assert described["creators"] == [{"name": "Frost, Ada"}]


@pytest.mark.slow
def test_a_restored_archive_has_nothing_left_to_do_and_reruns_one_backbone_alone(project, tmp_path):
    project.snakemake("archive")
    (archive,) = project.path("results/archive").glob("*.zip")
    other = Project(tmp_path / "other")
    other.permafrost("restore", str(archive))
    name = "results/leaderboard.csv"
    assert other.path(name).read_bytes() == project.path(name).read_bytes()
    assert not list(other.path("results").rglob("*.zarr")), "stores are left out by default"
    assert other.pending() == {}
    other.config["extra_backbones"]["tiny-network"]["input"]["size"] = 48
    other.configure()
    assert other.pending() == ONE_BACKBONE
    kept = other.path("results/predictions/tiny-landcover/imagestats/seed0/linear.parquet")
    before = kept.stat().st_mtime_ns
    other.snakemake("results/leaderboard.parquet")
    assert kept.stat().st_mtime_ns == before
    assert other.pending() == {"compare": 2, "report": 1}
