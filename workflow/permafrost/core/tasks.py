"""The tasks: what the truth of each is, who reads its predictions and who draws its figures.

A new task is an entry here and its metrics in `metrics.tasks`; docs/architecture.md lists what else it touches. Light:
the plan reads this before any job runs. Modules of later rooms stand here as text, for those who load them; nothing
here imports them, and a job's identity follows only the one that it loads (`plan.sources`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from permafrost.core.errors import look_up

Targets = Literal["label", "labels", "number", "mask", "raster", "boxes", "points", "relevance"]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes
    ----------
    targets : what is true of a sample: a class (``label``) or any number of them (``labels``), a number; of every
        pixel a class (``mask``) or a number (``raster``); objects (``boxes``, ``points``); which images of a
        gallery are like it (``relevance``).
    reader : ``module:class`` that reads tables of its predictions; see `statistics.predictions.reading`.
    figures : module that draws what is particular to it; see `report.tasks`. None for a task of probes, for
        which no dataset is made.
    of_pairs : whether a sample is two images of a place, before and after, and class 0 means that nothing changed.
    """

    targets: Targets
    reader: str
    figures: str | None
    of_pairs: bool = False

    def load_reader(self) -> type:
        """The class that reads its predictions; none pays for importing another task's metrics."""
        module, _, name = self.reader.partition(":")
        return getattr(import_module(module), name)

    @property
    def of_datasets(self) -> bool:
        """Whether a dataset can have it."""
        return self.figures is not None

    @property
    def dense(self) -> bool:
        """Whether its probes read maps of layers: something is true of single places."""
        return self.targets in ("mask", "raster", "boxes", "points")

    @property
    def masks(self) -> bool:
        return self.targets == "mask"

    @property
    def objects(self) -> bool:
        return self.targets in ("boxes", "points")

    @property
    def numbers(self) -> bool:
        return self.targets in ("number", "raster")

    @property
    def calibrated(self) -> bool:
        """Whether probes can give probabilities, whose calibration is judged."""
        return self.targets in ("label", "labels")


TASKS = {
    "classification": Task(
        targets="label",
        reader="permafrost.statistics.predictions.labelled:LabelledSamples",
        figures="permafrost.report.tasks.classification",
    ),
    "multilabel": Task(
        targets="labels",
        reader="permafrost.statistics.predictions.labelled:LabelledSamples",
        figures="permafrost.report.tasks.classification",
    ),
    "segmentation": Task(
        targets="mask",
        reader="permafrost.statistics.predictions.confusions:Confusions",
        figures="permafrost.report.tasks.segmentation",
    ),
    "change": Task(
        targets="mask",
        reader="permafrost.statistics.predictions.confusions:ChangeConfusions",
        figures="permafrost.report.tasks.segmentation",
        of_pairs=True,
    ),
    "regression": Task(
        targets="number",
        reader="permafrost.statistics.predictions.numbers:PredictedNumbers",
        figures="permafrost.report.tasks.regression",
    ),
    "pixel_regression": Task(
        targets="raster",
        reader="permafrost.statistics.predictions.pixel_numbers:PredictedPixels",
        figures="permafrost.report.tasks.pixel_regression",
    ),
    "detection": Task(
        targets="boxes",
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "point_detection": Task(
        targets="points",
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "retrieval": Task(
        targets="relevance",
        reader="permafrost.statistics.predictions.queries:Queries",
        figures=None,
    ),
}


def task_of(name: str) -> Task:
    """The task of that name; an unknown one is an error."""
    return look_up(TASKS, name, "unknown task")


def tasks_with(*targets: Targets, of_pairs: bool = False) -> frozenset[str]:
    """Names of the tasks of datasets whose targets are one of these: those of pairs of images, or the others."""
    return frozenset(
        name
        for name, task in TASKS.items()
        if task.targets in targets and task.of_pairs == of_pairs
    )
