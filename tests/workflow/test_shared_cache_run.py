"""Two projects and one cache: the second one runs no forward pass."""

from __future__ import annotations

import pytest
from helpers.project import Project

pytestmark = pytest.mark.slow


def test_a_second_project_takes_images_and_features_from_the_first(tmp_path):
    runtime = {"device": "cpu", "batch_size": 16, "workers": 2, "cache": str(tmp_path / "cache")}
    extracted = []
    for name in ("first", "second"):
        project = Project(tmp_path / name)
        project.configure(backbones=["imagestats"], runtime=runtime)
        project.snakemake("features")
        log = project.path("results/logs/extract/tiny-landcover/imagestats.log").read_text()
        extracted.append("taken from the cache" not in log)
        stores = project.path("results/features/tiny-landcover/imagestats")
        files = {
            str(path.relative_to(stores)): path.read_bytes()
            for path in sorted(stores.rglob("*"))
            if path.is_file() and path.name != ".snakemake_timestamp"
        }
        if name == "first":
            made = files
    assert extracted == [True, False] and files == made and made
    assert len(list((tmp_path / "cache").iterdir())) == 2
    # the cache is no part of a plan
    project.configure(runtime={**runtime, "cache": None})
    assert project.pending("--", "features") == {}
