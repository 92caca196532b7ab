"""Estimate, before a run, which differences between backbones it can detect."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from permafrost.core.tasks import targets_of
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.operate.estimate.work import Context
from permafrost.statistics.resampling.detectable import planned

#: assumed standard deviation, over sampling units, of the difference between two backbones, for
#: metrics in [0, 1]: on a quarter of the images, only one of the two is correct; means over groups
#: vary less
DEVIATIONS = {"image": 0.5, "group": 0.2}
# share of that variance assumed to come from training, which decreases with the number of seeds
_OF_TRAINING = 0.5


@dataclass(frozen=True)
class Found:
    """The detectable difference on a dataset.

    Attributes
    ----------
    units : number of sampling units of the test set; unit : ``group`` or ``image``.
    difference : approximately the smallest difference detected with a power of 80 % among all
        pairs; None: larger than the range from chance to the best score.
    """

    units: int
    unit: str
    difference: float | None


def findable(context: Context) -> dict[str, Found]:
    """Dataset -> detectable difference, without datasets of unknown size or unbounded metrics."""
    grid = context.grid
    about = {name: grid.config["comparison"][name] for name in ("resamples", "confidence")}
    found = {}
    for name, size in context.datasets.items():
        task, probes = grid.datasets[name]["task"], grid.probes_of(name)
        known = metric_of(primary_metric(task))
        backbones = max((len(grid.roots_on(name, probe)) for probe in probes), default=0)
        if backbones < 2:
            continue
        if size.known == "assumed" or not probes or known.bounds != "unit" or known.of_curves:
            continue
        unit = "image" if size.test_groups is None else "group"
        units = size.images["test"] if size.test_groups is None else size.test_groups
        seeds = min(len(grid.seeds_of(probe)) for probe in probes)
        deviation = DEVIATIONS[unit] * math.sqrt(1 - _OF_TRAINING * (1 - 1 / seeds))
        difference = planned(units, backbones, **about, deviation=deviation)
        room = 1 - 1 / size.classes if targets_of(task).one_class else 1.0
        found[name] = Found(units, unit, difference if difference < room else None)
    return found


def findable_lines(context: Context) -> Iterator[str]:
    """Lines for a terminal: detectable differences, and datasets without any."""
    found = findable(context)
    said = [
        f"{one.difference:.2g} in {name} ({one.units} {one.unit}s)"
        for name, one in found.items()
        if one.difference is not None
    ]
    nothing = [
        f"{name} ({one.units} {one.unit}{'s' * (one.units != 1)})"
        for name, one in found.items()
        if one.difference is None
    ]
    count = len(context.grid.backbones)
    if said:
        yield (
            f"Can find:  differences between two of {count} backbones of about {', '.join(said)}, with a chance of 80 %"
        )
    if nothing:
        yield (
            f"Cannot:    find any difference between {count} backbones in {', '.join(nothing)}: give it more "
            "test units, or compare fewer backbones (significance_out_of_reach)"
        )
