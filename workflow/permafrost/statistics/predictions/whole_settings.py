"""Settings of a probe that were not drawn: predictions of any task, and what one setting gains over another.

A gain is the difference of every metric between two settings, on the whole test set and on the same resamples
of its units, so that what both owe to the choice of test images cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.tasks import task_of

if TYPE_CHECKING:
    from permafrost.statistics.predictions.reading import Predictions


@dataclass(frozen=True)
class WholeSetting:
    """The predictions of one setting: `found`, whose attributes it has, and `about`, what the setting is."""

    found: Predictions
    about: object

    def __len__(self) -> int:
        return len(self.found)

    def __getattr__(self, name: str):
        return getattr(self.found, name)


@dataclass(frozen=True)
class Gain:
    """Metrics of `first` less those of `second`; both are of the same test set. Has the attributes of `first`."""

    first: Predictions
    second: Predictions
    about: object

    # what it evaluates are differences, whatever range the metrics have
    is_difference = True

    def __len__(self) -> int:
        return len(self.first)

    def __getattr__(self, name: str):
        return getattr(self.first, name)

    def evaluate(self) -> dict:
        """The difference of every metric, per class where a metric is."""
        one, other = self.first.evaluate(), self.second.evaluate()
        return {name: value - other[name] for name, value in one.items() if name in other}

    def family(self, units: np.ndarray) -> _Differences:
        return _Differences(self.first.family(units), self.second.family(units))


class _Differences:
    """Differences of two families on the same resamples."""

    def __init__(self, first, second) -> None:
        self.first, self.second = first, second

    def replicates(self, resamples, metrics=None) -> dict[str, np.ndarray]:
        one, other = (each.replicates(resamples, metrics) for each in (self.first, self.second))
        return {name: value - other[name] for name, value in one.items() if name in other}


def whole_settings(table, metadata: dict, about: list) -> list[WholeSetting]:
    """The settings of a table of a task whose reader has ``settings_from_table``.

    Parameters
    ----------
    about : what each of them is, in the order of the table's columns.

    Raises
    ------
    PermafrostError : the table lacks the column of the settings, or it has another width than it should.
    """
    reader = task_of(metadata["task"]).load_reader()
    found = reader.settings_from_table(table, metadata, len(about))
    return [WholeSetting(one, what) for one, what in zip(found, about, strict=True)]


def gain_of(settings: list, metadata: dict) -> Gain | None:
    """What the table says is to be scored against what; None where it says nothing."""
    if not metadata.get("paired"):
        return None
    named = {one.about.name: one for one in settings}
    first, second = (named[name] for name in metadata["paired"])
    name = f"{first.about.name} minus {second.about.name}"
    about = type(first.about)(name, {}, first.about.n_train, first.about.n_val, [])
    return Gain(first, second, about)
