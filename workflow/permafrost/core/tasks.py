"""The tasks: the targets of each, the class that reads its predictions and the module that draws its figures.

A new task is an entry here and its metrics in `metrics.tasks`; docs/architecture.md lists what else it touches.
Light: the plan reads this before any job runs. Modules of later rooms are named as text; this module imports none of
them, and the identity of a job follows only the one that it loads (`plan.sources`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from permafrost.core.errors import look_up
from permafrost.core.targets import (
    Boxes,
    ChangeMask,
    ClassMask,
    ManyLabels,
    Number,
    NumberRaster,
    OneClass,
    Points,
    Relevance,
    Targets,
)


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes
    ----------
    targets : what is true of a sample; behaviour that depends on it is asked of this object.
    reader : ``module:class`` that reads tables of its predictions; see `statistics.predictions.reading`.
    figures : module that draws what is particular to it; see `report.tasks`. None for a task of probes, for
        which no dataset is made.
    """

    targets: Targets
    reader: str
    figures: str | None

    def load_reader(self) -> type:
        """The class that reads its predictions; none pays for importing another task's metrics."""
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
    "retrieval": Task(
        targets=Relevance(),
        reader="permafrost.statistics.predictions.queries:Queries",
        figures=None,
    ),
}


def task_of(name: str) -> Task:
    """The task of that name; an unknown one is an error."""
    return look_up(TASKS, name, "unknown task")


def targets_of(name: str) -> Targets:
    """The targets of the task of that name; an unknown one is an error."""
    return task_of(name).targets


def tasks_with(*kinds: type[Targets]) -> frozenset[str]:
    """Names of the tasks whose targets are of one of these classes."""
    return frozenset(name for name, task in TASKS.items() if type(task.targets) in kinds)
