"""Relative losses on harder images, from rows of the leaderboard."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from permafrost.data.derived import UNCHANGED
from permafrost.statistics.leaderboard.rows import gates_of, mean_value
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.predictions.relative_loss import RELATIVE_LOSS


@dataclass(frozen=True)
class Loss:
    """The relative loss of a backbone and probe under one degradation, seeds merged.

    Attributes
    ----------
    of : dataset whose test images are made harder. dataset : that of the harder images.
    value, clean : scores on harder and on clean images. loss, lower, upper : relative loss with its interval; NaN if
        it is undefined, or if the backbone reads none of the changed bands. unchanged : the latter.
    """

    of: str
    dataset: str
    degradation: str
    severity: int
    probe: str
    backbone: str
    metric: str
    clean: float
    value: float
    loss: float
    lower: float
    upper: float
    unchanged: bool


def losses_of(rows: Iterable[dict]) -> list[Loss]:
    """All losses in rows of the leaderboard, by dataset, probe, degradation, severity, and backbone."""
    rows = list(rows)
    scores = {
        key: mean_value(own)
        for key, own in _by_run(row for row in rows if row["setting"] is None and row["primary"])
    }
    losses = [row for row in rows if row["setting"] == RELATIVE_LOSS]
    clean = dict(_by_run(losses))
    found = []
    for line in merge_seeds(losses):
        key = _run(line)
        about = json.loads(line["settings"])
        unchanged = UNCHANGED in gates_of(line)
        of_clean = [{"value": json.loads(row["settings"])["clean"]} for row in clean[key]]
        loss, lower, upper = (
            math.nan if unchanged else line[name] for name in ("value", "lower", "upper")
        )
        found.append(
            Loss(
                of=about["of"],
                **{name: line[name] for name in ("dataset", "probe", "backbone", "metric")},
                **{name: about[name] for name in ("degradation", "severity")},
                clean=mean_value(of_clean),
                value=scores[key],
                loss=loss,
                lower=lower,
                upper=upper,
                unchanged=unchanged,
            )
        )
    order = ("of", "probe", "degradation", "severity", "backbone")
    return sorted(found, key=lambda one: tuple(getattr(one, name) for name in order))


def _run(row: dict) -> tuple[str, str, str]:
    return row["dataset"], row["probe"], row["backbone"]


def _by_run(rows: Iterable[dict]) -> Iterable[tuple[tuple[str, str, str], list[dict]]]:
    found: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        if row["class"] is None:
            found.setdefault(_run(row), []).append(row)
    return found.items()
