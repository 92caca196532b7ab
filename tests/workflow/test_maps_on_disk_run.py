"""Feature stores with maps are removed after use: one after the other where there is no room for two."""

from __future__ import annotations

import pytest
from helpers.project import SCENES, TINY, Project
from permafrost.core.snakemake_internals import read_records
from permafrost.core.store_readers import open_store
from permafrost.operate.maps_on_disk import _bytes_below

MASKS, CLASSES, NOISY, HALF = "tiny-segmentation", "tiny-landcover", "noisy-noise-5", "half"
CONFIG = {
    "datasets": [MASKS, CLASSES],
    "extra_datasets": {
        **TINY["extra_datasets"],
        MASKS: {
            "task": "segmentation",
            "source": {
                "kind": "demo",
                "chips": {"train": 24, "val": 8, "test": 12},
                "chip_size": 32,
                **SCENES,
            },
        },
    },
    "derived_datasets": {
        "noisy": {"of": MASKS, "harder": {"noise": 5}},
        HALF: {"of": MASKS, "share": 0.5},
    },
    "extraction": {"size": 32},
    "probes": {"knn": {"kind": "knn"}, "seg-knn": {"kind": "dense_knn"}},
    # no two of them fit
    "runtime": {**TINY["runtime"], "keep_maps": "0.3 MB"},
}
LEADERBOARD = "results/leaderboard.parquet"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("maps") / "project")
    project.configure(**CONFIG)
    project.snakemake(LEADERBOARD)
    return project


@pytest.mark.slow
def test_maps_are_on_disk_only_while_they_are_read_and_embeddings_stay(finished):
    features = finished.path("results/features")
    assert not [*features.glob(f"{MASKS}/*/*.zarr"), *features.glob(f"{NOISY}/*/*.zarr")]
    assert len(list(features.glob(f"{CLASSES}/*/*.zarr"))) == 6
    assert {row["dataset"] for row in finished.leaderboard()} == {MASKS, CLASSES, NOISY, HALF}
    records = read_records(finished.folder)
    spans = sorted(
        (
            records[f"results/features/{MASKS}/{backbone}/train.zarr"].start,
            max(
                records[f"results/predictions/{one}/{backbone}/seed0/seg-knn.parquet"].end
                for one in (MASKS, NOISY, HALF)
            ),
        )
        for backbone in TINY["backbones"]
    )
    assert spans[0][1] <= spans[1][0]
    assert finished.pending("--", LEADERBOARD) == {}


def values(project: Project) -> dict[tuple, str]:
    """Evaluation and metric -> the value; as text, since some are not a number."""
    named = ("dataset", "backbone", "probe", "metric")
    return {tuple(row[name] for name in named): str(row["value"]) for row in project.leaderboard()}


@pytest.mark.slow
def test_a_probe_that_is_added_extracts_again_and_nothing_else_is_computed_again(
    finished, tmp_path
):
    project = finished.copied(tmp_path / "project")
    before = values(project)
    # degraded test images have the layers of train, and their stores may stay
    kept = f"results/features/{NOISY}/tiny-network"
    project.snakemake(f"{kept}/test.zarr")
    lacking = [
        [
            one["name"]
            for one in open_store(project.path(f"{kept}/{split}.zarr")).attributes["left_out"]
        ]
        for split in ("train", "test")
    ]
    assert lacking[0] == lacking[1] == ["layer4", "layer2", "layer1"]
    project.configure(
        probes={**CONFIG["probes"], "seg": {"kind": "segmentation", "epochs": 1, "head": "linear"}}
    )
    # stores of the half are there, but lack layers that this probe reads
    new = {
        "extract": 2,
        "extract_harder": 2,
        "select": 2,
        "probe_maps": 6,
        "bootstrap": 6,
        "aggregate": 1,
    }
    assert project.pending("--", LEADERBOARD) == new
    said = project.permafrost("plan")
    planned = dict(line.split()[::2][:2] for line in said.splitlines()[1:7])
    assert planned["extract"] == "2" and planned["prepare"] == "0"
    (again,) = (line for line in said.splitlines() if line.startswith("Again:"))
    assert "are 6 jobs to run again, because their stores were removed or lack a layer" in again
    project.configure(runtime={**CONFIG["runtime"], "keep_maps": True})
    project.snakemake(LEADERBOARD)
    assert project.pending("--", LEADERBOARD) == {}, (
        "though stores are newer than their predictions"
    )
    stores = list(project.path("results/features").glob(f"{MASKS}/*/*.zarr"))
    assert len(stores) == 6
    # so much that no two fit into the bound, as was assumed above
    assert sum(map(_bytes_below, map(str, stores))) > 0.3e6
    after = values(project)
    assert {key: after[key] for key in before} == before
