"""Kinds from outside: a probe, a source, metrics and a family of backbones run to the leaderboard and the page."""

from __future__ import annotations

import pytest
from helpers.project import TINY, Project

pytestmark = pytest.mark.slow

OWN = '''
"""A probe of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from permafrost.core.targets import OneClass
from permafrost.core.tasks import tasks_with
from permafrost.probes.embeddings.features import Features, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.kinds import ProbeKind

import helper_of_mine


@dataclass(frozen=True, kw_only=True)
class CentroidOptions:
    metric: Literal["l2", "largest"] = "l2"


def run_centroid(splits: dict[str, Features], options: CentroidOptions, *, device, seed) -> Prediction:
    train, test = splits["train"], splits["test"]
    classes = range(len(train.classes))
    means = np.stack([train.embeddings[train.labels == c].mean(axis=0) for c in classes])
    order = helper_of_mine.ORDERS[options.metric]
    distances = np.linalg.norm(test.embeddings[:, None] - means, ord=order, axis=2)
    scores = train.targets.probabilities(-distances)
    return Prediction(train.targets.answers(scores), scores, {})


CENTROID = ProbeKind(
    on_embeddings(run_centroid),
    CentroidOptions,
    tasks_with(OneClass),
    "classify test embeddings by the nearest mean of a class",
    "asks which class has the nearest mean.",
    reads="embeddings",
    memory_mb=1000,
    minutes=10,
    work="neighbours",
    probabilities=True,
)
'''
OTHERS = '''
"""A source and a metric of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from permafrost.core.targets import OneClass
from permafrost.core.tasks import tasks_with
from permafrost.data.records import Decoded, Record
from permafrost.data.sources import Kind
from permafrost.data.sources.common import declared_bands
from permafrost.metrics.tasks import Metric


def rate(predictions, weights):
    return np.average(predictions.target != predictions.prediction, weights=weights)


ERRORS = Metric(
    "error_rate", "rate of errors", better="lower", bounds="positive", formula=rate, tasks=("classification",)
)


def largest(predictions, weights):
    return np.abs(predictions.target - predictions.prediction)[weights > 0].max()


LARGEST = Metric(
    "largest_error", "largest error", better="lower", bounds="positive", formula=largest, tasks=("regression",)
)


@dataclass(frozen=True, kw_only=True)
class StripesOptions:
    size: int = 32
    count: int = 20


class Stripes:
    """Images whose class is the direction of their stripes."""

    task, ignore_index, classes = "classification", None, ["across", "along"]

    def __init__(self, entry, *, where) -> None:
        self.options, self.bands = entry.source, declared_bands(entry, where=where)

    def records(self) -> list[Record]:
        return [
            Record(sample_id=f"{split}/{number}", split=split, label=number % 2)
            for split in ("train", "val", "test")
            for number in range(self.options.count)
        ]

    def decode(self, index: int) -> Decoded:
        rng, size = np.random.default_rng(index), self.options.size
        image = rng.integers(0, 200, (3, size, size)).astype(np.uint8)
        rows = (slice(None), slice(0, None, 4)) if index % 2 else (slice(None), slice(None), slice(0, None, 4))
        image[rows] = 255
        return Decoded(image)

    def locate(self, index: int):
        return None, None


STRIPES = Kind(Stripes, StripesOptions, tasks_with(OneClass), places=())
'''
# a search for imports in the text finds the first, and neither the second nor what that reads
HELPERS = {
    "helper_of_mine.py": """
import importlib

ORDERS = importlib.import_module("_".join(["orders", "of", "mine"])).ORDERS
""",
    "orders_of_mine.py": """
import json
from pathlib import Path

ORDERS = {key: float(text) for key, text in json.loads(Path("orders.json").read_text()).items()}
""",
    "orders.json": '{"l2": "2", "largest": "inf"}',
}
CHANGES = {
    "helper_of_mine.py": (".ORDERS", ".ORDERS.copy()"),
    "orders_of_mine.py": ("float(text)", "abs(float(text))"),
    "orders.json": ('"2"', '"1"'),
}
FAMILY = '''
"""A family of backbones: means of the cells of a grid."""

from dataclasses import dataclass

import torch
from permafrost.backbones.backbone import Backbone
from permafrost.backbones.kinds import Kind


@dataclass(frozen=True, kw_only=True)
class PatchmeanOptions:
    cells: int = 2


def wants(options, where):
    return {"normalization": "dataset"}


def build(options, plan, resources):
    module = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(options.cells), torch.nn.Flatten())
    return Backbone(module, plan, resources.where)


KIND = Kind("patchmean", "PatchmeanOptions")
'''


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Project:
    """A project with plug-ins in its files and in a package, run with all of them."""
    project = Project(tmp_path_factory.mktemp("plugins") / "project")
    project.path("mine.py").write_text(OWN)
    for name, text in HELPERS.items():
        project.path(name).write_text(text)
    project.path("others.py").write_text(OTHERS)
    # on the path of Python, as an installed package is
    about = project.path("workflow/patchmean-1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: patchmean\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[permafrost.backbones]\npatchmean = patchmean:KIND\n")
    project.path("workflow/patchmean.py").write_text(FAMILY)
    stripes = {"task": "classification", "source": {"kind": "stripes"}}
    stripes |= {"bands": ["red", "green", "blue"], "units": {"unit": "uint8"}}
    crops = TINY["extra_datasets"]["tiny-landcover"]
    chips = {"chips": {"train": 24, "val": 9, "test": 12}}
    series = {**crops, "dates": "series", "source": {**crops["source"], **chips}}
    shares = {**crops, "task": "regression", "source": {**crops["source"], **chips}}
    project.configure(
        extra_probes={"centroid": "mine.py:CENTROID"},
        extra_sources={"stripes": "others.py:STRIPES"},
        extra_metrics={
            "error_rate": "others.py:ERRORS",
            "largest_error": "others.py:LARGEST",
        },
        extra_backbones={"means": {"kind": "patchmean", "input": {"bands": "rgb", "size": 32}}},
        extra_datasets={"stripes": stripes, "tiny-series": series, "tiny-shares": shares},
        backbones=["imagestats", "means"],
        datasets=["stripes", "tiny-series", "tiny-shares"],
        probes={"knn": {"kind": "knn"}, "mean": {"kind": "centroid"}},
    )
    project.snakemake()
    return project


def test_all_of_them_are_scored_and_shown(extended):
    rows = extended.leaderboard()
    cells = {(one["dataset"], one["backbone"], one["probe"]) for one in rows}
    assert len(cells) == 10 and ("tiny-series", "means", "mean") in cells
    values = {
        (*(one[key] for key in ("dataset", "backbone", "probe")), one["metric"]): one
        for one in rows
    }
    for cell in cells:
        if cell[0] == "tiny-shares":
            assert (*cell, "error_rate") not in values
            assert values[*cell, "largest_error"]["value"] > values[*cell, "rmse"]["value"]
            continue
        accuracy, errors = values[*cell, "accuracy"], values[*cell, "error_rate"]
        assert errors["value"] == pytest.approx(1 - accuracy["value"])
        assert errors["lower"] <= errors["value"] <= errors["upper"]
        assert errors["higher_is_better"] is False
    assert "Asks which class has the nearest mean." in extended.report_text()


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_of_a_plug_in_reruns_its_jobs_alone(extended, name):
    assert extended.pending() == {}
    extended.path(name).write_text(HELPERS[name].replace(*CHANGES[name]))
    waiting = extended.pending()
    assert waiting["probe_embeddings"] == 4 and "extract" not in waiting
    extended.path(name).write_text(HELPERS[name])


def test_a_changed_metric_reruns_the_scores_of_its_tasks_alone(extended):
    kept = extended.config["extra_metrics"]
    extended.configure(extra_metrics={"error_rate": kept["error_rate"]})
    assert extended.pending() == {"bootstrap": 2, "aggregate": 1, "report": 1}
    extended.configure(extra_metrics=kept)
    assert extended.pending() == {}


def test_nothing_is_left_to_run_with_the_changed_files_of_a_plug_in(extended):
    for name, change in CHANGES.items():
        extended.path(name).write_text(HELPERS[name].replace(*change))
    extended.snakemake()
    assert extended.pending() == {}


def test_options_and_places_are_checked(extended):
    for changes, message in (
        ({"probes": {"mean": {"kind": "centroid", "metric": "l3"}}}, "l3"),
        ({"extra_probes": {"centroid": "mine.py:CENTROIT"}}, "did you mean 'CENTROID'"),
        ({"extra_probes": {"knn": "mine.py:CENTROID"}}, "the name is taken"),
        ({"extra_metrics": {"error_rate": "absent.py:ERRORS"}}, "absent.py does not exist"),
    ):
        project = extended.config.copy()
        extended.configure(**changes)
        done = extended.snakemake("-n", check=False)
        assert done.returncode and message in done.stdout + done.stderr
        extended.config = project
