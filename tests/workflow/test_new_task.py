"""A task with new targets that somebody adds runs from its images to the leaderboard and the page.

The share of each class in an image (soft labels) is neither a class, nor labels, nor a number. docs/architecture.md
lists what such a task touches: `ADDED` are its own files, and `EDITED` the lines in those of the package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr
from helpers.project import REPOSITORY, Project
from sklearn.metrics import mean_absolute_error
from sklearn.neighbors import KNeighborsRegressor

pytestmark = pytest.mark.slow

TARGETS = '''
class Fractions(Targets):
    """The share of each class in a sample: (N, K) that sum to 1."""

    stored = "float32"
    classes = True

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        return (labels > 0).sum(axis=0)


def by_targets['''
TASK = """    "fractions": Task(
        targets=Fractions(),
        reader="permafrost.statistics.predictions.fractions:PredictedFractions",
        figures="permafrost.report.tasks.fractions",
    ),
    "retrieval": Task(
"""
METRICS = """    "fractions": (
        Metric("overlap", "overlap of fractions", primary=True),
        _error("fraction_mae", "mean absolute error of fractions"),
    ),
    "detection": _OBJECTS,
"""
READER = '''
"""Predicted fractions, and their metrics: means over samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.statistics.predictions.columns import (
    Targets,
    array_of,
    groups_of,
    need_columns,
    sorted_rows,
)
from permafrost.statistics.replicates.weighted import weighted_by_counts


@dataclass(frozen=True)
class PredictedFractions(Targets):
    """(N, K) fractions of each class, true and predicted."""

    sample_ids: np.ndarray
    groups: np.ndarray | None
    target: np.ndarray
    prediction: np.ndarray
    classes: list[str]

    task = "fractions"

    @classmethod
    def from_table(cls, table, metadata: dict) -> PredictedFractions:
        need_columns(table, ("sample_id", "target", "prediction"))
        order, ids, groups = sorted_rows(table.column("sample_id").to_pylist(), groups_of(table))
        rows = [array_of(table, name)[order].astype(float) for name in ("target", "prediction")]
        return cls(ids, groups, *rows, classes=list(metadata["classes"]))

    def each(self) -> dict[str, np.ndarray]:
        return {
            "overlap": np.minimum(self.target, self.prediction).sum(axis=1),
            "fraction_mae": np.abs(self.target - self.prediction).mean(axis=1),
        }

    def evaluate(self) -> dict:
        return {name: float(values.mean()) for name, values in self.each().items()}

    def family(self, units: np.ndarray) -> Means:
        return Means(self.each(), units)


class Means:
    """Means over samples on resamples of the units."""

    def __init__(self, each: dict[str, np.ndarray], units: np.ndarray) -> None:
        self.names = tuple(each)
        rows = [np.ones(len(units)), *each.values()]
        self.sums = np.stack([np.bincount(units, row) for row in rows])

    def replicates(self, resamples, metrics=None) -> dict[str, np.ndarray]:
        sums = weighted_by_counts({"sums": self.sums}, resamples, float_bytes=1 << 20)["sums"]
        means = dict(zip(self.names, sums[1:] / sums[0], strict=True))
        return {name: means[name] for name in self.names if metrics is None or name in metrics}
'''
FIGURES = '''
"""Figures of a dataset of fractions: predicted against true ones."""

from __future__ import annotations

from permafrost.core.tables import read_table
from permafrost.report.figures import numbers
from permafrost.report.material.dataset import name_of, save
from permafrost.statistics.predictions.columns import array_of


def chance(material, best) -> None:
    """No level is known."""


def draw(material, best, folder):
    if best is None:
        return [], []
    path = material.predictions[best]
    wanted = ["target", "prediction"]
    table, _ = read_table(path, expect=material.expected(path), columns=wanted)
    figure = numbers.draw_numbers(
        *(array_of(table, name).ravel() for name in wanted),
        words="fraction",
        title=f"{material.name}: {name_of(best, material)}",
    )
    about = {"alt": "Fractions", "caption": "Every fraction of the best evaluation."}
    return [save(figure, folder, "fractions", material.name, **about)], []
'''
SOURCE = '''
"""Images whose pixels have three colours, one for each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from permafrost.data.records import Decoded, Record
from permafrost.data.sources import Kind
from permafrost.data.sources.common import declared_bands

COLOURS = np.array([[200, 30, 40], [20, 180, 60], [50, 60, 220]])


@dataclass(frozen=True, kw_only=True)
class MixtureOptions:
    count: int = 40


class Mixtures:
    task, ignore_index, classes = "fractions", None, ["roof", "tree", "water"]

    def __init__(self, entry, *, where) -> None:
        self.count, self.bands = entry.source.count, declared_bands(entry, where=where)

    def fractions(self, index: int) -> np.ndarray:
        return np.random.default_rng(index).dirichlet([1, 1, 1])

    def records(self) -> list[Record]:
        return [
            Record(sample_id=f"{index:03d}", split=split, label=tuple(self.fractions(index)))
            for place, split in enumerate(("train", "val", "test"))
            for index in range(place * self.count, (place + 1) * self.count)
        ]

    def decode(self, index: int) -> Decoded:
        rng = np.random.default_rng(1000 + index)
        pixels = COLOURS[rng.choice(3, (32, 32), p=self.fractions(index))]
        return Decoded((pixels + rng.integers(0, 30, pixels.shape)).transpose(2, 0, 1).astype(np.uint8))

    def locate(self, index: int):
        return None, None


MIXTURES = Kind(Mixtures, MixtureOptions, frozenset({"fractions"}), places=())
'''
LIBRARY = "workflow/permafrost"
ADDED = {
    f"{LIBRARY}/statistics/predictions/fractions.py": READER,
    f"{LIBRARY}/report/tasks/fractions.py": FIGURES,
    "mixtures.py": SOURCE,
}
# file -> what is replaced there, and by what
EDITED = {
    f"{LIBRARY}/core/targets.py": {"\ndef by_targets[": TARGETS},
    f"{LIBRARY}/core/tasks.py": {
        "    ClassMask,\n": "    ClassMask,\n    Fractions,\n",
        '    "retrieval": Task(\n': TASK,
    },
    f"{LIBRARY}/metrics/tasks.py": {'    "detection": _OBJECTS,\n': METRICS},
    f"{LIBRARY}/probes/kinds.py": {
        'frozenset({"classification", "multilabel", "regression"}),\n        "classify test embeddings by their': (
            'frozenset({"classification", "multilabel", "regression", "fractions"}),\n'
            '        "classify test embeddings by their'
        )
    },
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Project:
    """A project with a task of its own in its files, run with it."""
    project = Project(tmp_path_factory.mktemp("extended") / "project")
    for name, text in ADDED.items():
        project.path(name).write_text(text)
    for name, changes in EDITED.items():
        for old, new in changes.items():
            assert project.path(name).read_text().count(old) == 1, (name, old)
            project.edit(name, old, new)
    assert len(ADDED) + len(EDITED) <= 8
    project.path("docs").mkdir()
    shutil.copy2(REPOSITORY / "docs/generate.py", project.path("docs"))
    subprocess.run([sys.executable, "docs/generate.py"], cwd=project.folder, check=True)
    mixtures = {"task": "fractions", "source": {"kind": "mixtures"}}
    mixtures |= {"bands": ["red", "green", "blue"], "units": {"unit": "uint8"}}
    project.configure(
        extra_sources={"mixtures": "mixtures.py:MIXTURES"},
        extra_datasets={"mixtures": mixtures},
        datasets=["mixtures"],
        probes={"knn": {"kind": "knn"}},
    )
    project.snakemake()
    return project


def test_it_is_scored_as_scikit_learn_scores_it(extended):
    rows = {(row["backbone"], row["metric"]): row for row in extended.leaderboard()}
    assert {metric for _, metric in rows} == {"overlap", "fraction_mae"}
    for backbone in ("imagestats", "tiny-network"):
        truth, prediction = predicted(extended, backbone)
        error, overlap = rows[backbone, "fraction_mae"], rows[backbone, "overlap"]
        assert error["value"] == pytest.approx(mean_absolute_error(truth, prediction), rel=1e-5)
        expected = np.minimum(truth, prediction).sum(axis=1)
        assert overlap["value"] == pytest.approx(expected.mean(), rel=1e-5)
        assert overlap["lower"] < overlap["value"] < overlap["upper"]
        assert overlap["primary"] and error["higher_is_better"] is False
    # which image is of which colours, the statistics of its pixels say
    assert rows["imagestats", "overlap"]["value"] > 0.85


def predicted(project: Project, backbone: str) -> tuple[np.ndarray, np.ndarray]:
    """True fractions of the test split, and those of scikit-learn's nearest neighbours on the features of the run."""
    folder = project.path(f"results/features/mixtures/{backbone}")
    stores = [zarr.open_group(folder / f"{split}.zarr", mode="r") for split in ("train", "test")]
    (x, y), (x_test, y_test) = [(store["embeddings"][:], store["labels"][:]) for store in stores]
    return y_test, KNeighborsRegressor(5).fit(x, y).predict(x_test)


def test_the_page_shows_its_name_its_metric_and_its_figure(extended):
    text = extended.report_text()
    assert "fractions" in text and "overlap of fractions" in text.lower()
    assert "Every fraction of the best evaluation." in text
    assert list(extended.path("results/report/figures").rglob("fractions*"))


def test_its_code_reruns_its_jobs_alone(extended):
    extended.edit(f"{LIBRARY}/statistics/predictions/fractions.py", ".mean(axis=1)", ".max(axis=1)")
    assert extended.pending() == {"bootstrap": 2, "compare": 1, "aggregate": 1, "report": 1}
