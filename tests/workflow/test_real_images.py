"""The pipeline on real photographs with real ImageNet weights, against scikit-learn on the same features."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest
import yaml
from helpers.project import REPOSITORY, Project
from permafrost.core.stores import Store
from permafrost.core.tables import read_table

# long, and without the shared data it does not run: smaller ones hold each of its comparisons with scikit-learn
pytestmark = [pytest.mark.slow, pytest.mark.shared]
BACKBONES = ["imagestats", "mobilenetv2-imagenet", "mobilenetv2-untrained"]


@pytest.fixture(scope="module")
def merced(tmp_path_factory, shared_data) -> Project:
    """UC Merced at 96 pixels through the example configuration."""
    project = Project(tmp_path_factory.mktemp("real") / "project")
    example = yaml.safe_load((REPOSITORY / "config/examples/real-images.yaml").read_text())
    project.config = {
        **example,
        "results": "results",
        "data": str(shared_data),
        "backbones": BACKBONES,
        "datasets": ["uc-merced"],
        "extraction": {"size": 96},
    }
    project.configure()
    project.snakemake()
    return project


def features(project, backbone, split):
    store = Store(project.path(f"results/features/uc-merced/{backbone}/{split}.zarr"))
    return store.read("embeddings"), store.read("labels")


def accuracy(project, backbone, probe) -> float:
    table, _ = read_table(project.path("results/leaderboard.parquet"))
    rows = table.filter(
        (pc.field("backbone") == backbone)
        & (pc.field("probe") == probe)
        & (pc.field("metric") == "accuracy")
    )
    return rows["value"][0].as_py()


def predicted(project, backbone, probe) -> np.ndarray:
    path = f"results/predictions/uc-merced/{backbone}/seed0/{probe}.parquet"
    return read_table(project.path(path))[0]["prediction"].to_numpy()


def test_trained_weights_beat_untrained_ones_by_far(merced):
    for probe in ("knn", "linear"):
        trained = accuracy(merced, "mobilenetv2-imagenet", probe)
        untrained = accuracy(merced, "mobilenetv2-untrained", probe)
        assert trained > untrained + 0.25
    assert accuracy(merced, "mobilenetv2-imagenet", "linear") > 0.85


@pytest.mark.parametrize("backbone", BACKBONES)
def test_knn_is_scikit_learns(merced, backbone):
    from sklearn.neighbors import KNeighborsClassifier

    train_x, train_y = features(merced, backbone, "train")
    test_x, _ = features(merced, backbone, "test")
    oracle = KNeighborsClassifier(5, algorithm="brute").fit(train_x.astype(np.float64), train_y)
    np.testing.assert_array_equal(predicted(merced, backbone, "knn"), oracle.predict(test_x))


def test_the_linear_probe_is_scikit_learns_at_the_chosen_c(merced):
    from sklearn.linear_model import LogisticRegression

    backbone = "mobilenetv2-imagenet"
    path = merced.path(f"results/predictions/uc-merced/{backbone}/seed0/linear.parquet")
    table, metadata = read_table(path)
    parts = [features(merced, backbone, split) for split in ("train", "val")]
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    # centred it converges sooner, and to the same: the bias takes the mean back
    mean = x.mean(axis=0, dtype=np.float64)
    # scikit-learn's C weighs the sum of losses, as ours does
    oracle = LogisticRegression(C=metadata["settings"]["best_c"], tol=1e-8, max_iter=5000)
    oracle.fit(x - mean, y)
    test_x, _ = features(merced, backbone, "test")
    agreement = np.mean(oracle.predict(test_x - mean) == table["prediction"].to_numpy())
    assert agreement > 0.995
