"""The scores of a leaderboard that somebody gives, ranked like a run's own results.

Intervals are taken as 95 % ones, and errors of two backbones as independent. On the same test images they usually are
not: then differences are found less often than they could be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.statistics.across_datasets.fields import Field
from permafrost.statistics.across_datasets.missing import MISSING
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import standings_of
from permafrost.statistics.options import RankingSettings
from permafrost.statistics.resampling.student_t import normal_quantile

#: the group of all datasets
ALL = "all"
# an interval of each backbone is two blocks of a test set; beyond, blocks of all backbones take gigabytes
_MOST_WITH_INTERVALS = 300


@dataclass(frozen=True)
class Score:
    """A score of a backbone on a dataset under a probe."""

    backbone: str
    dataset: str
    probe: str
    value: float
    metric: str = ""
    seed: int = 0
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Given:
    """The scores of a table.

    Attributes
    ----------
    lower : datasets on which a lower value is better.
    said : what was made of the table, in sentences without a capital and a full stop.
    """

    scores: list[Score]
    lower: frozenset[str] = frozenset()
    said: list[str] = field(default_factory=list)

    @property
    def datasets(self) -> list[str]:
        return list(dict.fromkeys(one.dataset for one in self.scores))

    @property
    def probes(self) -> list[str]:
        return list(dict.fromkeys(one.probe for one in self.scores))

    def of_probe(self, probe: str | None) -> Given:
        """The scores of a probe; of all, if it is None."""
        if probe is None:
            return self
        remedy = f"name one of {', '.join(self.probes)}"
        look_up(self.probes, probe, "the table has no probe", remedy=remedy)
        return replace(self, scores=[one for one in self.scores if one.probe == probe])

    def complete(self) -> Given:
        """The scores of the backbones that have one on every dataset, under a probe."""
        asked: dict[str, set[str]] = {}
        found: dict[tuple[str, str], set[str]] = {}
        for one in self.scores:
            asked.setdefault(one.probe, set()).add(one.dataset)
            found.setdefault((one.probe, one.backbone), set()).add(one.dataset)
        scores = [one for one in self.scores if found[one.probe, one.backbone] == asked[one.probe]]
        left = len(found) - len({(one.probe, one.backbone) for one in scores})
        if not left:
            return self
        words = f"left out, without a score on every dataset: {left} of {len(found)} backbones"
        return replace(self, scores=scores, said=[*self.said, words])

    def rank(
        self,
        *,
        missing: str = RankingSettings.missing,
        baseline: str | None = None,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> tuple[pa.Table, list[dict], list[str]]:
        """Standings over all datasets, the results of `tested.tested`, and further sentences.

        Parameters
        ----------
        missing, baseline : as in `Ranking`. confidence : of intervals and sets of ranks. seed : of the draws.

        Raises
        ------
        PermafrostError : fewer than two backbones or no probe with a score of two; an unknown baseline or `missing`.
        """
        look_up(
            MISSING,
            missing,
            "there is no rule for missing scores",
            remedy=f"name one of {', '.join(MISSING)}",
        )
        if missing == "baseline" and baseline is None:
            raise PermafrostError(
                "missing scores are to be filled in from a baseline, and none is named",
                remedy="name a backbone as baseline",
            )
        if baseline is not None:
            look_up({one.backbone for one in self.scores}, baseline, "the table has no backbone")
        fields, said = self._fields()
        known = all(one.strays for of_probe in fields.values() for one in of_probe.values())
        ranking = Ranking(
            groups={ALL: self.datasets},
            uncertainty="both" if known else "datasets",
            missing=missing,
            baseline=baseline,
            confidence=confidence,
            seed=seed,
        )
        tests: list[dict] = []
        table = standings_of(fields, ranking, tests)
        if not len(table):
            raise PermafrostError(
                "there are fewer than two backbones to rank", remedy="give scores of two or more"
            )
        if not any(table["n_datasets"].to_pylist()):
            few = len({one.backbone for one in self.complete().scores})
            raise PermafrostError(
                f"{few or 'no'} backbones have scores on all datasets, and no dataset has scores of all backbones",
                remedy="rank those that are complete (--complete), fill scores in (--missing worst), or choose rows"
                " (--where) and datasets (--without)",
            )
        if not all(0 <= one.value <= 1 for one in self.scores):
            # the best possible score is not known
            keep = [name != "improvability" for name in table["statistic"].to_pylist()]
            table = table.filter(pa.array(keep))
        return table, tests, said

    def _fields(self) -> tuple[dict[str, dict[str, Field]], list[str]]:
        """Probe -> dataset -> its scores, with independent errors if all have intervals."""
        fields: dict[str, dict[str, Field]] = {}
        shares = all(0 <= one.value <= 1 for one in self.scores)
        without = sum(one.lower is None or one.upper is None for one in self.scores)
        names = sorted({one.backbone for one in self.scores})
        many = len(names) > _MOST_WITH_INTERVALS
        for one in self.scores:
            higher = one.dataset not in self.lower
            # a metric by its range: a share, without an upper bound, or without a lower one
            metric = (one.metric or "score") if shares and higher else "r2" if higher else "rmse"
            of_probe = fields.setdefault(one.probe, {})
            found = of_probe.setdefault(one.dataset, Field(metric, higher, None, {}, {}))
            found.values.setdefault(one.backbone, {})[one.seed] = one.value
            if not without and not many:
                error = (one.upper - one.lower) / 2 / normal_quantile(0.95)  # type: ignore[operator]
                parts = _blocks(names.index(one.backbone), len(names), error)
                found.strays.setdefault(one.backbone, []).append(parts)
        said = []
        if without < len(self.scores) and without:
            said.append(
                f"intervals are not used, since {without} of {len(self.scores)} scores have none"
            )
        elif not without and many:
            said.append(
                f"intervals are not used, since there are more than {_MOST_WITH_INTERVALS} backbones"
            )
        return fields, said


def _blocks(place: int, count: int, error: float) -> list[float]:
    """(2 count,) contributions of blocks to one of `count` scores, whose standard error is `error`; no score shares a
    block with another."""
    parts = np.zeros(2 * count)
    # `draws` takes J / (J - 1) times the sum of squares for the variance
    parts[2 * place : 2 * place + 2] = (
        np.array([1, -1]) * error * math.sqrt((2 * count - 1) / (4 * count))
    )
    return parts.tolist()
