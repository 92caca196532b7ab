"""A finished study that gets derived datasets: what runs, what stays, and what tables and page say of them."""

from __future__ import annotations

import shutil

import numpy as np
import permafrost as pf
import pyarrow.parquet as pq
import pytest
from helpers.project import TINY
from permafrost.core.rows_store import FOLDS
from permafrost.core.store_readers import open_store

OTHER = {
    **TINY["extra_datasets"]["tiny-landcover"],
    "source": {**TINY["extra_datasets"]["tiny-landcover"]["source"], "seed": 7},
}
DERIVED = {
    "folded": {"of": "tiny-landcover", "folds": {"by": "group", "k": 3}},
    "less": {"of": "tiny-landcover", "share": 0.5, "title": "Half of the labels"},
    "moved": {"train": "tiny-landcover", "test": "tiny-other"},
}
HARDER = {"of": "tiny-landcover", "harder": {"noise": [0, 5]}}
PARENTS = ["tiny-landcover", "tiny-other"]
SPLITS = ("train", "val", "test")


def rows_of(path, datasets) -> list[str]:
    """The rows of a table that name these datasets alone, as text, since values may be no number."""
    return [repr(row) for row in pq.read_table(path).to_pylist() if row["dataset"] in datasets]


def row_bytes(path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.slow
def test_derived_datasets_of_a_finished_study(fresh_project):
    project = fresh_project
    project.configure(
        datasets=PARENTS,
        extra_datasets={**TINY["extra_datasets"], "tiny-other": OTHER},
        probes={"knn": {"kind": "knn"}},
    )
    project.snakemake()
    standings = pq.read_table(project.path("results/standings.parquet"))
    leaderboard = rows_of(project.path("results/leaderboard.parquet"), PARENTS)
    stores = project.stores()

    project.configure(derived_datasets={**DERIVED, "harder": HARDER})
    pending = project.pending()
    probes = sum(count for rule, count in pending.items() if rule.startswith("probe"))
    others = {rule: n for rule, n in pending.items() if not rule.startswith("probe")}
    assert probes == 5 * 2
    assert others == {
        **{"resplit": 5, "select": 6, "extract_harder": 4, "bootstrap": 10, "compare": 5},
        **{"aggregate": 1, "report": 1},
    }
    project.snakemake()
    assert project.pending() == {}

    # nothing that was there has changed
    assert pq.read_table(project.path("results/standings.parquet")).equals(standings)
    assert rows_of(project.path("results/leaderboard.parquet"), PARENTS) == leaderboard
    after = project.stores()
    assert {name: after[name] for name in stores} == stores

    # all have scores and no ranks over datasets
    rows = [row for row in project.leaderboard() if row["dataset"] in DERIVED]
    found = {(row["dataset"], row["backbone"], row["probe"]) for row in rows}
    assert found == {
        (dataset, backbone, "knn") for dataset in DERIVED for backbone in TINY["backbones"]
    }
    assert all(np.isfinite(row["value"]) for row in rows if row["primary"])

    # each image of the dataset is tested once, by a probe that saw no image of its group
    images = project.path("results/images")
    every = [
        sample
        for split in SPLITS
        for sample in pq.read_table(images / f"tiny-landcover/{split}.zarr/samples.parquet")[
            "sample_id"
        ].to_pylist()
    ]
    answers = project.path("results/predictions/folded/imagestats/seed0/knn.parquet")
    assert sorted(pq.read_table(answers)["sample_id"].to_pylist()) == sorted(every)
    split_stores = {split: open_store(images / f"folded/{split}.zarr") for split in SPLITS}
    groups = {
        split: np.array(store.samples(["group_id"])["group_id"].to_pylist())
        for split, store in split_stores.items()
    }
    for fold in range(3):
        sides = [
            set(groups[split][store.read(FOLDS)[:, fold].astype(bool)].tolist())
            for split, store in split_stores.items()
        ]
        assert all(sides) and sum(map(len, sides)) == len(set.union(*sides))

    # their stores copy neither images nor features
    for name in DERIVED:
        for split in SPLITS:
            own = project.path(f"results/features/{name}/tiny-network/{split}.zarr")
            assert not (own / "embeddings").exists() and (own / "row").exists()
            assert not (images / f"{name}/{split}.zarr/images").exists()
    assert row_bytes(images / "folded") < row_bytes(images / "tiny-landcover")

    # without a degradation, features and scores are those of the dataset, and noise costs some
    features, scores = (project.path(f"results/{folder}") for folder in ("features", "scores"))
    for backbone in TINY["backbones"]:
        clean, same = (
            open_store(features / name / backbone / "test.zarr").read("embeddings").tobytes()
            for name in ("tiny-landcover", "harder-noise-0")
        )
        assert clean == same
        of_clean, of_same, of_noise = (
            pq.read_table(scores / name / backbone / "seed0/knn.parquet").to_pylist()
            for name in ("tiny-landcover", "harder-noise-0", "harder-noise-5")
        )
        *of_same, loss = of_same
        columns = ("metric", "class", "value", "lower", "upper", "gates")
        for one, other in zip(of_clean, of_same, strict=True):
            assert repr([one[key] for key in columns]) == repr([other[key] for key in columns])
        assert loss["setting"] == "relative loss" and loss["value"] == 0
        value, primary = of_clean[0]["value"], of_noise[0]
        assert primary["primary"] and of_noise[-1]["value"] == 1 - primary["value"] / value
    losses = pf.Results(project.path("results")).harder
    assert losses[["severity", "backbone"]].values.tolist() == [
        [severity, backbone] for severity in (0, 5) for backbone in TINY["backbones"]
    ]
    assert (losses.loss[:2] == 0).all() and (losses.loss[2:] != 0).all()
    page = project.path("results/report/datasets/tiny-landcover.html").read_text()
    assert "Harder images" in page and "harder-pictures__tiny-landcover.png" in page

    # page and commands know them
    page = project.path("results/report/datasets/folded.html").read_text()
    assert "3 folds by group" in page
    assert "Half of the labels" in project.report_text()
    assert "trained on tiny-landcover, tested on tiny-other" in project.report_text()
    for command in (("verify",), ("stale",), ("show", "--probe", "knn")):
        project.permafrost(*command)

    # a parent's deleted features are made again for a changed derived dataset, and nothing else
    shutil.rmtree(project.path("results/features/tiny-other/imagestats"))
    project.configure(derived_datasets={**DERIVED, "less": {**DERIVED["less"], "share": 0.7}})
    assert {rule for rule in project.pending() if not rule.startswith("probe")} == {
        *("resplit", "select", "bootstrap", "compare", "aggregate", "report"),
    }
    assert project.pending()["select"] == 2


@pytest.mark.slow
def test_bands_that_training_lacked(fresh_project):
    project, entry = fresh_project, TINY["extra_datasets"]["tiny-landcover"]
    selected = {"green": ["B04", "B03"], "blue": ["B04", "B02"], "red": ["B03", "B04"]}
    project.configure(
        backbones=["imagestats-all", "tiny-red"],
        extra_backbones={"tiny-red": {"kind": "imagestats", "input": {"bands": ["B04"]}}},
        datasets=[*selected],
        extra_datasets={name: {**entry, "select": bands} for name, bands in selected.items()},
        derived_datasets={"moved": {"train": "green", "test": "blue", "other_bands": True}},
        probes={"knn": {"kind": "knn"}},
    )
    project.snakemake()
    results = pf.Results(project.path("results"))
    losses = results.harder.set_index("backbone")
    assert (losses.of == "green").all() and (losses.degradation == "other_bands").all()
    assert losses.unchanged.to_dict() == {"imagestats-all": False, "tiny-red": True}
    one = losses.loc["imagestats-all"]
    scores = results.leaderboard.set_index(["dataset", "backbone"]).value
    assert (
        one.clean
        == scores["green", "imagestats-all"]
        > one.value
        == scores["moved", "imagestats-all"]
    )
    assert one.loss == 1 - one.value / one.clean and one.lower < one.loss < one.upper
    said = project.permafrost("show", "--dataset", "green")
    assert "tiny-red" in said and "unchanged: the backbone reads none of the changed bands" in said
    page = project.path("results/report/datasets/green.html").read_text()
    assert "reads none of the changed bands" in page

    # features of the same places by two sets of bands
    rows = results.agreement("green", "blue").set_index(["backbone", "measure", "direction"]).value
    assert rows["tiny-red", "cka", None] == pytest.approx(1)
    assert rows["tiny-red", "recall@5", "a to b"] > rows["imagestats-all", "recall@5", "a to b"]
