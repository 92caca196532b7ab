"""The registry of tasks: targets, reader of predictions, and module of figures.

A new task is an entry here and its metrics in `metrics.tasks`; docs/architecture.md lists the rest.
Planning imports this module, so it names modules of other packages as text. A job's fingerprint
covers only the module that the job loads (`plan.sources`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from permafrost.core.errors import look_up
from permafrost.core.targets import (
    Boxes,
    ChangeMask,
    ClassMask,
    InstanceMasks,
    ManyLabels,
    Number,
    NumberRaster,
    OneClass,
    OrientedBoxes,
    Points,
    Relevance,
    Targets,
)


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes
    ----------
    targets : form of the targets, with all behaviour that depends on it.
    reader : ``module:class`` that reads its prediction tables; see
        `statistics.predictions.reading`.
    figures : module that draws its figures; see `report.tasks`. None for a task that only probes
        have (retrieval), not datasets.
    """

    targets: Targets
    reader: str
    figures: str | None

    def load_reader(self) -> type[Any]:
        """Import the class that reads its predictions, without those of other tasks."""
        module, _, name = self.reader.partition(":")
        return getattr(import_module(module), name)

    @property
    def of_datasets(self) -> bool:
        """Whether a dataset can have it."""
        return self.figures is not None


TASKS = {
    "classification": Task(
        targets=OneClass(),
        reader="permafrost.statistics.predictions.labelled:LabelledSamples",
        figures="permafrost.report.tasks.classification",
    ),
    "multilabel": Task(
        targets=ManyLabels(),
        reader="permafrost.statistics.predictions.labelled:LabelledSamples",
        figures="permafrost.report.tasks.classification",
    ),
    "segmentation": Task(
        targets=ClassMask(),
        reader="permafrost.statistics.predictions.confusions:Confusions",
        figures="permafrost.report.tasks.segmentation",
    ),
    "change": Task(
        targets=ChangeMask(),
        reader="permafrost.statistics.predictions.confusions:ChangeConfusions",
        figures="permafrost.report.tasks.segmentation",
    ),
    "regression": Task(
        targets=Number(),
        reader="permafrost.statistics.predictions.numbers:PredictedNumbers",
        figures="permafrost.report.tasks.regression",
    ),
    "pixel_regression": Task(
        targets=NumberRaster(),
        reader="permafrost.statistics.predictions.pixel_numbers:PredictedPixels",
        figures="permafrost.report.tasks.pixel_regression",
    ),
    "detection": Task(
        targets=Boxes(),
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "point_detection": Task(
        targets=Points(),
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "oriented_detection": Task(
        targets=OrientedBoxes(),
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "instance_segmentation": Task(
        targets=InstanceMasks(),
        reader="permafrost.statistics.predictions.objects:DetectedObjects",
        figures="permafrost.report.tasks.detection",
    ),
    "retrieval": Task(
        targets=Relevance(),
        reader="permafrost.statistics.predictions.queries:Queries",
        figures=None,
    ),
}


def task_of(name: str) -> Task:
    """The task of that name; raises `PermafrostError` if unknown."""
    return look_up(TASKS, name, "unknown task")


def targets_of(name: str) -> Targets:
    """The targets of the task of that name; raises `PermafrostError` if unknown."""
    return task_of(name).targets


def tasks_with(*kinds: type[Targets]) -> frozenset[str]:
    """Names of the tasks whose targets have one of these classes; subclasses do not count."""
    return frozenset(name for name, task in TASKS.items() if type(task.targets) in kinds)
