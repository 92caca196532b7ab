"""Predictions of a test set under the settings of one probe, some of them drawn repeatedly.

A setting drawn repeatedly has one value per metric, the mean over its draws, and an interval of
this mean. The interval includes the sampling error of the test set, which all draws share, and that
of the draws (`resampling.runs`). The spread of draws on the whole test set is reported separately,
like the spread over seeds (`across_datasets.ranks.add_seed_spread`).

A gain is the difference of every metric between two settings, on the whole test set and on the same
resamples of its units, so that the sampling error of the test set cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.targets import by_targets
from permafrost.core.tasks import targets_of, task_of
from permafrost.metrics.tasks import added_metrics, overall_metrics
from permafrost.statistics.predictions.columns import (
    Targets,
    array_of,
    groups_of,
    need_columns,
    sorted_rows,
)
from permafrost.statistics.predictions.formulas import evaluated, family_of, with_formulas
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.replicates.families import FAMILIES, Family
from permafrost.statistics.resampling.resamples import Resamples

if TYPE_CHECKING:
    from permafrost.statistics.predictions.reading import Predictions


@dataclass(frozen=True)
class WholeSetting:
    """Predictions of one setting: attributes of `predictions`, and its description `about`."""

    predictions: Predictions
    about: ScoredSetting

    def __len__(self) -> int:
        return len(self.predictions)

    def __getattr__(self, name: str):
        return getattr(self.predictions, name)


@dataclass(frozen=True)
class Gain:
    """Metrics of `first` minus those of `second`, on one test set; attributes of `first`."""

    first: Predictions
    second: Predictions
    about: ScoredSetting

    # values are differences, which the metrics' ranges do not bound
    @property
    def largest_difference(self) -> float:
        """That of metrics in [0, 1]."""
        return 1.0

    def __len__(self) -> int:
        return len(self.first)

    def __getattr__(self, name: str):
        return getattr(self.first, name)

    def evaluate(self) -> dict:
        """The difference of every metric, per class for metrics per class."""
        one, other = evaluated(self.first), evaluated(self.second)
        return {name: value - other[name] for name, value in one.items() if name in other}

    def family(self, units: np.ndarray) -> _Differences:
        return _Differences(family_of(self.first, units), family_of(self.second, units))


class _Differences:
    """Differences of two families on the same resamples."""

    has_formulas = True

    def __init__(self, first: Family, second: Family) -> None:
        self.first, self.second = first, second
        self.holders = getattr(first, "holders", lambda _: None)

    def replicates(self, resamples, metrics=None) -> dict[str, np.ndarray]:
        one, other = (each.replicates(resamples, metrics) for each in (self.first, self.second))
        return {name: value - other[name] for name, value in one.items() if name in other}


def whole_settings(table, metadata: dict, about: list) -> list[WholeSetting]:
    """The settings of a table of a task whose reader has ``settings_from_table``.

    Parameters
    ----------
    about : descriptions of the settings, in the order of the table's columns.

    Raises
    ------
    PermafrostError : the table lacks the settings' column, or the column has an unexpected width.
    """
    reader = task_of(metadata["task"]).load_reader()
    predictions = reader.settings_from_table(table, metadata, len(about))
    return [WholeSetting(one, what) for one, what in zip(predictions, about, strict=True)]


def gain_of(settings: list, metadata: dict) -> Gain | None:
    """The gain between the settings that the table's metadata name; None if they name none."""
    if not metadata.get("paired"):
        return None
    named = {one.about.name: one for one in settings}
    first, second = (named[name] for name in metadata["paired"])
    name = f"{first.about.name} minus {second.about.name}"
    about = type(first.about)(name, {}, first.about.n_train, first.about.n_val, [])
    return Gain(first, second, about)


@dataclass(frozen=True)
class ScoredSetting:
    """Description of a setting, over all its draws.

    Attributes
    ----------
    name : in words.
    settings : those of the first draw, without options that every draw chooses again.
    n_train, n_val : number of samples per draw (the mean over draws, rounded).
    gates : warnings of any draw.
    """

    name: str
    settings: dict
    n_train: int
    n_val: int
    gates: list[str]


@dataclass(frozen=True)
class Draws(Targets):
    """The draws of one setting; see `predictions.Predictions`.

    Attributes
    ----------
    target : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    drawn : (D, N) class ids, or (D, N, L) scores for ``multilabel``.
    about : description of the setting.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    target: np.ndarray
    drawn: np.ndarray
    task: str
    classes: list[str]
    about: ScoredSetting

    def each(self) -> list[Draws]:
        """Every draw separately."""
        return [
            replace(self, drawn=self.drawn[place : place + 1]) for place in range(len(self.drawn))
        ]

    @property
    def answers(self) -> np.ndarray:
        """Predictions of the first draw, which represents all if predictions are shown."""
        return targets_of(self.task).answers_of(self.drawn[0])

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics over all classes that need no scores of single labels."""
        known = overall_metrics(self.task, len(self.classes))
        own = (one.name for one in added_metrics(self.task) if not one.per_class)
        return *(name for name in known if name != "top5_accuracy"), *own

    def values(self) -> dict[str, np.ndarray]:
        """(D,) value of every metric in every draw, on the whole test set."""
        return self._values(self.metrics)

    def class_values(self) -> dict[str, np.ndarray]:
        """(L,) mean over draws of the values that ``macro_ap`` averages, for its interval."""
        return {name: each.mean(axis=0) for name, each in self._values(self._of_labels).items()}

    @property
    def _of_labels(self) -> tuple[str, ...]:
        return ("average_precision",) if targets_of(self.task).several else ()

    def _values(self, names) -> dict[str, np.ndarray]:
        """(D, …) values of every draw, on the whole test set."""
        once = Resamples.of(np.ones((len(self), 1), np.uint8))
        each = [one.replicates(once, names) for one in self._families(np.arange(len(self)))]
        return {name: np.stack([one[name][..., 0] for one in each]) for name in names}

    def evaluate(self) -> dict:
        """Every metric on the whole test set: the mean over draws."""
        return {name: float(values.mean()) for name, values in self.values().items()}

    def spread(self) -> dict[str, float | None]:
        """Standard deviation over draws (denominator n - 1); None for one draw."""
        return {
            name: float(values.std(ddof=1)) if len(values) > 1 else None
            for name, values in self.values().items()
        }

    def family(self, units: np.ndarray) -> _MeanOverDraws:
        """Every metric on resamples of the units."""
        names = (*self.metrics, *self._of_labels)
        return _MeanOverDraws(self._families(units), names, self.values())

    def _families(self, units: np.ndarray) -> list:
        targets, families = targets_of(self.task), []
        family = by_targets(FAMILIES, targets)
        for one in self.drawn:
            answers, scores = targets.answers_of(one), one if targets.several else None
            drawn = family(self.target, answers, one, len(self.classes), units)
            rows = self.sample_ids, self.groups, self.target, answers, scores
            predictions = LabelledSamples(*rows, task=self.task, classes=self.classes)
            families.append(with_formulas(drawn, predictions, units))
        return families


class _MeanOverDraws:
    """Metrics averaged over all draws on the same resamples; `draws` has the (D,) values."""

    has_formulas = True

    def __init__(self, families: list, names: tuple[str, ...], draws: dict) -> None:
        self.families, self.names, self.draws = families, names, draws
        self.holders = families[0].holders

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (L, B) per label; NaN on a resample if any draw is undefined."""
        wanted = [name for name in self.names if metrics is None or name in metrics]
        each = [family.replicates(resamples, wanted) for family in self.families]
        return {name: np.mean([one[name] for one in each], axis=0) for name in wanted}


def settings_from_table(table, metadata: dict) -> list[Draws] | list[WholeSetting]:
    """All settings of a prediction table, in the order of its metadata; none if it has a single one.

    Raises
    ------
    PermafrostError : the table lacks the settings' column, or its width differs from the metadata.
    """
    listed = metadata.get("scored_settings")
    if not listed:
        return []
    if hasattr(task_of(metadata["task"]).load_reader(), "settings_from_table"):
        return whole_settings(table, metadata, [_about([one]) for one in listed])
    targets = targets_of(metadata["task"])
    labels, column = len(metadata["classes"]) if targets.several else 1, targets.setting_column[0]
    need_columns(table, ("sample_id", "target", column))
    order, ids, groups = sorted_rows(table.column("sample_id").to_pylist(), groups_of(table))
    target = array_of(table, "target")[order]
    answers = array_of(table, column, len(listed) * labels)[order]
    answers = answers.reshape(len(order), len(listed), -1)
    places: dict[str, list[int]] = {}
    for place, one in enumerate(listed):
        places.setdefault(one["name"], []).append(place)
    return [
        Draws(
            ids,
            groups,
            target,
            np.stack([answers[:, place] for place in own]).reshape(len(own), *target.shape),
            task=metadata["task"],
            classes=list(metadata["classes"]),
            about=_about([listed[place] for place in own]),
        )
        for own in places.values()
    ]


def headline_of(table, metadata: dict) -> Draws | WholeSetting | None:
    """The ranked setting, with all of its draws; None if a single prediction is ranked."""
    if metadata.get("headline") is None:
        return None
    for one in settings_from_table(table, metadata):
        if one.about.name == metadata["headline"]:
            return one
    raise PermafrostError(
        f"the prediction table has no setting {metadata['headline']!r}, which is ranked",
        remedy="run its evaluation again",
    )


def _about(draws: list[dict]) -> ScoredSetting:
    first = draws[0]
    same = {
        name: value
        for name, value in first["settings"].items()
        if all(one["settings"].get(name) == value for one in draws)
    }
    # mypy takes a generator for any number of arguments
    return ScoredSetting(
        first["name"],
        same,
        *(round(float(np.mean([one[name] for one in draws]))) for name in ("n_train", "n_val")),  # type: ignore[call-arg,arg-type]
        sorted({gate for one in draws for gate in one["gates"]}),
    )
