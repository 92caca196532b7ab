"""A kind of probe that somebody adds (a module, an entry, its options) runs to the leaderboard and the page.

docs/probes.md and docs/which-evaluation-when.md, the other two files that docs/architecture.md names, run nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import zarr
from helpers.project import REPOSITORY, Project
from sklearn.neighbors import NearestCentroid

pytestmark = pytest.mark.slow

MODULE = '''
"""The class whose mean is nearest: a probe without anything to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from permafrost.core.options import Options
from permafrost.probes.embeddings.features import Features, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction


@dataclass(frozen=True, kw_only=True)
class CentroidOptions(Options):
    metric: Literal["l2", "largest"] = "l2"


def run_centroid(
    splits: dict[str, Features], options: CentroidOptions, *, device: str, seed: int
) -> Prediction:
    train, test = splits["train"], splits["test"]
    classes = range(len(train.classes))
    means = np.stack([train.embeddings[train.labels == c].mean(axis=0) for c in classes])
    order = np.inf if options.metric == "largest" else 2
    distances = np.linalg.norm(test.embeddings[:, None] - means, ord=order, axis=2)
    scores = np.exp(distances.min(axis=1, keepdims=True) - distances)
    scores /= scores.sum(axis=1, keepdims=True)
    return Prediction(distances.argmin(axis=1), scores.astype(np.float32), {"seed_given": seed})


run = on_embeddings(run_centroid)
'''
ENTRY = """
    "centroid": ProbeKind(
        "permafrost.probes.centroid:run",
        "permafrost.probes.centroid:CentroidOptions",
        frozenset({"classification"}),
        "classify test embeddings by the nearest mean of a class",
        "asks which class has the nearest mean.",
        reads="embeddings",
        memory_mb=1000,
        minutes=10,
        work="neighbours",
        probabilities=True,
    ),
}
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Project:
    """A project with a kind of its own in its files, run with it."""
    project = Project(tmp_path_factory.mktemp("extended") / "project")
    project.path("workflow/permafrost/probes/centroid.py").write_text(MODULE)
    kinds = project.path("workflow/permafrost/probes/kinds.py")
    head, brace, rest = kinds.read_text().rpartition("\n}\n")
    assert brace and "KINDS" in rest
    kinds.write_text(head + ENTRY + rest)
    project.path("docs").mkdir()
    shutil.copy2(REPOSITORY / "docs/generate.py", project.path("docs"))
    subprocess.run([sys.executable, "docs/generate.py"], cwd=project.folder, check=True)
    probes = {"knn": {"kind": "knn"}, "mean": {"kind": "centroid"}}
    project.configure(probes=probes, backbones=["imagestats"])
    project.snakemake()
    return project


def test_it_is_scored_ranked_and_explained(extended):
    rows = {row["probe"]: row for row in extended.leaderboard() if row["metric"] == "accuracy"}
    assert rows["mean"]["kind"] == "centroid"
    assert rows["mean"]["value"] == pytest.approx(accuracy_of_sklearn(extended))
    # probabilities are judged for their calibration, as the entry says
    metrics = {row["metric"] for row in extended.leaderboard() if row["probe"] == "mean"}
    assert any("calibration" in metric for metric in metrics)
    text = extended.report_text()
    assert "Asks which class has the nearest mean." in text


def accuracy_of_sklearn(project: Project) -> float:
    """Accuracy of scikit-learn's classifier on the features of the run."""
    folder = project.path("results/features/tiny-landcover/imagestats")
    stores = [zarr.open_group(folder / f"{split}.zarr", mode="r") for split in ("train", "test")]
    (x, y), (x_test, y_test) = [(store["embeddings"][:], store["labels"][:]) for store in stores]
    return NearestCentroid().fit(x, y).score(x_test, y_test)


def test_an_option_of_it_reruns_it_alone(extended):
    probes = {"knn": {"kind": "knn"}, "mean": {"kind": "centroid", "metric": "largest"}}
    extended.configure(probes=probes)
    assert extended.pending() == {
        "probe_embeddings": 1,
        "bootstrap": 1,
        "aggregate": 1,
        "report": 1,
    }
    wrong = {"mean": {"kind": "centroid", "metric": "l3"}}
    extended.configure(probes=wrong)
    done = extended.snakemake("-n", check=False)
    assert done.returncode and "l3" in done.stdout + done.stderr
