"""A restored archive leaves Snakemake nothing to do, and a change reruns only what depends on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from permafrost.report.archive.restoring import restore_archive
from permafrost.report.archive.writing import write_archive

pytestmark = pytest.mark.slow

SNAKEFILE = """
NAMES = ["a", "b"]

rule all:
    input: "results/leaderboard.csv"

rule extract:
    output: directory("results/features/{name}.zarr")
    params: spec=lambda w: config.get(w.name, "one")
    shell: "mkdir {output} && echo {params.spec} > {output}/zarr.json"

rule probe:
    input: "results/features/{name}.zarr"
    output: "results/scores/{name}.parquet"
    params: spec=lambda w: config.get(w.name, "one")
    shell: "cat {input}/zarr.json > {output}"

rule aggregate:
    input: expand("results/scores/{name}.parquet", name=NAMES)
    output: "results/leaderboard.csv"
    shell: "cat {input} > {output}"
"""
PLAN = {
    "plan": "abc", "results": "results", "config": {}, "backbones": {}, "datasets": {},
    "outputs": [{"stage": path.partition("/")[0], "path": f"results/{path}"} for path in
                ("features/a.zarr", "features/b.zarr", "scores/a.parquet", "scores/b.parquet",
                 "leaderboard.csv")],
}  # fmt: skip


def snakemake(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    clean = {name: value for name, value in os.environ.items() if name != "SNAKEMAKE_PROFILE"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=clean, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("first")
    (root / "Snakefile").write_text(SNAKEFILE)
    snakemake(root)
    output = root / "run.zip"
    files = [Path(row["path"]) for row in PLAN["outputs"]]
    summary = write_archive(plan=PLAN, files=files, root=root, output=output)
    assert summary.without_record == []
    return output


def test_nothing_is_left_to_do_after_restoring_without_stores(archive, tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    restore_archive(archive, tmp_path)
    assert not (tmp_path / "results/features").exists()
    assert "Nothing to be done" in snakemake(tmp_path, "-n")


def test_a_changed_backbone_reruns_only_its_own_jobs(archive, tmp_path):
    restore_archive(archive, tmp_path)
    changed = SNAKEFILE.replace('config.get(w.name, "one")', '{"a": "one", "b": "two"}[w.name]')
    (tmp_path / "Snakefile").write_text(changed)
    said = snakemake(tmp_path, "-n")
    jobs = re.findall(r"^(?:local)?rule (\w+):", said, flags=re.M)
    assert sorted(jobs) == ["aggregate", "all", "extract", "probe"]
    assert "results/features/a.zarr" not in said
